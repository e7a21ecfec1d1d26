package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/preference"
)

func (p *program) categoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "category",
		Short: "Say what holds for an app's categories",
		Long: `Say in a data folder what holds for the categories of an app's notifications: which of them nobody can refuse, how often
they escalate, and how many campaigns reach one person. A server that runs on it notices within a second.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.categories().listCommand(p, "List what is said of categories"), p.categorySetCommand(), p.categoryDeleteCommand())
	return cmd
}

// withCategories runs do with the apps of the data folder and the named app.
func (p *program) withCategories(cmd *cobra.Command, appName string, do func(ctx context.Context, r *access.Registry, app string) error) error {
	return p.withAccess(cmd, false, func(ctx context.Context, r *access.Registry) error {
		a, err := r.App(appName)
		if err != nil {
			return err
		}
		return do(ctx, r, a.Name)
	})
}

// category is a category's settings with its name.
type category struct {
	name string
	preference.Category
}

func (p *program) categories() settings[*access.Registry, category] {
	return settings[*access.Registry, category]{
		what: "category", with: p.withCategories, columns: []string{"CATEGORY", "CRITICAL", "LIMIT"},
		info: func(c *category) map[string]any { return categoryInfo(c.name, c.Category) },
		all: func(_ context.Context, r *access.Registry, app string) (list []category, _ error) {
			all := r.Categories(app)
			for _, name := range slices.Sorted(maps.Keys(all)) {
				list = append(list, category{name, all[name]})
			}
			return list, nil
		},
		row: func(c *category) []string {
			return []string{c.name, fmt.Sprint(c.Critical), c.limits()}
		},
	}
}

// limits describes the limits on escalation steps and on campaigns.
func (c *category) limits() string {
	list := []string{}
	if !c.Limit.IsZero() {
		list = append(list, c.Limit.String())
	}
	if !c.Campaigns.IsZero() {
		list = append(list, fmt.Sprintf("campaigns %s, %s", c.Campaigns, c.Excess))
	}
	return strings.Join(list, "; ")
}

func categoryInfo(name string, c preference.Category) map[string]any {
	info := map[string]any{"category": name, "critical": c.Critical, "escalate_limit": c.Limit.String()}
	if !c.Campaigns.IsZero() {
		info["campaign_limit"], info["campaign_beyond"] = c.Campaigns.String(), c.Excess.String()
	}
	return info
}

func (p *program) categorySetCommand() *cobra.Command {
	var appName, limit, campaigns, beyond string
	var c preference.Category
	cmd := &cobra.Command{
		Use:   "set CATEGORY",
		Short: "Say what holds for a category, in place of what was said before",
		Long: `Say what holds for a category, in place of what was said before. '*' is every category of which nothing is said, and what
has none.`,
		Example: `  godwit category set alarm --critical
  godwit category set promo --escalate-limit 3/d --campaign-limit 1/8h`,
		Args: exactly("category"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if limit == "" && campaigns == "" && !c.Critical {
				return withHint(usagef("nothing is said of %s", args[0]), "give --critical, --escalate-limit or --campaign-limit, or take back what was said with godwit category delete")
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
			return p.withCategories(cmd, appName, func(ctx context.Context, r *access.Registry, app string) error {
				if err := r.SetCategory(ctx, app, args[0], c); err != nil {
					return err
				}
				if p.json {
					return p.line(categoryInfo(args[0], c))
				}
				_, err := fmt.Fprintf(p.stdout, "Category %s of app %s is set.\n", args[0], app)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&c.Critical, "critical", false, "preferences and quiet hours of recipients are not asked")
	cmd.Flags().StringVar(&limit, "escalate-limit", "", "most steps beyond live that begin for a recipient, like 3/m, 10/h or 20/d")
	cmd.Flags().StringVar(&campaigns, "campaign-limit", "", "most campaigns that reach one person, like 1/8h, 3/d or 5/7d")
	cmd.Flags().StringVar(&beyond, "campaign-beyond", preference.Defer.String(), "what becomes of a campaign's message beyond the limit: defer (it is sent when the limit allows) or suppress")
	p.categories().flags(cmd, &appName)
	return cmd
}

func (p *program) categoryDeleteCommand() *cobra.Command {
	var appName string
	cmd := &cobra.Command{
		Use:   "delete CATEGORY",
		Short: "Take back what was said of a category",
		Args:  exactly("category"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withCategories(cmd, appName, func(ctx context.Context, r *access.Registry, app string) error {
				if err := r.DeleteCategory(ctx, app, args[0]); err != nil {
					return err
				}
				if p.json {
					return p.line(map[string]string{"deleted": args[0]})
				}
				_, err := fmt.Fprintf(p.stdout, "Nothing is said of category %s of app %s any more.\n", args[0], app)
				return err
			})
		},
	}
	p.categories().flags(cmd, &appName)
	return cmd
}
