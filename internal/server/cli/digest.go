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
)

func (p *program) digestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "digest",
		Short: "Show what waits in digests, and what has left",
		Long: `Show digests: what waits in them, when they leave, and which ones have left. A category gathers after
godwit category set CATEGORY --digest-window 10m.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.digestListCommand(), p.digestShowCommand())
	return cmd
}

// digestJSON is a digest in the API.
type digestJSON struct {
	ID       string    `json:"id"`
	To       string    `json:"to"`
	Category string    `json:"category"`
	Key      string    `json:"key"`
	State    string    `json:"state"`
	Count    int       `json:"count"`
	OpenedAt time.Time `json:"opened_at"`
	DueAt    time.Time `json:"due_at"`
	SentAt   time.Time `json:"sent_at"`
	Items    []string  `json:"items"`
}

// leaves tells when a digest leaves, or left.
func (d *digestJSON) leaves() string {
	if d.SentAt.IsZero() {
		return moment(d.DueAt)
	}
	return moment(d.SentAt)
}

func (p *program) digestListCommand() *cobra.Command {
	var to string
	var waiting bool
	limit := 100
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List digests, newest first",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if to != "" {
				query.Set("to", to)
			}
			if waiting {
				query.Set("state", "waiting")
			}
			return p.withClient(func(c *godwit.Client) error {
				return list(cmd.Context(), p, c, "/v1/digests", query, limit, []string{"DIGEST", "RECIPIENT", "CATEGORY", "KEY", "ITEMS", "STATE", "LEAVES"}, func(d *digestJSON) []string {
					return []string{d.ID, clean(d.To), clean(d.Category), clean(d.Key), strconv.Itoa(d.Count), d.State, d.leaves()}
				})
			})
		},
	}
	limitFlag(cmd, &limit)
	cmd.Flags().StringVar(&to, "to", "", "only those of this recipient")
	cmd.Flags().BoolVar(&waiting, "waiting", false, "only those that have not left")
	return cmd
}

func (p *program) digestShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show DIGEST",
		Short: "Show a digest with the ids of its notifications",
		Args:  exactly("digest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				var raw json.RawMessage
				if err := c.Call(cmd.Context(), godwit.Call{Method: http.MethodGet, Path: "/v1/digests/" + url.PathEscape(args[0])}, &raw); err != nil {
					return fmt.Errorf("read digest %s: %w", args[0], err)
				}
				if p.json {
					return p.line(raw)
				}
				var d digestJSON
				if err := json.Unmarshal(raw, &d); err != nil {
					return fmt.Errorf("read answer: %w", err)
				}
				var b strings.Builder
				fmt.Fprintf(&b, "%s for %s: %s, %s\n  category %s, key %s, opened %s, leaves %s\n", p.paint(bold, d.ID), clean(d.To), d.State, many(d.Count, "item"), clean(d.Category), clean(d.Key), moment(d.OpenedAt), d.leaves())
				for _, id := range d.Items {
					fmt.Fprintf(&b, "  %s\n", clean(id))
				}
				_, err := fmt.Fprint(p.stdout, b.String())
				return err
			})
		},
	}
}
