package admin_test

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin"
)

// post is an app shop with one recipient, anna, who has one notification, ride-1; every text that can be hostile is.
type post struct {
	erased, disconnected, recalled string

	content notification.Content // of every notification
	steps   []notification.Step
	ended   bool // no content is kept
}

func (p *post) view() *recipient.View {
	return &recipient.View{
		RecipientInfo: mailbox.RecipientInfo{Name: "anna", Pending: 1, LastSeen: time.Now(), Devices: []string{"old-phone", hostile}},
		Sessions:      []session.Info{{Device: hostile, Gateway: "ws", Behind: true, Unacked: 3}},
		Endpoints:     []audience.Endpoint{{Channel: push.WebPush, Status: audience.Disabled, DisabledReason: hostile}},
	}
}

func (p *post) Get(_ context.Context, app, name string) (*recipient.View, error) {
	if app != "shop" || name != "anna" {
		return nil, mailbox.ErrNotFound
	}
	return p.view(), nil
}

func (p *post) List(_ context.Context, app, prefix string, _ int, after string) (list []*recipient.View, next string, err error) {
	if app == "shop" && strings.HasPrefix("anna", prefix) && after < "anna" {
		return []*recipient.View{p.view()}, "anna", nil
	}
	return nil, "", nil
}

func (p *post) Erase(_ context.Context, app, name, by string) error {
	p.erased = app + " " + name + " " + by
	return nil
}

func (p *post) Disconnect(_ context.Context, app, name, by string) (int, bool, error) {
	p.disconnected = app + " " + name + " " + by
	return 1, false, nil
}

func (p *post) record() mailbox.Record {
	return mailbox.Record{ID: "ride-1", To: "anna", Status: notification.Stored, CreatedAt: time.Now()}
}

func (p *post) History(context.Context, string, string, notification.Status, int, int64) ([]mailbox.Record, int64, error) {
	return []mailbox.Record{p.record()}, 7, nil
}

func (p *post) Copies(_ context.Context, app, id string, _ int) ([]mailbox.Record, error) {
	switch {
	case app != "shop":
		return nil, nil
	case id == "ride-1":
		return []mailbox.Record{p.record()}, nil
	case id == "news":
		return []mailbox.Record{p.record(), p.record()}, nil
	}
	return nil, mailbox.ErrNotFound
}

func (p *post) Items(_ context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error) {
	items := make([]*mailbox.Item, len(refs))
	for i := range refs {
		if !p.ended && refs[i].App == "shop" {
			items[i] = &mailbox.Item{N: &notification.Notification{Content: p.content, Steps: p.steps}}
		}
	}
	return items, nil
}

func (p *post) Recall(_ context.Context, app, id, to string) (int, error) {
	p.recalled = app + " " + id + " " + to
	return 1, nil
}

func (p *post) Of(_ context.Context, app, id, to string) (*timeline.Timeline, error) {
	if app != "shop" || id != "ride-1" || to != "anna" {
		return nil, mailbox.ErrNotFound
	}
	return &timeline.Timeline{
		Record: p.record(), Why: timeline.Text{Pattern: "%s", Args: []any{timeline.Reason(hostile)}},
		Entries: []timeline.Entry{{At: time.Now(), Channel: "webpush", Event: "failed", Text: timeline.Text{Pattern: "%s", Args: []any{hostile}}}},
	}, nil
}

// Kept returns an inbox with hostile content.
func (p *post) Kept(context.Context, string, string, int) (*mailbox.Kept, error) {
	return &mailbox.Kept{
		Counts: inbox.Counts{Count: inbox.Count{Unseen: 1, Unread: 1}, Total: 1, Revision: 1},
		Items:  []inbox.Item{{Place: 1, ID: hostile, Content: notification.Content{Title: hostile, Body: hostile}, CreatedAt: time.Now(), KeptUntil: time.Now(), Answered: hostile, AnsweredAt: time.Now()}},
	}, nil
}

func (p *post) serve(c *admin.Config) { c.Recipients, c.Mailbox, c.Timelines = p, p, p }

// Follow tells once, and ends.
func (p *post) Follow(ctx context.Context, app, id, to string, f timeline.Follower) error {
	t, err := p.Of(ctx, app, id, to)
	if err == nil {
		err = f.Tell(t)
	}
	return err
}

// Tap reports two notifications, and ends.
func (p *post) Tap(_ context.Context, _, _ string, tell func([]timeline.Arrival, bool) error, _ func() error) error {
	return tell([]timeline.Arrival{{Record: p.record()}, {Record: p.record(), Content: &notification.Content{Title: hostile, Body: hostile}}}, true)
}

