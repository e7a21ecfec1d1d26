package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/live"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/webpush"
	"godwit.dev/godwit/internal/server/app/sending"
)

func (p *program) channelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "channel",
		Short: "Manage the channels of an app: Web Push and others",
		Long:  "Manage the settings and credentials of an app's channels, with the server's operator key or an API key of role admin.",
		Args:  subcommandOnly,
		RunE:  help,
	}
	cmd.AddCommand(p.channels().listCommand(p, "List the channels and their settings, without credentials"), p.channelSetCommand(), p.channelTestCommand(), p.channelDeleteCommand())
	return cmd
}

// channelJSON is a channel's settings in the API.
type channelJSON struct {
	Channel     string            `json:"channel"`
	Configured  bool              `json:"configured"`
	Enabled     bool              `json:"enabled"`
	Settings    map[string]any    `json:"settings"`
	Credentials []string          `json:"credentials"`
	UpdatedAt   time.Time         `json:"updated_at"`
	Made        map[string]string `json:"made,omitempty"`

	raw json.RawMessage // all of it, for --json
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *channelJSON) UnmarshalJSON(b []byte) error {
	type plain channelJSON
	i.raw = append(json.RawMessage{}, b...)
	return json.Unmarshal(b, (*plain)(i))
}

func (p *program) channels() settings[channelJSON] {
	return settings[channelJSON]{
		what: "channel", path: "/v1/channels", columns: []string{"CHANNEL", "STATE", "SETTINGS"},
		row: func(i *channelJSON) []string { return []string{i.Channel, i.state(), settingsText(i)} },
	}
}

// channelFields returns the settings of a channel.
func (p *program) channelFields(name string) ([]channel.Field, error) {
	kinds := sending.Kinds(channel.Options{}, p.modules)
	kinds[push.Live] = live.Kind{}
	kind, ok := kinds[push.Channel(name)]
	if !ok {
		names := []string{}
		for _, ch := range slices.Sorted(maps.Keys(kinds)) {
			names = append(names, string(ch))
		}
		return nil, withHint(fmt.Errorf("%w: %.64q", channel.ErrUnknown, name), "there are %s", strings.Join(names, ", "))
	}
	return kind.Fields(), nil
}

func (i *channelJSON) state() string {
	switch {
	case !i.Configured:
		return "not configured"
	case !i.Enabled:
		return "disabled"
	case i.UpdatedAt.IsZero():
		return "ready on first use"
	}
	return "enabled"
}

func settingsText(i *channelJSON) string {
	parts := []string{}
	for _, k := range slices.Sorted(maps.Keys(i.Settings)) {
		parts = append(parts, clean(fmt.Sprintf("%s=%v", k, i.Settings[k])))
	}
	for _, c := range i.Credentials {
		parts = append(parts, c+"=(set)")
	}
	return strings.Join(parts, " ")
}

// channelSettings holds the flags of channel set.
type channelSettings struct {
	app, vapid      string
	set, files      []string
	enable, disable bool
	own             bool
}

