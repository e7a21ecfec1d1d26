package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/server/admin/words"
)

// Recipients reads and changes recipients for the pages.
type Recipients interface {
	Get(ctx context.Context, app, name string) (*recipient.View, error)
	List(ctx context.Context, app, prefix string, limit int, after string) (list []*recipient.View, next string, err error)
	Erase(ctx context.Context, app, name, by string) error
	Disconnect(ctx context.Context, app, name, by string) (n int, partial bool, err error)
}

// Mailbox reads and changes notifications for the pages.
type Mailbox interface {
	History(ctx context.Context, app, recipient string, status notification.Status, limit int, cursor int64) (items []mailbox.Record, next int64, err error)
	// Copies returns at most limit copies of a notification.
	Copies(ctx context.Context, app, id string, limit int) ([]mailbox.Record, error)
	Recall(ctx context.Context, app, id, to string) (n int, err error)
	// Kept returns the newest items of a recipient's inbox; nil: it never had anything.
	Kept(ctx context.Context, app, recipient string, limit int) (*mailbox.Kept, error)
	// Items reads the notifications of copies; those that have ended are nil.
	Items(ctx context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error)
}

// inboxAPage is how many items of an inbox a page shows.
const inboxAPage = 10

// Preferences reads what recipients chose.
type Preferences interface {
	Preferences(ctx context.Context, app string, recipients []string) (map[string]preference.Preferences, error)
}

// Rows of a page.
const (
	recipientsAPage = 50
	historyAPage    = 25
	mostRows        = 100 // limits the shown sessions, endpoints or registrations of one recipient
)

type recipientList struct {
	Prefix string
	Items  []*recipient.View
	Next   string // path of the next page; empty: there is none
}

func (a *admin) listRecipients(v *visit) error {
	q := v.r.URL.Query()
	l := recipientList{Prefix: text(q, "prefix")}
	for _, name := range []string{l.Prefix, q.Get("cursor")} {
		if name != "" && notification.CheckPart("name", name) != nil {
			return a.show(v, "recipients", v.t("Recipients"), "recipients", l) // nobody is called so
		}
	}
	var err error
	if l.Items, l.Next, err = a.Recipients.List(v.r.Context(), v.person.App, l.Prefix, recipientsAPage, q.Get("cursor")); err != nil {
		return err
	}
	if l.Next != "" {
		l.Next = "/ui/recipients?" + url.Values{"prefix": {l.Prefix}, "cursor": {l.Next}}.Encode()
	}
	return a.show(v, "recipients", v.t("Recipients"), "recipients", l)
}

const noSuchRecipient = "Nobody of this name is known. A recipient is known from the first notification, connection or endpoint on."

// profile is a recipient's page.
type profile struct {
	*recipient.View
	Status   string // status of the listed notifications; empty: any
	Statuses []string
	History  []titled
	Devices  []deviceLine
	Wishes   []fact // what the recipient chose; nil: nothing
	Sent     *channelTest
	Inbox    *mailbox.Kept // newest items; nil: the inbox never had anything
	Older    string        // path of older notifications; empty: there are none
	More     bool          // more sessions, endpoints or registrations exist than are shown
}

func (a *admin) showRecipient(v *visit) error { return a.recipientPage(v, nil) }

// recipientPage shows a recipient, with the result of a test message.
func (a *admin) recipientPage(v *visit, sent *channelTest) error {
	name, err := nameInPath(v.r)
	if err != nil {
		return err
	}
	ctx, app, q := v.r.Context(), v.person.App, v.r.URL.Query()
	p := profile{Sent: sent, Status: text(q, "status"), Statuses: notification.StatusNames()}
	if p.View, err = a.Recipients.Get(ctx, app, name); err != nil {
		return missing(err, noSuchRecipient)
	}
	status, _ := notification.ParseStatus(p.Status) // what is none lists all
	if status == 0 {
		p.Status = ""
	}
	next, until := position(q.Get("cursor")), a.now().Add(lookFor)
	var records []mailbox.Record
	for more := true; more && len(records) < historyAPage; more = next > 0 && a.now().Before(until) {
		var found []mailbox.Record
		if found, next, err = a.Mailbox.History(ctx, app, name, status, historyAPage-len(records), next); err != nil {
			return err
		}
		records = append(records, found...)
	}
	if p.History, err = a.titles(ctx, app, records); err != nil {
		return err
	}
	if p.Wishes, err = a.wishes(v, name); err != nil {
		return err
	}
	if p.Inbox, err = a.Mailbox.Kept(ctx, app, name, inboxAPage); err != nil {
		return err
	}
	p.Devices = devicesOf(p.View)
	if next > 0 {
		p.Older = "/ui/recipients/" + name + "?" + url.Values{"status": {p.Status}, "cursor": {strconv.FormatInt(next, 10)}}.Encode()
	}
	p.More = cut(&p.Sessions) || cut(&p.Endpoints) || cut(&p.Registrations)
	return a.show(v, "recipient", name, "recipients", p)
}

// cut shortens a list to what a page shows, and reports whether it had more.
func cut[T any](list *[]T) bool {
	more := len(*list) > mostRows
	*list = (*list)[:min(len(*list), mostRows)]
	return more
}

// nameInPath returns the recipient or the notification in the path.
func nameInPath(r *http.Request) (string, error) {
	name := r.PathValue("name")
	if notification.CheckName("name", name) != nil {
		return "", mistaken(http.StatusNotFound, "There is none of this name.")
	}
	return name, nil
}

// missing replaces a not-found error with a mistake that shows text; it returns other errors unchanged.
func missing(err error, text string, args ...any) error {
	if errors.Is(err, mailbox.ErrNotFound) {
		return mistaken(http.StatusNotFound, text, args...)
	}
	return err
}

func (a *admin) disconnectRecipient(v *visit) error {
	name, err := nameInPath(v.r)
	if err != nil {
		return err
	}
	if _, _, err := a.Recipients.Disconnect(v.r.Context(), v.person.App, name, v.person.Key); err != nil {
		return err
	}
	a.leadTo(v, "/ui/recipients/"+name, http.StatusOK)
	return nil
}

func (a *admin) eraseRecipient(v *visit) error {
	name, err := nameInPath(v.r)
	if err != nil {
		return err
	}
	err = a.Recipients.Erase(v.r.Context(), v.person.App, name, v.person.Key)
	if err != nil && !errors.Is(err, mailbox.ErrNotFound) { // somebody else was quicker
		return err
	}
	a.leadTo(v, "/ui/recipients", http.StatusOK)
	return nil
}

// channelsOf names the channels of active endpoints, each once.
func channelsOf(l *words.Language, endpoints []audience.Endpoint) string {
	var names []string
	for i := range endpoints {
		if name := l.T(channelWord(endpoints[i].Channel)); endpoints[i].Status == audience.Active && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// versionText writes a version of an object for people.
func versionText(l *words.Language, v object.Version) string {
	if v == 0 {
		return l.T("none")
	}
	return v.String()
}

// copyURL returns the path of a recipient's copy of a notification.
func copyURL(id, to string) string {
	return "/ui/notifications/" + url.PathEscape(id) + "?" + url.Values{"to": {to}}.Encode()
}

func recallURL(id, to string) string {
	return "/ui/notifications/" + url.PathEscape(id) + "/recall?" + url.Values{"to": {to}}.Encode()
}

// position reads the cursor of a history; an invalid one becomes 0, which begins with the newest entry.
func position(cursor string) int64 {
	n, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
