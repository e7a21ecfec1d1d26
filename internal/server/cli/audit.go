package cli

import (
	"net/url"
	"time"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
)

// entryJSON is an action of the audit log, as the API returns it.
type entryJSON struct {
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Way     string    `json:"way"`
	Address string    `json:"address"`
	Action  string    `json:"deed"`
	Object  string    `json:"object"`
	Outcome string    `json:"outcome"`
}

func (p *program) auditCommand() *cobra.Command {
	limit, deed, by := 100, "", ""
	var since time.Duration
	var whole bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List what people did on the web page and back ends over the API",
		Long: `List what people did on the web page and what was changed over the API: who, when, from where, what, and how it ended. The
newest come first. It needs a key with the role admin. With --server it lists what operators did to apps and to the operator key, which
needs the operator key.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			for name, value := range map[string]string{"deed": deed, "by": by} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if since > 0 {
				query.Set("since", time.Now().Add(-since).UTC().Format(time.RFC3339))
			}
			show := func(c *godwit.Client) error {
				return list(cmd.Context(), p, c, "/v1/audit", query, limit, []string{"WHEN", "WHO", "WHAT", "TO WHAT", "OUTCOME", "FROM"}, func(d *entryJSON) []string {
					return []string{moment(d.At), clean(d.By), clean(d.Action), clean(d.Object), clean(d.Outcome), clean(d.Address) + " (" + clean(d.Way) + ")"}
				})
			}
			if whole {
				return p.withServer(cmd, false, func(c *control) error { return show(c.Client) })
			}
			return p.withClient(show)
		},
	}
	limitFlag(cmd, &limit)
	cmd.Flags().BoolVar(&whole, "server", false, "what operators did to apps and to the operator key")
	cmd.Flags().DurationVar(&since, "since", 0, "only what was done in this time, like 24h")
	cmd.Flags().StringVar(&deed, "deed", "", "only this, like campaign.start")
	cmd.Flags().StringVar(&by, "by", "", "only by this key or person")
	return cmd
}
