package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/notify/notification"
)

// recipientJSON holds the fields of a recipient in the API that commands show.
type recipientJSON struct {
	ID       string    `json:"id"`
	Pending  int       `json:"pending"`
	LastSeq  uint64    `json:"last_seq"`
	LastSeen time.Time `json:"last_seen"`
	Online   bool      `json:"online"`
	Presence string    `json:"presence"`
	Devices  []string  `json:"devices"`
	Sessions []struct {
		ID          string    `json:"id"`
		Node        string    `json:"node"`
		Device      string    `json:"device"`
		Gateway     string    `json:"gateway"`
		ConnectedAt time.Time `json:"connected_at"`
		Unacked     int       `json:"unacked"`
		Behind      bool      `json:"behind"`
	} `json:"sessions"`
	Endpoints []struct {
		ID      string `json:"id"`
		Channel string `json:"channel"`
		Status  string `json:"status"`
	} `json:"endpoints"`
	Registrations []struct {
		Group  string `json:"group"`
		Object string `json:"object"`
		Device string `json:"device"`
		Acked  string `json:"acked_version"`
	} `json:"registrations"`
}

func (p *program) recipientCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recipient",
		Short: "See who notifications are for: mailbox, sessions, history; disconnect, erase",
		Args:  subcommandOnly,
		RunE:  help,
	}
	cmd.AddCommand(p.recipientListCommand(), p.recipientShowCommand(), p.recipientHistoryCommand(), p.recipientDisconnectCommand(), p.recipientEraseCommand())
	return cmd
}

func recipientPath(name string) string { return "/v1/recipients/" + url.PathEscape(name) }

func (p *program) recipientListCommand() *cobra.Command {
	limit, prefix := 100, ""
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List recipients by name",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if prefix != "" {
				query.Set("prefix", prefix)
			}
			return p.withClient(func(c *godwit.Client) error {
				return list(cmd.Context(), p, c, "/v1/recipients", query, limit, []string{"RECIPIENT", "PENDING", "ONLINE", "SESSIONS", "LAST SEEN"}, func(r *recipientJSON) []string {
					return []string{clean(r.ID), strconv.Itoa(r.Pending), yesNo(r.Online), strconv.Itoa(len(r.Sessions)), moment(r.LastSeen)}
				})
			})
		},
	}
	limitFlag(cmd, &limit)
	cmd.Flags().StringVar(&prefix, "prefix", "", "only those whose names begin with this")
	return cmd
}

func limitFlag(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVar(limit, "limit", *limit, "most to list; 0: all")
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func (p *program) recipientShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show RECIPIENT",
		Short: "Show a recipient: what waits, sessions, endpoints, registrations",
		Args:  names("recipient"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				var raw json.RawMessage
				if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodGet, Path: recipientPath(args[0])}, &raw); err != nil {
					return fmt.Errorf("read recipient %s: %w", args[0], err)
				}
				if p.json {
					return p.line(raw)
				}
				var r recipientJSON
				if err := json.Unmarshal(raw, &r); err != nil {
					return fmt.Errorf("read answer: %w", err)
				}
				return p.showRecipient(&r)
			})
		},
	}
}

func (p *program) showRecipient(r *recipientJSON) error {
	var b strings.Builder
	state := "offline, last seen " + moment(r.LastSeen)
	if r.LastSeen.IsZero() {
		state = "never connected"
	}
	if r.Online {
		state = "online"
	}
	if r.Presence != "" {
		state += "; not every node could be asked, so sessions may be missing"
	}
	fmt.Fprintf(&b, "%s %s\n  %d pending, newest seq %d\n", p.paint(bold, clean(r.ID)), state, r.Pending, r.LastSeq)
	for _, s := range r.Sessions {
		text := fmt.Sprintf("%s at %s since %s, %d unacknowledged", s.Gateway, clean(s.Node), moment(s.ConnectedAt), s.Unacked)
		if s.Device != "" {
			text += ", device " + clean(s.Device)
		}
		if s.Behind {
			text += ", does not keep up"
		}
		fmt.Fprintf(&b, "  session %s: %s\n", s.ID, text)
	}
	for _, e := range r.Endpoints {
		fmt.Fprintf(&b, "  endpoint %s: %s, %s\n", e.ID, e.Channel, e.Status)
	}
	for _, g := range r.Registrations {
		acked := g.Acked
		if acked == "" {
			acked = "none"
		}
		fmt.Fprintf(&b, "  registered for %s/%s: version %s acknowledged\n", clean(g.Group), clean(g.Object), acked)
	}
	_, err := fmt.Fprint(p.stdout, b.String())
	return err
}

func (p *program) recipientHistoryCommand() *cobra.Command {
	var status string
	limit := 20
	cmd := &cobra.Command{
		Use:   "history RECIPIENT",
		Short: "List what was published to a recipient, newest first",
		Args:  names("recipient"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := url.Values{}
			if status != "" {
				q.Set("status", status)
			}
			return p.withClient(func(c *godwit.Client) error {
				return list(cmd.Context(), p, c, recipientPath(args[0])+"/notifications", q, limit, []string{"ID", "STATUS", "CREATED", "ENDED", "ATTEMPTS", "TOOK"}, func(s *statusJSON) []string {
					return []string{s.ID, s.Status.Status, moment(s.CreatedAt), moment(s.SettledAt), strconv.Itoa(s.Attempts), took(s.LatencyMS)}
				})
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "only these: "+strings.Join(statuses, ", "))
	limitFlag(cmd, &limit)
	return cmd
}

// statuses of notifications.
var statuses = notification.StatusNames()

func (p *program) recipientDisconnectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "disconnect RECIPIENT",
		Short: "End a recipient's sessions, which may come back",
		Args:  names("recipient"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				var done struct {
					Disconnected int    `json:"disconnected"`
					Presence     string `json:"presence,omitempty"`
				}
				if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodDelete, Path: recipientPath(args[0]) + "/sessions"}, &done); err != nil {
					return fmt.Errorf("disconnect %s: %w", args[0], err)
				}
				if p.json {
					return p.line(done)
				}
				note := ""
				if done.Presence != "" {
					note = "; not every node could be asked, so there may be more"
				}
				_, err := fmt.Fprintf(p.stdout, "%s of %s ended%s\n", many(done.Disconnected, "session"), args[0], note)
				return err
			})
		},
	}
}

func (p *program) recipientEraseCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "erase RECIPIENT",
		Short: "Forget a recipient and everything it ever got",
		Long: `Forget a recipient: what waits for it and what it ever got, its endpoints, registrations and preferences. Its sessions end.
That cannot be undone; backups that were made before still hold it.`,
		Args: names("recipient"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				return withHint(usagef("erasing %s deletes everything that was ever published to it, for good", args[0]), "add --yes if that is meant")
			}
			return p.withClient(func(c *godwit.Client) error {
				if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodDelete, Path: recipientPath(args[0])}, nil); err != nil {
					return fmt.Errorf("erase %s: %w", args[0], err)
				}
				if p.json {
					return p.line(map[string]string{"erased": args[0]})
				}
				_, err := fmt.Fprintf(p.stdout, "%s is erased.\n", args[0])
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}