func (p *program) channelSetCommand() *cobra.Command {
	var o channelSettings
	cmd := &cobra.Command{
		Use:   "set CHANNEL",
		Short: "Set a channel up or change it",
		Long: `Set a channel up or change it. Only what is named changes; an empty value takes it away. Credentials are read from
files, never from arguments, which other users can see. Without flags it lists the settings that the channel takes.`,
		Args: exactly("channel"),
		RunE: func(cmd *cobra.Command, args []string) error {
			fields, err := p.channelFields(args[0])
			if err != nil {
				return err
			}
			body, err := o.change(args[0], fields)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("own-service") {
				if args[0] != string(push.WebPush) {
					return usagef("--own-service is for the channel webpush")
				}
				body[webpush.FieldOwn] = o.own
			}
			if len(body) == 0 {
				return p.printFields(fields)
			}
			return p.withControl(cmd, o.app, func(c *control) error {
				var now channelJSON
				if err := c.call(cmd, http.MethodPut, p.channels().at(args[0]), body, &now); err != nil {
					return fmt.Errorf("set channel %s: %w", args[0], err)
				}
				return p.printChannel(&now)
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.set, "set", nil, "a setting as NAME=VALUE (repeatable)")
	f.StringArrayVar(&o.files, "secret-file", nil, "a credential as NAME=FILE (repeatable)")
	f.StringVar(&o.vapid, "import-vapid", "", "webpush: file with the VAPID key that browsers have subscribed with: JSON of web-push, PEM, or base64url")
	f.BoolVar(&o.own, "own-service", false, "webpush: subscribers of this server's own push service get messages without the network; --own-service=false ends that")
	f.BoolVar(&o.enable, "enable", false, "switch the channel on")
	f.BoolVar(&o.disable, "disable", false, "switch the channel off")
	p.channels().changeFlags(p, cmd, &o.app)
	return cmd
}

// change returns the body of a request with the changes that the flags name.
func (o *channelSettings) change(ch string, fields []channel.Field) (map[string]any, error) {
	body, known := map[string]any{}, map[string]channel.Field{}
	for _, f := range fields {
		known[f.Name] = f
	}
	for _, kv := range o.set {
		k, v, ok := strings.Cut(kv, "=")
		switch {
		case !ok:
			return nil, usagef("--set %s is not NAME=VALUE", kv)
		case known[k].Secret && v != "":
			return nil, withHint(usagef("%s is a credential, and arguments can be seen by others", k), "put it into a file: --secret-file %s=FILE", k)
		case v == "":
			body[k] = nil
		case known[k].Type == setting.Bool && (v == "true" || v == "false"):
			body[k] = v == "true"
		default:
			body[k] = v
		}
	}
	if err := o.readSecrets(ch, body); err != nil {
		return nil, err
	}
	if o.enable && o.disable {
		return nil, usagef("--enable and --disable contradict each other")
	}
	if o.enable || o.disable {
		body["enabled"] = o.enable
	}
	return body, nil
}

// readSecrets adds the credentials in the files that the flags name.
func (o *channelSettings) readSecrets(ch string, body map[string]any) error {
	files := o.files
	if o.vapid != "" {
		if ch != string(push.WebPush) {
			return usagef("--import-vapid is for the channel webpush")
		}
		files = append(files, webpush.FieldKey+"="+o.vapid)
	}
	for _, kv := range files {
		k, file, ok := strings.Cut(kv, "=")
		if !ok {
			return usagef("--secret-file %s is not NAME=FILE", kv)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read %s: %w", k, err)
		}
		body[k] = textfile.Key(b)
	}
	return nil
}

func (p *program) printFields(fields []channel.Field) error {
	rows := [][]string{}
	for _, f := range fields {
		if p.json {
			if err := p.line(map[string]any{"name": f.Name, "secret": f.Secret, "help": f.Help}); err != nil {
				return err
			}
			continue
		}
		how := "--set " + f.Name + "="
		if f.Secret {
			how = "--secret-file " + f.Name + "="
		}
		rows = append(rows, []string{how, f.Help})
	}
	if p.json {
		return nil
	}
	return p.table([]string{"SETTING", "MEANING"}, rows)
}

func (p *program) printChannel(i *channelJSON) error {
	if p.json {
		return p.line(i.raw)
	}
	fmt.Fprintf(p.stdout, "Channel %s is %s.\n", i.Channel, i.state())
	for _, k := range slices.Sorted(maps.Keys(i.Made)) {
		fmt.Fprintf(p.stdout, "Its %s, shown this once:\n\n  %s\n", k, p.paint(bold, i.Made[k]))
	}
	return nil
}

func (p *program) channelTestCommand() *cobra.Command {
	var appName, address string
	cmd := &cobra.Command{
		Use:   "test CHANNEL",
		Short: "Try a channel's credentials, or send a test message",
		Args:  exactly("channel"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := p.channelFields(args[0]); err != nil {
				return err
			}
			var body any
			if address != "" {
				if !json.Valid([]byte(address)) {
					return withHint(usagef("--address %s is not JSON", address), `write it like '{"chat_id":"42"}'`)
				}
				body = map[string]json.RawMessage{"address": json.RawMessage(address)}
			}
			return p.withControl(cmd, appName, func(c *control) error {
				var answer struct {
					OK     bool
					Detail string
				}
				if err := c.call(cmd, http.MethodPost, p.channels().at(args[0])+"/test", body, &answer); err != nil {
					return fmt.Errorf("test %s: %w", args[0], err)
				}
				if !answer.OK {
					return fmt.Errorf("test %s: %s", args[0], clean(answer.Detail))
				}
				if address != "" {
					answer.Detail = "the message was accepted"
				}
				if p.json {
					return p.line(map[string]any{"ok": true, "detail": answer.Detail})
				}
				_, err := fmt.Fprintf(p.stdout, "Channel %s works: %s.\n", args[0], clean(answer.Detail))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&address, "address", "", `send a test message to this address, like '{"chat_id":"42"}'`)
	p.channels().flags(p, cmd, &appName)
	return cmd
}

func (p *program) channelDeleteCommand() *cobra.Command {
	var appName string
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete CHANNEL",
		Short: "Forget a channel's settings and credentials",
		Args:  exactly("channel"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				return withHint(usagef("deleting the settings of %s deletes its credentials, a VAPID key for good", args[0]), "add --yes if that is meant")
			}
			return p.withControl(cmd, appName, func(c *control) error {
				if err := c.call(cmd, http.MethodDelete, p.channels().at(args[0]), nil, nil); err != nil {
					return fmt.Errorf("delete channel %s: %w", args[0], err)
				}
				if p.json {
					return p.line(map[string]string{"deleted": args[0]})
				}
				_, err := fmt.Fprintf(p.stdout, "The settings of %s are deleted.\n", args[0])
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "really delete")
	p.channels().changeFlags(p, cmd, &appName)
	return cmd
}
