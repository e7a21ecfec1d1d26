package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/live"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/webpush"
	"godwit.dev/godwit/internal/server/app/sending"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/store"
)

func (p *program) channelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "channel",
		Short: "Manage the channels of an app: Web Push and others",
		Long:  "Manage the settings and credentials of an app's channels in a data folder. A server that runs on it notices within a second.",
		Args:  subcommandOnly,
		RunE:  help,
	}
	cmd.AddCommand(p.channels().listCommand(p, "List the channels and their settings, without credentials"), p.channelSetCommand(), p.channelTestCommand(), p.channelDeleteCommand())
	return cmd
}

// withChannels runs do with the channels of the data folder and the named app.
func (p *program) withChannels(cmd *cobra.Command, appName string, do func(ctx context.Context, s *channel.Service, app string) error) error {
	return p.withApp(cmd, appName, func(ctx context.Context, c *config.Config, apps *store.Apps, name string) error {
		kinds := sending.Kinds(channel.Options{AllowPrivate: c.AllowPrivateURLs}, p.modules)
		kinds[push.Live] = live.Kind{}
		s, err := channel.New(ctx, apps.Channels, kinds, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer s.Close()
		return do(ctx, s, name)
	})
}

func (p *program) channels() settings[*channel.Service, channel.Info] {
	return settings[*channel.Service, channel.Info]{
		what: "channel", with: p.withChannels, info: channelInfo, columns: []string{"CHANNEL", "STATE", "SETTINGS"},
		all: func(_ context.Context, s *channel.Service, app string) ([]channel.Info, error) {
			return s.List(app), nil
		},
		row: func(i *channel.Info) []string { return []string{string(i.Channel), channelState(i), settingsText(i)} },
	}
}

func channelInfo(i *channel.Info) map[string]any {
	v := map[string]any{
		"channel": i.Channel, "configured": i.Configured, "enabled": i.Enabled, "settings": i.Settings, "credentials": i.Credentials,
	}
	if !i.UpdatedAt.IsZero() {
		v["updated_at"] = i.UpdatedAt
	}
	return v
}

func channelState(i *channel.Info) string {
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

func settingsText(i *channel.Info) string {
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
}

func (p *program) channelSetCommand() *cobra.Command {
	var o channelSettings
	cmd := &cobra.Command{
		Use:   "set CHANNEL",
		Short: "Set a channel up or change it",
		Long: `Set a channel up or change it. Only what is named changes; an empty value takes it away. Credentials are read from
files, never from arguments, which other users can see. Without flags it lists the settings that the channel takes.`,
		Example: `  godwit channel set webpush --set subject=mailto:you@example.org --import-vapid vapid.json`,
		Args:    exactly("channel"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withChannels(cmd, o.app, func(ctx context.Context, s *channel.Service, name string) error {
				ch := push.Channel(args[0])
				fields, err := s.Fields(ch)
				if err != nil {
					return unknownChannel(err, s)
				}
				change, err := o.change(ch, fields)
				if err != nil {
					return err
				}
				if change.Enabled == nil && len(change.Values) == 0 {
					return p.printFields(fields)
				}
				info, made, err := s.Set(ctx, name, ch, change)
				if err != nil {
					return err
				}
				return p.printChannel(info, made)
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.set, "set", nil, "a setting as NAME=VALUE (repeatable)")
	f.StringArrayVar(&o.files, "secret-file", nil, "a credential as NAME=FILE (repeatable)")
	f.StringVar(&o.vapid, "import-vapid", "", "webpush: file with the VAPID key that browsers have subscribed with: JSON of web-push, PEM, or base64url")
	f.BoolVar(&o.enable, "enable", false, "switch the channel on")
	f.BoolVar(&o.disable, "disable", false, "switch the channel off")
	p.channels().flags(cmd, &o.app)
	return cmd
}

func unknownChannel(err error, s *channel.Service) error {
	names := []string{}
	for _, ch := range s.Channels() {
		names = append(names, string(ch))
	}
	return withHint(err, "there are %s", strings.Join(names, ", "))
}

// change returns the changes that the flags request.
func (o *channelSettings) change(ch push.Channel, fields []channel.Field) (c channel.Change, err error) {
	c.Values = channel.Values{}
	secret := map[string]bool{}
	for _, f := range fields {
		secret[f.Name] = f.Secret
	}
	for _, kv := range o.set {
		k, v, ok := strings.Cut(kv, "=")
		switch {
		case !ok:
			return c, usagef("--set %s is not NAME=VALUE", kv)
		case secret[k] && v != "":
			return c, withHint(usagef("%s is a credential, and arguments can be seen by others", k), "put it into a file: --secret-file %s=FILE", k)
		case v == "false":
			v = ""
		}
		c.Values[k] = v
	}
	files := o.files
	if o.vapid != "" {
		if ch != push.WebPush {
			return c, usagef("--import-vapid is for the channel webpush")
		}
		files = append(files, webpush.FieldKey+"="+o.vapid)
	}
	for _, kv := range files {
		k, file, ok := strings.Cut(kv, "=")
		if !ok {
			return c, usagef("--secret-file %s is not NAME=FILE", kv)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return c, fmt.Errorf("read %s: %w", k, err)
		}
		c.Values[k] = textfile.Key(b)
	}
	if o.enable && o.disable {
		return c, usagef("--enable and --disable contradict each other")
	}
	if o.enable || o.disable {
		c.Enabled = &o.enable
	}
	return c, nil
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

func (p *program) printChannel(info channel.Info, made channel.Values) error {
	if p.json {
		v := channelInfo(&info)
		if len(made) > 0 {
			v["made"] = map[string]string(made)
		}
		return p.line(v)
	}
	fmt.Fprintf(p.stdout, "Channel %s is %s.\n", info.Channel, channelState(&info))
	for _, k := range slices.Sorted(maps.Keys(made)) {
		fmt.Fprintf(p.stdout, "Its %s, shown this once:\n\n  %s\n", k, p.paint(bold, made[k]))
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
			ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
			defer cancel()
			return p.withChannels(cmd, appName, func(_ context.Context, s *channel.Service, name string) error {
				about, err := tryChannel(ctx, s, name, push.Channel(args[0]), address)
				if errors.Is(err, channel.ErrUnknown) {
					return unknownChannel(err, s)
				}
				if err != nil {
					return fmt.Errorf("test %s: %w", args[0], err)
				}
				if p.json {
					return p.line(map[string]any{"ok": true, "detail": about})
				}
				_, err = fmt.Fprintf(p.stdout, "Channel %s works: %s.\n", args[0], clean(about))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&address, "address", "", `send a test message to this address, like '{"chat_id":"42"}'`)
	p.channels().flags(cmd, &appName)
	return cmd
}

func tryChannel(ctx context.Context, s *channel.Service, appName string, ch push.Channel, address string) (string, error) {
	if address == "" {
		return s.Check(ctx, appName, ch)
	}
	sender, err := s.Sender(ctx, appName, ch)
	if err != nil {
		return "", err
	}
	_, err = sender.Send(ctx, push.Request{
		ID: "test", App: appName, Address: []byte(address), ExpiresAt: time.Now().Add(10 * time.Minute),
		Content: push.Content{Title: "Test", Body: "It works."},
	})
	return "the message was accepted", err
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
			return p.withChannels(cmd, appName, func(ctx context.Context, s *channel.Service, name string) error {
				if err := s.Delete(ctx, name, push.Channel(args[0])); err != nil {
					return err
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
	p.channels().flags(cmd, &appName)
	return cmd
}
