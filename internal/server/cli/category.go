package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/notification"
)

func (p *program) categoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "category",
		Short: "Say what holds for an app's categories",
		Long: `Say what holds for the categories of an app's notifications: which of them nobody can refuse, how often they escalate, how
many campaigns reach one person, which gather into digests, and what recipients' inboxes keep. The commands need the server's operator key
or an API key of role admin.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.categories().listCommand(p, "List what is said of categories"), p.categorySetCommand(), p.categoryDeleteCommand())
	return cmd
}

// categoryJSON is a category's settings in the API.
type categoryJSON struct {
	Category  string `json:"category"`
	Critical  bool   `json:"critical"`
	Limit     string `json:"escalate_limit"`
	Campaigns string `json:"campaign_limit,omitempty"`
	Beyond    string `json:"campaign_beyond,omitempty"`
	Inbox     bool   `json:"inbox,omitempty"`
	Keep      string `json:"keep,omitempty"`
	Digest    *struct {
		Window   string  `json:"window"`
		By       *string `json:"by"`
		Max      int     `json:"max"`
		Template *string `json:"template"`
	} `json:"digest,omitempty"`
	Revision string `json:"revision,omitempty"`
}

func (p *program) categories() settings[categoryJSON] {
	return settings[categoryJSON]{
		what: "category", path: "/v1/categories", columns: []string{"CATEGORY", "CRITICAL", "LIMIT", "INBOX"},
		row: func(c *categoryJSON) []string {
			return []string{c.Category, fmt.Sprint(c.Critical), c.limits(), c.inbox()}
		},
	}
}

// limits describes the limits on escalation steps and on campaigns.
func (c *categoryJSON) limits() string {
	list := []string{}
	if c.Limit != "" {
		list = append(list, c.Limit)
	}
	if c.Campaigns != "" {
		list = append(list, fmt.Sprintf("campaigns %s, %s", c.Campaigns, c.Beyond))
	}
	if d := c.Digest; d != nil {
		text := "digest " + d.Window
		if d.By != nil {
			text += " by " + clean(*d.By)
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// inbox describes what inboxes keep.
func (c *categoryJSON) inbox() string {
	if !c.Inbox {
		return ""
	}
	return "keeps " + cmp.Or(c.Keep, preference.Keep(notification.DefaultKeep).String())
}

func (p *program) categorySetCommand() *cobra.Command {
	var appName, limit, campaigns, beyond, window, keep string
	var c preference.Category
	cmd := &cobra.Command{
		Use:   "set CATEGORY",
		Short: "Say what holds for a category, in place of what was said before",
		Long: `Say what holds for a category, in place of what was said before. '*' is every category of which nothing is said, and what
has none.`,
		Args: exactly("category"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if limit == "" && campaigns == "" && window == "" && !c.Critical && !c.Inbox && keep == "" {
				return withHint(usagef("nothing is said of %s", args[0]), "give --critical, --escalate-limit, --campaign-limit, --digest-window or --inbox, or take back what was said with godwit category delete")
			}
			if limit != "" {
				if c.Limit, err = preference.ParseLimit(limit); err != nil {
					return err
				}
			}
			if campaigns != "" {
				if c.Campaigns, err = preference.ParseCampaignLimit(campaigns); err != nil {
					return err
				}
			}
			if c.Excess, err = preference.ParseExcess(beyond); err != nil {
				return err
			}
			if keep != "" {
				if c.Keep, err = preference.ParseKeep(keep); err != nil {
					return err
				}
			}
			if err := c.Check(); err != nil {
				return err
			}
			body := map[string]any{"critical": c.Critical}
			if c.Inbox {
				body["inbox"] = true
			}
			if keep != "" {
				body["keep"] = keep
			}
			if err := addDigest(body, window, &c.Digest); err != nil {
				return err
			}
			if limit != "" {
				body["escalate_limit"] = limit
			}
			if campaigns != "" {
				body["campaign_limit"], body["campaign_beyond"] = campaigns, beyond
			}
			return p.withControl(cmd, appName, func(c *control) error {
				var now categoryJSON
				if err := c.call(cmd, http.MethodPut, p.categories().at(args[0]), body, &now); err != nil {
					return fmt.Errorf("set category %s: %w", args[0], err)
				}
				if p.json {
					return p.line(now)
				}
				_, err := fmt.Fprintf(p.stdout, "Category %s is set.\n", args[0])
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&c.Critical, "critical", false, "preferences and quiet hours of recipients are not asked")
	cmd.Flags().StringVar(&limit, "escalate-limit", "", "most steps beyond live that begin for a recipient, like 3/m, 10/h or 20/d")
	cmd.Flags().StringVar(&campaigns, "campaign-limit", "", "most campaigns that reach one person, like 1/8h, 3/d or 5/7d")
	cmd.Flags().StringVar(&beyond, "campaign-beyond", preference.Defer.String(), "what becomes of a campaign's message beyond the limit: defer (it is sent when the limit allows) or suppress")
	cmd.Flags().BoolVar(&c.Inbox, "inbox", false, "recipients' inboxes keep its notifications")
	cmd.Flags().StringVar(&keep, "keep", "", "how long inboxes keep them, like 7d; at most 365d (default 30d)")
	cmd.Flags().StringVar(&window, "digest-window", "", "gathers notifications: the first of a key waits so long, like 10m or 24h, and one leaves for all")
	cmd.Flags().StringVar(&c.Digest.By, "digest-by", "", "field of the data whose value is the key, like post or order.id (default: all of a recipient gather together)")
	cmd.Flags().IntVar(&c.Digest.Max, "digest-max", 0, "notifications with which a digest leaves at once (default 1000)")
	cmd.Flags().StringVar(&c.Digest.Template, "digest-template", "", "template that makes the digest (default: a plain text)")
	p.categories().changeFlags(p, cmd, &appName)
	return cmd
}

// addDigest adds how a category gathers to the body of a call.
func addDigest(body map[string]any, window string, d *preference.Digest) (err error) {
	if window == "" {
		if !d.IsZero() {
			return withHint(usagef("a category that gathers needs a window"), "give --digest-window, like 10m")
		}
		return nil
	}
	if d.Window, err = notification.ParseDuration(window); err != nil {
		return usagef("--digest-window: %w", err)
	}
	if err := d.Check(); err != nil {
		return err
	}
	said := map[string]any{"window": window}
	if d.By != "" {
		said["by"] = d.By
	}
	if d.Max != 0 {
		said["max"] = d.Max
	}
	if d.Template != "" {
		said["template"] = d.Template
	}
	body["digest"] = said
	return nil
}

func (p *program) categoryDeleteCommand() *cobra.Command {
	var appName string
	cmd := &cobra.Command{
		Use:   "delete CATEGORY",
		Short: "Take back what was said of a category",
		Args:  exactly("category"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withControl(cmd, appName, func(c *control) error {
				if err := c.call(cmd, http.MethodDelete, p.categories().at(args[0]), nil, nil); err != nil {
					return fmt.Errorf("delete category %s: %w", args[0], err)
				}
				if p.json {
					return p.line(map[string]string{"deleted": args[0]})
				}
				_, err := fmt.Fprintf(p.stdout, "Nothing is said of category %s any more.\n", args[0])
				return err
			})
		},
	}
	p.categories().changeFlags(p, cmd, &appName)
	return cmd
}
