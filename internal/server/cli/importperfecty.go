package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/quiet"
	"godwit.dev/godwit/internal/campaigns/tables"
	"godwit.dev/godwit/internal/sending/push"
)

// userColumn is the column with the number of the WordPress user, and the placeholder for it in --recipient.
const userColumn, userPlace = "wp_user_id", "{wp_user_id}"

// The columns of the plugin's table, by what an import does with them. creation_time is created_at in versions before 1.1.
var (
	perfectyTimes  = []string{"created_at", "creation_time", "last_seen_at"}
	perfectyHeeded = []string{"is_active", "disabled"}
)

// perfectyImport is an import of Perfecty Push's table of users.
type perfectyImport struct {
	p         *program
	o         importOptions
	recipient string // with userPlace; empty: subscribers stay anonymous
	zone      string // of the table's times
	location  *time.Location
}

func (p *program) importPerfectyCommand() *cobra.Command {
	var vapid, subject string
	i := &perfectyImport{p: p, o: importOptions{channel: string(push.WebPush), read: tables.Options{Format: "csv"}}}
	cmd := &cobra.Command{
		Use:   "perfecty FILE",
		Short: "Bring the subscribers of Perfecty Push along",
		Long: `Bring the subscribers of Perfecty Push along: FILE is CSV with the columns endpoint, p256dh, auth and uuid, or as the
table of the plugin calls them. Subscriptions belong to
the VAPID key that they were made with, so --vapid names a file with the site's key, which replaces the app's. Without it the key
stays as it is, and push services refuse what is sent to them, unless the app has the site's key already. Doing it again is harmless.

Stored are each subscription (endpoint, p256dh, auth), its uuid, its times (created_at, last_seen_at) and the tags of --tag. With
--recipient the user of WordPress (wp_user_id) becomes the recipient. is_active and disabled say who is left out. No other column is
stored, no address of a visitor among them; the command names each that is not. docs/migrate/perfecty.md shows the whole way.`,
		Args: exactly("file"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if i.recipient != "" && !strings.Contains(i.recipient, userPlace) {
				return usagef("--recipient %q gives everybody the same recipient: write %s where the user's number goes", i.recipient, userPlace)
			}
			if i.location, err = quiet.CheckZone("time-zone", i.zone); err != nil {
				return usagef("--time-zone: %v", err)
			}
			if vapid != "" && !i.o.dry {
				if err := p.importVAPID(cmd, vapid, subject); err != nil {
					return err
				}
			}
			i.o.file, i.o.columns = args[0], i.columns
			err = p.importFile(cmd.Context(), &i.o, i.row)
			if vapid == "" && !i.o.dry {
				fmt.Fprintln(p.stderr, "warning: the app's VAPID key stays as it is. Push services refuse messages to subscribers of another key:\n"+
					"unless the app has the site's key already, import again with --vapid FILE before you send")
			}
			return err
		},
	}
	s := cmd.Flags()
	s.StringVar(&vapid, "vapid", "", "file with the VAPID key: JSON with publicKey and privateKey, PEM, or the private key as base64url")
	s.StringVar(&subject, "subject", "", "contact for push services, mailto: or https:")
	s.StringVar(&i.recipient, "recipient", "", "recipient of subscribers who were signed in to WordPress, with "+userPlace+" in it, like wp-"+userPlace)
	s.StringVar(&i.zone, "time-zone", "UTC", "of the table's times: that of the database")
	i.o.flags(s)
	s.StringArrayVar(&i.o.tags, "tag", nil, "tag to give to all (repeatable)")
	return cmd
}

// columns says which columns of the table are stored.
func (i *perfectyImport) columns(list []tables.Column) {
	stored, heeded, left := []string{"endpoint", "p256dh", "auth", "uuid"}, []string{}, []string{}
	for _, c := range list {
		name := strings.ToLower(c.Name)
		switch {
		case c.Attribute() && (slices.Contains(perfectyTimes, name) || name == userColumn && i.recipient != ""):
			stored = append(stored, name)
		case c.Attribute() && slices.Contains(perfectyHeeded, name):
			heeded = append(heeded, name)
		case c.Attribute() || c.Dropped() && c.Heading != "":
			left = append(left, c.Heading)
		}
	}
	i.o.said = map[string]any{"stored": stored, "heeded": heeded, "not_stored": left}
	if i.p.json {
		return
	}
	said := "stored: " + strings.Join(stored, ", ")
	if len(i.o.tags) > 0 {
		said += "; tags " + strings.Join(i.o.tags, ", ")
	}
	fmt.Fprintln(i.p.stderr, said)
	if len(heeded) > 0 {
		fmt.Fprintf(i.p.stderr, "heeded, not stored: %s\n", strings.Join(heeded, ", "))
	}
	if len(left) > 0 {
		fmt.Fprintf(i.p.stderr, "not stored: %s\n", clean(strings.Join(left, ", ")))
	}
}

// row refuses lines that are no subscriptions, and skips people who have opted out. It keeps the times, and the user if the command names a
// recipient for users.
func (i *perfectyImport) row(r *audience.Row) error {
	if len(r.Address) == 0 || r.Channel != push.WebPush {
		return errors.New("it has no endpoint")
	}
	for name, v := range r.Attributes {
		if err := i.cell(r, strings.ToLower(name), v); err != nil {
			return err
		}
	}
	r.Attributes, r.Warnings = nil, nil
	return nil
}

func (i *perfectyImport) cell(r *audience.Row, name string, v audience.Value) (err error) {
	text := v.String()
	none := text == "" || strings.EqualFold(text, "null") // which tools write for SQL's NULL
	switch name {
	case "is_active", "disabled":
		is, ok := v.Number()
		if !ok {
			return fmt.Errorf("%s: %.40q is neither 0 nor 1", name, v)
		}
		if (is == 0) == (name == "is_active") {
			r.Status = audience.Disabled
		}
	case userColumn:
		if i.recipient == "" || none || text == "0" {
			return nil
		}
		r.Recipient = strings.ReplaceAll(i.recipient, userPlace, text)
	case "created_at", "creation_time":
		r.CreatedAt, err = i.moment(name, text, none)
	case "last_seen_at":
		r.LastSeenAt, err = i.moment(name, text, none)
	}
	return err
}

// moment reads a time as MySQL writes it, or with a zone of its own. MySQL's zero is no time.
func (i *perfectyImport) moment(name, text string, none bool) (time.Time, error) {
	if none || strings.HasPrefix(text, "0000-00-00") {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateTime, time.RFC3339, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, i.location); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s: %.40q is not a time like 2006-01-02 15:04:05", name, text)
}
