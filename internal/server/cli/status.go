package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/notify/notification"
)

// statusJSON is the API's data about a recipient's copy.
type statusJSON struct {
	godwit.Status
	Channels []struct {
		Channel string    `json:"channel"`
		Status  string    `json:"status"`
		At      time.Time `json:"at"`
		Detail  string    `json:"detail"`
	} `json:"channels"`

	raw json.RawMessage // all of it, for --json
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *statusJSON) UnmarshalJSON(b []byte) error {
	type plain statusJSON
	s.raw = append(json.RawMessage{}, b...)
	return json.Unmarshal(b, (*plain)(s))
}

func notificationPath(id string) string { return "/v1/notifications/" + url.PathEscape(id) }

func (p *program) statusCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "status ID",
		Short: "Show what became of a notification",
		Long: `Show what became of a notification: one line for each recipient, or with --to all that is known of one copy. What has
ended is kept for a week, unless the server's setting retain says otherwise.`,
		Args: names("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				call := godwit.Call{Method: http.MethodGet, Path: notificationPath(args[0])}
				if to != "" {
					call.Query = url.Values{"to": {to}}
					var one statusJSON
					if err := c.Call(cmd.Context(), call, &one); err != nil {
						return fmt.Errorf("read status of %s for %s: %w", args[0], to, err)
					}
					return p.showStatus(&one)
				}
				var all struct{ Items []statusJSON }
				if err := c.Call(cmd.Context(), call, &all); err != nil {
					return fmt.Errorf("read status of %s: %w", args[0], err)
				}
				if err := readSteps(cmd.Context(), c, args[0], all.Items); err != nil {
					return err
				}
				if len(all.Items) == 1 && !p.json {
					return p.showStatus(&all.Items[0])
				}
				return p.listStatus(all.Items)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "only this recipient's copy, in full")
	return cmd
}

// mostWithSteps limits the copies whose steps are read one by one.
const mostWithSteps = 50

// readSteps reads each copy in full, since a list does not have the steps of escalations. Of more copies than mostWithSteps it reads none.
func readSteps(ctx context.Context, c *godwit.Client, id string, list []statusJSON) error {
	if len(list) > mostWithSteps {
		return nil
	}
	for i := range list {
		call := godwit.Call{Method: http.MethodGet, Path: notificationPath(id), Query: url.Values{"to": {list[i].To}}}
		if err := c.Call(ctx, call, &list[i]); err != nil {
			return fmt.Errorf("read status of %s for %s: %w", id, list[i].To, err)
		}
	}
	return nil
}

// stepsText returns the steps beyond live in one line.
func (s *statusJSON) stepsText() string {
	var list []string
	for _, c := range s.Channels {
		if c.Channel != "live" {
			list = append(list, clean(c.Channel)+" "+c.Status)
		}
	}
	return strings.Join(list, ", ")
}

func (p *program) recallCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "recall ID",
		Short: "Withdraw a notification",
		Long: `Withdraw a notification from all its recipients, or with --to from one. Who shows it is told to take it away. Copies that
have ended before, like those that were acknowledged, stay as they are.`,
		Args: names("id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				call := godwit.Call{Method: http.MethodDelete, Path: notificationPath(args[0])}
				if to != "" {
					call.Query = url.Values{"to": {to}}
				}
				var done struct {
					Recalled int `json:"recalled"`
				}
				if err := c.Call(cmd.Context(), call, &done); err != nil {
					return fmt.Errorf("recall %s: %w", args[0], err)
				}
				if p.json {
					return p.line(done)
				}
				note := ""
				if done.Recalled == 0 {
					note = ": every copy had ended before; godwit status " + args[0] + " shows how"
				}
				_, err := fmt.Fprintf(p.stdout, "%s withdrawn from %s%s\n", args[0], many(done.Recalled, "recipient"), note)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "only from this recipient")
	return cmd
}

// names is the argument rule of commands whose arguments are names in the API: it reports an error before any request.
func names(what ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := exactly(what...)(cmd, args); err != nil {
			return err
		}
		for i, name := range args {
			if err := notification.CheckName(what[i], name); err != nil {
				return withHint(usagef("%w", err), "names have letters, digits and . _ : @ + - only; %s --help explains", cmd.CommandPath())
			}
		}
		return nil
	}
}

func (p *program) listStatus(list []statusJSON) error {
	rows := [][]string{}
	for i := range list {
		s := &list[i]
		if p.json {
			if err := p.line(s.raw); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{clean(s.To), s.Status.Status, s.CreatedAt.Local().Format(time.DateTime), moment(s.SettledAt), strconv.Itoa(s.Attempts), took(s.LatencyMS), s.stepsText()})
	}
	if p.json {
		return nil
	}
	return p.table([]string{"TO", "STATUS", "CREATED", "ENDED", "ATTEMPTS", "TOOK", "STEPS"}, rows)
}

// showStatus prints all data about one copy.
func (p *program) showStatus(s *statusJSON) error {
	if p.json {
		return p.line(s.raw)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s for %s\n", p.paint(bold, s.Status.Status), s.ID, clean(s.To))
	row := func(what, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(&b, "  %-10s %s\n", what, value)
		}
	}
	row("created", moment(s.CreatedAt))
	row("due", moment(s.SendAt))
	row("expires", moment(s.ExpiresAt))
	row("delivered", moment(s.DeliveredAt))
	row("acked", moment(s.AckedAt))
	row("ended", moment(s.SettledAt))
	row("took", took(s.LatencyMS))
	row("attempts", strconv.Itoa(s.Attempts))
	for _, c := range s.Channels {
		row(c.Channel, strings.TrimSpace(c.Status+" "+moment(c.At)+" "+clean(c.Detail)))
	}
	if s.Reply != nil {
		text := fmt.Sprintf("%d bytes", len(s.Reply.Data))
		if utf8.Valid(s.Reply.Data) {
			text = clean(string(s.Reply.Data))
		}
		row("reply", text)
	}
	_, err := fmt.Fprint(p.stdout, b.String())
	return err
}

// moment writes a time for people; "-": never.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// took writes a duration in milliseconds for people; "-": it has not happened.
func took(ms float64) string {
	if ms <= 0 {
		return "-"
	}
	return time.Duration(ms * float64(time.Millisecond)).Round(100 * time.Microsecond).String()
}

// many counts things in words.
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
