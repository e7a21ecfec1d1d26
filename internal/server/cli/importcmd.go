package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/tables"
	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/webpush"
)

func (p *program) importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Bring subscribers along from other services",
		Args:  subcommandOnly,
		RunE:  help,
	}
	cmd.AddCommand(p.importPerfectyCommand())
	return cmd
}

func (p *program) importPerfectyCommand() *cobra.Command {
	var vapid, subject string
	o := importOptions{channel: string(push.WebPush), read: tables.Options{Format: "csv"}}
	cmd := &cobra.Command{
		Use:   "perfecty FILE",
		Short: "Bring the subscribers of Perfecty Push along",
		Long: `Bring the subscribers of Perfecty Push along: FILE is CSV with the columns endpoint, p256dh, auth and uuid, or as the
table of the plugin calls them. Subscriptions belong to
the VAPID key that they were made with, so --vapid names a file with the site's key, which replaces the app's. Without it the key
stays as it is, and push services refuse what is sent to them, unless the app has the site's key already. Doing it again is harmless.

Stored are each subscription (endpoint, p256dh, auth), its uuid and the tags of --tag. is_active and disabled say who is left out.
No other column is stored: no address of a visitor, no user of WordPress, no time. docs/migrate/perfecty.md shows the whole way.`,
		Example: `  godwit import perfecty subscribers.csv --vapid vapid.json --subject mailto:you@example.org`,
		Args:    exactly("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if vapid != "" && !o.dry {
				if err := p.importVAPID(cmd, vapid, subject); err != nil {
					return err
				}
			}
			o.file, o.columns = args[0], p.perfectyColumns(o.tags)
			err := p.importFile(cmd.Context(), &o, perfectyRow)
			if vapid == "" && !o.dry {
				fmt.Fprintln(p.stderr, "warning: the app's VAPID key stays as it is. Push services refuse messages to subscribers of another key:\n"+
					"unless the app has the site's key already, import again with --vapid FILE before you send")
			}
			return err
		},
	}
	s := cmd.Flags()
	s.StringVar(&vapid, "vapid", "", "file with the VAPID key: JSON with publicKey and privateKey, PEM, or the private key as base64url")
	s.StringVar(&subject, "subject", "", "contact for push services, mailto: or https:")
	o.flags(s)
	s.StringArrayVar(&o.tags, "tag", nil, "tag to give to all (repeatable)")
	return cmd
}

// perfectyColumns returns a function that prints which columns of the table are stored.
func (p *program) perfectyColumns(tags []string) func(list []tables.Column) {
	return func(list []tables.Column) {
		if p.json {
			return
		}
		stored := "stored: endpoint, p256dh, auth, uuid"
		if len(tags) > 0 {
			stored += "; tags " + strings.Join(tags, ", ")
		}
		fmt.Fprintln(p.stderr, stored)
		var heeded, left []string
		for _, c := range list {
			switch {
			case c.Attribute() && (c.Name == "is_active" || c.Name == "disabled"):
				heeded = append(heeded, c.Name)
			case c.Attribute() || c.Dropped() && c.Heading != "":
				left = append(left, c.Heading)
			}
		}
		if len(heeded) > 0 {
			fmt.Fprintf(p.stderr, "heeded, not stored: %s\n", strings.Join(heeded, ", "))
		}
		if len(left) > 0 {
			fmt.Fprintf(p.stderr, "not stored: %s\n", strings.Join(left, ", "))
		}
	}
}

// perfectyRow refuses lines that are no subscriptions, and skips people who have opted out. It ignores the other columns, which describe
// Perfecty's own server.
func perfectyRow(r *audience.Row) error {
	if len(r.Address) == 0 || r.Channel != push.WebPush {
		return errors.New("it has no endpoint")
	}
	for name, out := range map[string]float64{"is_active": 0, "disabled": 1} {
		v, said := r.Attributes[name]
		if is, ok := v.Number(); said && !ok {
			return fmt.Errorf("%s: %.40q is neither 0 nor 1", name, v)
		} else if said && is == out {
			r.Status = audience.Disabled
		}
	}
	r.Attributes, r.Warnings = nil, nil
	return nil
}

// importVAPID stores the app's VAPID key, with which browsers have subscribed.
func (p *program) importVAPID(cmd *cobra.Command, file, subject string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read VAPID key: %w", err)
	}
	if _, err := webpush.ParseKey(b); err != nil {
		return fmt.Errorf("read VAPID key from %s: %w", file, err)
	}
	settings := map[string]any{webpush.FieldKey: textfile.Key(b)}
	if subject != "" {
		settings["subject"] = subject
	}
	return p.withClient(func(c *godwit.Client) error {
		if err := c.SetChannel(cmd.Context(), string(push.WebPush), settings); err != nil {
			return err
		}
		if !p.json {
			fmt.Fprintf(p.stderr, "the app has the VAPID key of %s\n", file)
		}
		return nil
	})
}