func newPost(t *testing.T) (*post, *browser) {
	p := new(post)
	w := newWorld(t, p.serve)
	return p, w.signedIn()
}

func TestPagesOfRecipientsShowHostileTextAsText(t *testing.T) {
	_, b := newPost(t)
	for _, path := range []string{"/ui/recipients/anna", "/ui/recipients", "/ui/notifications/ride-1?to=anna", "/ui/recipients?prefix=" + url.QueryEscape(hostile)} {
		status, page := b.get(path)
		if checkHarmless(t, path, page); status != http.StatusOK || !strings.Contains(page, "&lt;hostile") {
			t.Errorf("%s: %d, and the text is not there", path, status)
		}
	}
	for _, path := range []string{
		"/ui/recipients/" + url.PathEscape(hostile), "/ui/recipients/anna?status=" + url.QueryEscape(hostile) + "&cursor=" + url.QueryEscape(hostile), "/ui/recipients?cursor=" + url.QueryEscape(hostile),
		"/ui/notifications/" + url.PathEscape(hostile), "/ui/notifications/ride-1?to=" + url.QueryEscape(hostile), "/ui/notifications?id=" + url.QueryEscape(hostile),
	} {
		_, page := b.get(path)
		checkHarmless(t, path, page)
	}
}

func TestARecipientsPageLeadsOn(t *testing.T) {
	p, b := newPost(t)
	_, own := b.get("/ui/recipients/anna")
	wants(t, own, "answered: &#34;")
	_, page := b.get("/ui/recipients?prefix=an")
	wants(t, page, `href="/ui/recipients/anna"`, "/ui/recipients?cursor=anna&amp;prefix=an")
	_, page = b.get("/ui/recipients?prefix=bo")
	wants(t, page, "Nobody's name begins with <code>bo</code>")
	_, page = b.get("/ui/recipients/anna?status=stored")
	wants(t, page, "/ui/notifications/ride-1?to=anna", "/ui/recipients/anna?cursor=7&amp;status=stored", "more waits")
	if _, page = b.get("/ui/notifications?id=ride-1"); !strings.Contains(page, `id="why"`) {
		t.Errorf("an id does not lead to its notification:\n%s", page)
	}
	_, page = b.get("/ui/notifications/news")
	wants(t, page, `id="copies"`)
	b.post("/ui/recipients/anna/disconnect", nil)
	b.post("/ui/recipients/anna/erase", nil)
	b.post("/ui/notifications/ride-1/recall?to=anna", nil)
	key := b.access.Keys("shop")[0].ID
	if p.disconnected != "shop anna "+key || p.erased != "shop anna "+key || p.recalled != "shop ride-1 anna" {
		t.Errorf("done: %+v", p)
	}
}

func TestRecipientsOfOtherAppsAreNotFound(t *testing.T) {
	p, b := newPost(t)
	for _, path := range []string{"/ui/recipients/bo", "/ui/notifications/ride-2", "/ui/notifications/ride-1?to=bo", "/ui/notifications?id=ride-2"} {
		if status, _ := b.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _ := b.post("/ui/notifications/ride-1/recall?to=bo", nil); status != http.StatusNotFound || p.recalled != "" {
		t.Errorf("%d, recalled %q", status, p.recalled)
	}
}

func TestANotificationsPageIsDrawnAnewUntilItHasEnded(t *testing.T) {
	_, b := newPost(t)
	_, page := b.get("/ui/notifications/ride-1?to=anna")
	wants(t, page, `data-events="/ui/notifications/ride-1/events?to=anna"`)
	r := bufio.NewReader(b.events(t.Context(), "/ui/notifications/ride-1/events?to=anna").Body)
	name, data := next(t, r)
	if checkHarmless(t, name, data); name != "story" || !strings.Contains(data, "&lt;hostile") {
		t.Errorf("event %s: %s", name, data)
	}
	if name, _ := next(t, r); name != "end" {
		t.Errorf("event %s, want the end", name)
	}
	for _, path := range []string{"/ui/notifications/none/events?to=anna", "/ui/notifications/ride-1/events"} {
		if status, _ := b.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestNotificationsOfRecipientAreShownAsText(t *testing.T) {
	_, b := newPost(t)
	_, page := b.get("/ui/recipients/anna")
	wants(t, page, `data-events="/ui/recipients/anna/events"`)
	name, data := next(t, bufio.NewReader(b.events(t.Context(), "/ui/recipients/anna/events").Body))
	if checkHarmless(t, name, data); name != "arrivals" || !strings.Contains(data, "&lt;hostile") || !strings.Contains(data, `href="/ui/notifications/ride-1?to=anna"`) || !strings.Contains(data, "More came") {
		t.Errorf("event %s: %s", name, data)
	}
}
