package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/feeds/event"
)

// hookJSON holds the fields of a hook in the API that commands show.
type hookJSON struct {
	Name            string    `json:"name"`
	URL             string    `json:"url"`
	Types           []string  `json:"types"`
	State           string    `json:"state"`
	Cursor          string    `json:"cursor"`
	NewestEventID   string    `json:"newest_event_id"`
	Delivered       int64     `json:"delivered"`
	LastDeliveredAt time.Time `json:"last_delivered_at"`
	FailingSince    time.Time `json:"failing_since"`
	Attempts        int       `json:"attempts"`
	NextAttemptAt   time.Time `json:"next_attempt_at"`
	LastError       string    `json:"last_error"`
	PausedAt        time.Time `json:"paused_at"`
	PausedReason    string    `json:"paused_reason"`
	Secret          string    `json:"secret"`
	Revision        string    `json:"revision"`

	raw json.RawMessage // all of it, for --json
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *hookJSON) UnmarshalJSON(b []byte) error {
	type plain hookJSON
	h.raw = append(json.RawMessage{}, b...)
	return json.Unmarshal(b, (*plain)(h))
}

func (p *program) hookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Have events posted to URLs of yours",
		Long: `Have the app's events posted to a URL, one a request, in order, signed as Standard Webhooks says. What fails is tried again
for five days; then the hook is paused until it is set again. Changing hooks needs a key of role admin.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.hookListCommand(), p.hookShowCommand(), p.hookSetCommand(), p.hookReplayCommand(), p.hookDeleteCommand())
	return cmd
}

// eventTypes of the API.
var eventTypes = func() (list []string) {
	for _, t := range event.Types {
		list = append(list, string(t))
	}
	return list
}()

func hookPath(name string) string { return "/v1/hooks/" + url.PathEscape(name) }

func (p *program) hookListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the app's hooks and how they fare",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withClient(func(c *godwit.Client) error {
				return list(cmd.Context(), p, c, "/v1/hooks", nil, unpaged, []string{"HOOK", "STATE", "DELIVERED", "URL", "TYPES"}, func(h *hookJSON) []string {
					return []string{h.Name, h.State, strconv.FormatInt(h.Delivered, 10), clean(h.URL), typesOr(h.Types, "all")}
				})
			})
		},
	}
}

func typesOr(types []string, none string) string {
	if len(types) == 0 {
		return none
	}
	return strings.Join(types, ",")
}

func (p *program) hookShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a hook: how far it has come, since when it fails and why",
		Args:  names("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				return p.callHook(cmd, c, godwit.Call{Method: http.MethodGet, Path: hookPath(args[0])}, "read hook "+args[0])
			})
		},
	}
}

// callHook makes a call that returns a hook and shows the hook.
func (p *program) callHook(cmd *cobra.Command, c *godwit.Client, call godwit.Call, doing string) error {
	var h hookJSON
	if err := c.Call(cmd.Context(), call, &h); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if p.json {
		return p.line(h.raw)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", p.paint(bold, h.Name), h.State)
	row := func(what, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(&b, "  %-10s %s\n", what, value)
		}
	}
	row("revision", clean(h.Revision))
	row("url", clean(h.URL))
	row("events", typesOr(h.Types, "all"))
	row("position", fmt.Sprintf("%s of %s, %d delivered, last %s", h.Cursor, h.NewestEventID, h.Delivered, moment(h.LastDeliveredAt)))
	if !h.FailingSince.IsZero() {
		row("failing", fmt.Sprintf("since %s, %d attempts at the next event, again at %s", moment(h.FailingSince), h.Attempts, moment(h.NextAttemptAt)))
	}
	row("error", clean(h.LastError))
	if !h.PausedAt.IsZero() {
		row("paused", moment(h.PausedAt)+": "+clean(h.PausedReason))
	}
	if h.Secret != "" {
		fmt.Fprintf(&b, "Its secret, shown this once; give it to the receiver:\n\n  %s\n", p.paint(bold, h.Secret))
	}
	_, err := fmt.Fprint(p.stdout, b.String())
	return err
}

func (p *program) hookSetCommand() *cobra.Command {
	var types []string
	var secrets string
	var disable bool
	cmd := &cobra.Command{
		Use:   "set NAME URL",
		Short: "Post events to a URL from now on, or let a paused hook go on",
		Long: `Post the app's events that happen from now on to a URL. A hook that is there already is changed, and goes on where it
stands. A new one gets a secret, shown once, unless --secret-file has one.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := exactly("name", "url")(cmd, args); err != nil {
				return err
			}
			return names("name")(cmd, args[:1])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"url": args[1], "types": append([]string{}, types...), "enabled": !disable}
			if secrets != "" {
				b, err := os.ReadFile(secrets)
				if err != nil {
					return fmt.Errorf("read secrets: %w", err)
				}
				list := strings.Fields(textfile.Plain(b))
				if len(list) == 0 {
					return usagef("--secret-file %s holds no secret", secrets)
				}
				body["secrets"] = list
			}
			return p.withClient(func(c *godwit.Client) error {
				return p.callHook(cmd, c, godwit.Call{Method: http.MethodPut, Path: hookPath(args[0]), Body: body, IfMatch: atRevision(cmd)}, "set hook "+args[0])
			})
		},
	}
	s := cmd.Flags()
	s.StringSliceVar(&types, "types", nil, "only these events: "+strings.Join(eventTypes, " ")+" (default: all)")
	s.StringVar(&secrets, "secret-file", "", "file with the secrets that sign, whsec_ and base64, one a line: the new one and, until the receiver knows it, the old one")
	s.BoolVar(&disable, "disable", false, "post nothing until it is set again without this")
	revisionFlag(cmd, "hook", "hook show")
	return cmd
}

func (p *program) hookReplayCommand() *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use:   "replay NAME --since EVENT_ID",
		Short: "Post events again, with the webhook-id that they had",
		Args:  names("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if since == "" {
				return withHint(usagef("--since is missing: after which event?"), "godwit events --since 0 lists events with their ids; --since 0 posts all that are kept")
			}
			return p.withClient(func(c *godwit.Client) error {
				call := godwit.Call{Method: http.MethodPost, Path: hookPath(args[0]) + "/replay", Body: map[string]string{"since": since}}
				return p.callHook(cmd, c, call, "replay events to hook "+args[0])
			})
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "post what happened after this event_id; 0: all that is kept")
	return cmd
}

func (p *program) hookDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "delete NAME", Short: "End a hook", Args: names("name")}
	revisionFlag(cmd, "hook", "hook show")
	return p.deletes(cmd, "hook", hookPath, "Hook %s has ended.")
}
