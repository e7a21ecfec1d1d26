package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

// message is the content of a notification, which is kept until it has ended.
type message struct {
	Title, Category string
	Shown           []bubble // as sessions get it, and as each channel shows it that shows it otherwise
	Data            string   // for the app's own program; empty: there is none
	Cut             bool     // Data is longer than is shown
}

// mostData limits the shown bytes of a notification's data.
const mostData = 16 << 10

// item reads a copy's notification; nil: it has ended, and its content is deleted.
func (a *admin) item(ctx context.Context, app string, r *mailbox.Record) (*notification.Notification, error) {
	items, err := a.Mailbox.Items(ctx, []mailbox.Ref{{App: app, Recipient: r.To, Pos: r.Pos}})
	if err != nil || len(items) == 0 || items[0] == nil {
		return nil, err
	}
	return items[0].N, nil
}

// messageOf reads the content of a copy; nil: it is not kept any more.
func (a *admin) messageOf(v *visit, r *mailbox.Record) (*message, error) {
	ctx, app := v.r.Context(), v.person.App
	n, err := a.item(ctx, app, r)
	if err != nil || n == nil {
		return nil, err
	}
	m := &message{Title: n.Content.Title, Category: n.Content.Category}
	m.Data, m.Cut = readable(v.lang, &n.Content)
	plain := bubble{Channel: push.Live, Title: n.Content.Title, Body: n.Content.Body}
	m.Shown = []bubble{plain}
	made, err := template.ReadMessage(n.Content.Push)
	if n.Content.Push == nil || err != nil { // every channel shows the same
		return m, nil // a content that another version wrote is shown as sessions get it
	}
	for _, step := range n.Steps {
		ch := push.Channel(step.Channel)
		if slices.ContainsFunc(m.Shown, func(b bubble) bool { return b.Channel == ch }) {
			continue
		}
		c := made.Render(r.To, "", ch)
		m.Shown = append(m.Shown, bubbleOf(v.lang, ch, "", &c))
	}
	return m, nil
}

// readable returns a notification's data for people, and whether it is cut.
func readable(l *words.Language, c *notification.Content) (data string, cut bool) {
	if len(c.Data) == 0 {
		return "", false
	}
	var b bytes.Buffer
	switch {
	case json.Indent(&b, c.Data, "", "  ") == nil:
		data = b.String()
	case utf8.Valid(c.Data):
		data = string(c.Data)
	default:
		return l.T("%[1]s bytes of %[2]s", len(c.Data), orElse(c.ContentType, l.T("an unnamed type"))), false
	}
	if len(data) <= mostData {
		return data, false
	}
	return strings.ToValidUTF8(data[:mostData], ""), true
}

// titled is a copy in a list, with the title of its notification.
type titled struct {
	mailbox.Record
	Title string // empty: there is none, or it is not kept any more
}

// titles adds the titles of the copies that have not ended.
func (a *admin) titles(ctx context.Context, app string, records []mailbox.Record) ([]titled, error) {
	all := make([]titled, len(records))
	var refs []mailbox.Ref
	var of []int
	for i := range records {
		all[i].Record = records[i]
		if r := &records[i]; !r.Status.Settled(r.Ack) {
			refs, of = append(refs, mailbox.Ref{App: app, Recipient: r.To, Pos: r.Pos}), append(of, i)
		}
	}
	if len(refs) == 0 {
		return all, nil
	}
	items, err := a.Mailbox.Items(ctx, refs)
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		if item != nil && item.N != nil {
			all[of[i]].Title = heading(&item.N.Content)
		}
	}
	return all, nil
}

// titleOf returns the title of a notification with several copies, from one that has not ended.
func (a *admin) titleOf(ctx context.Context, app string, records []mailbox.Record) (string, error) {
	for i := range records {
		if r := &records[i]; !r.Status.Settled(r.Ack) {
			n, err := a.item(ctx, app, r)
			if err != nil || n == nil {
				return "", err
			}
			return heading(&n.Content), nil
		}
	}
	return "", nil
}

// heading returns the title of a notification, or the beginning of its text.
func heading(c *notification.Content) string {
	return clip(strings.TrimSpace(orElse(c.Title, c.Body)), 80)
}

// deviceLine is a device of a recipient.
type deviceLine struct {
	Name   string
	Online bool
}

// devicesOf lists the named devices of a recipient, those with a session first.
func devicesOf(v *recipient.View) (all []deviceLine) {
	online := make(map[string]bool)
	for _, s := range v.Sessions {
		online[s.Device] = true
	}
	delete(online, "")
	for _, name := range slices.Sorted(maps.Keys(online)) {
		all = append(all, deviceLine{name, true})
	}
	for _, name := range v.Devices {
		if !online[name] {
			all = append(all, deviceLine{name, false})
		}
	}
	return all[:min(len(all), mostRows)]
}

// wishes lists what a recipient chose.
func (a *admin) wishes(v *visit, name string) (all []fact, err error) {
	ctx, app := v.r.Context(), v.person.App
	if a.Preferences == nil {
		return nil, nil
	}
	known, err := a.Preferences.Preferences(ctx, app, []string{name})
	if err != nil {
		return nil, err
	}
	p := known[name]
	for _, category := range slices.Sorted(maps.Keys(p.Categories)) {
		label := category
		if category == preference.Rest {
			label = v.t("Everything else")
		}
		all = append(all, fact{Name: label, Value: chosenChannels(v.lang, p.Categories[category])})
	}
	if p.Quiet != nil {
		all = append(all, fact{Name: v.t("Not disturbed"), Value: v.t("%[1]s to %[2]s, %[3]s", p.Quiet.From, p.Quiet.To, orElse(p.Timezone, v.t("in the zone of their endpoints")))})
	}
	return all, nil
}

func chosenChannels(l *words.Language, c preference.Choice) string {
	switch {
	case c.Channels == nil:
		return l.T("every channel")
	case len(c.Channels) == 0:
		return l.T("nothing")
	}
	names := make([]string, len(c.Channels))
	for i, ch := range c.Channels {
		names[i] = l.T(channelWord(ch))
	}
	return strings.Join(names, ", ")
}

// testRecipient sends a test message to one of a recipient's endpoints, or as a notification.
func (a *admin) testRecipient(v *visit) error {
	name, err := nameInPath(v.r)
	if err != nil {
		return err
	}
	if err := parseForm(v.r); err != nil {
		return err
	}
	if _, err := a.Recipients.Get(v.r.Context(), v.person.App, name); err != nil {
		return missing(err, noSuchRecipient)
	}
	to := text(v.r.PostForm, "to")
	sent := &channelTest{To: v.t("the mailbox")}
	if to == "" {
		err = a.publishTest(v, name)
	} else {
		var e audience.Endpoint
		if e, err = a.endpointOf(v, to); err == nil && e.Recipient != name {
			err = noEndpoint(audience.ErrNotFound)
		}
		if err != nil {
			return err
		}
		sent.To = deviceOf(v.lang, &e)
		err = a.sendTest(v, &e)
	}
	var m *mistake
	if errors.As(err, &m) && m.status == http.StatusNotFound {
		return err
	}
	a.Log.InfoContext(v.r.Context(), "test sent on the web page", "app", v.person.App, "recipient", name, "ok", err == nil, "by", v.person.Name())
	if sent.OK, sent.Outcome = err == nil, push.Outcome(err); err != nil {
		sent.Detail = sentence(reasonIn(v.lang, err.Error()))
	}
	if v.r.Header.Get("HX-Request") != "" {
		return a.part(v, "recipient", "sent", sent)
	}
	return a.recipientPage(v, sent)
}
