package admin_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/admin"
)

// counter accepts notifications until a test makes it refuse them.
type counter struct {
	taken []notification.Draft
	fails error // of each copy
}

func (c *counter) Publish(_ context.Context, app string, drafts []*notification.Draft) []delivery.Result {
	d := *drafts[0]
	if app != "shop" {
		return []delivery.Result{{Err: mailbox.ErrNotFound}}
	}
	if _, err := d.Check(app, time.Now(), func() string { return "made" }); err != nil {
		return []delivery.Result{{Err: err}}
	}
	r := delivery.Result{ID: d.ID}
	for _, to := range d.To {
		r.Copies = append(r.Copies, delivery.Copy{To: to, Err: c.fails})
	}
	c.taken = append(c.taken, d)
	return []delivery.Result{r}
}

func newCounter(t *testing.T) (*counter, *browser) {
	c := new(counter)
	b := newWorld(t, (&post{}).serve, func(cfg *admin.Config) { cfg.Publisher = c }).signedIn()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, b
}

func TestANotificationIsSentAsItWasComposed(t *testing.T) {
	c, b := newCounter(t)
	status, page := b.get("/ui/send?to=anna")
	if wants(t, page, `value="anna"`, `<option value="webhook"`); status != http.StatusOK || strings.Contains(page, `<option value="telegram"`) {
		t.Errorf("%d; a channel is offered that is not set up", status)
	}
	status, _ = b.post("/ui/send", url.Values{
		"key": {"k1"}, "to": {"anna"}, "title": {"Hi"}, "body": {"two\r\nlines"}, "ttl": {"1h"}, "collapse_key": {"ride"}, "priority": {"high"}, "ack": {"all"}, "category": {"RIDE"},
		"data": {`{"fare":120}`}, "step-1-channel": {"webhook"}, "step-1-after": {"30s"}, "then": {"send"},
	})
	if status != http.StatusSeeOther || len(c.taken) != 1 {
		t.Fatalf("%d, taken %+v", status, c.taken)
	}
	d := c.taken[0]
	if d.ID != "k1" || d.Content.Body != "two\nlines" || d.TTL != time.Hour || d.CollapseKey != "ride" || d.Priority != notification.High || d.Ack != notification.AckAll ||
		string(d.Content.Data) != `{"fare":120}` || d.Content.ContentType != "application/json" || len(d.Escalate) != 2 || d.Escalate[1].Channel != "webhook" || d.Escalate[1].After != 30*time.Second {
		t.Errorf("taken %+v", d)
	}
	b.post("/ui/send", url.Values{"key": {"k2"}, "to": {"anna, bo"}, "title": {"Hi"}})
	if d := c.taken[1]; len(d.To) != 2 || d.Escalate != nil || d.TTL != 0 || d.Priority != notification.Normal || d.Ack != notification.AckAny {
		t.Errorf("the defaults are not the API's: %+v", d)
	}
}

func TestSendErrorsAppearBesideTheirFields(t *testing.T) {
	c, b := newCounter(t)
	for field, form := range map[string]url.Values{
		"to":             {"title": {"Hi"}},
		"title":          {"to": {"anna"}},
		"ttl":            {"to": {"anna"}, "title": {"Hi"}, "ttl": {"soon"}},
		"data":           {"to": {"anna"}, "title": {"Hi"}, "data": {"{"}},
		"priority":       {"to": {"anna"}, "title": {"Hi"}, "priority": {"urgent"}},
		"ack":            {"to": {"anna"}, "title": {"Hi"}, "ack": {"never"}},
		"collapse_key":   {"to": {"anna"}, "title": {"Hi"}, "collapse_key": {"no key"}},
		"step-0-after":   {"to": {"anna"}, "title": {"Hi"}, "step-0-channel": {"webhook"}, "step-0-after": {"48h"}},
		"step-0-channel": {"to": {"anna"}, "title": {"Hi"}, "step-0-after": {"10s"}},
		"step-1-after":   {"to": {"anna"}, "title": {"Hi"}, "step-0-channel": {"webhook"}, "step-0-after": {"30s"}, "step-1-channel": {"webhook"}, "step-1-after": {"10s"}},
	} {
		form.Set("key", "k")
		status, page := b.post("/ui/send", form)
		if wants(t, page, `id="`+field+`-problem"`, "Not sent as it stands"); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", field, status)
		}
	}
	if _, page := b.post("/ui/send", url.Values{"key": {"k"}, "title": {"Hi"}, "to": {strings.Repeat("anna ", 21)}}); !strings.Contains(page, "at most 20") {
		t.Errorf("21 recipients:\n%s", page)
	}
	if len(c.taken) != 0 {
		t.Errorf("taken %+v", c.taken)
	}
}

func TestPageShowsMailboxRefusal(t *testing.T) {
	c, b := newCounter(t)
	form := url.Values{"key": {"k1"}, "to": {"anna"}, "title": {"Hi"}}
	c.fails = mailbox.ErrFull
	status, page := b.post("/ui/send", form)
	if wants(t, page, "It was not sent to anna, for whom as many"); status != http.StatusUnprocessableEntity {
		t.Errorf("full: %d", status)
	}
	c.fails = mailbox.ErrConflict
	status, page = b.post("/ui/send", form)
	if wants(t, page, "was sent before and has changed since"); status != http.StatusConflict || strings.Contains(page, `value="k1"`) {
		t.Errorf("conflict: %d; the next one must be another", status)
	}
}

func TestAKeysBudgetHoldsOnThePageToo(t *testing.T) {
	c := new(counter)
	b := newWorld(t, (&post{}).serve, func(cfg *admin.Config) {
		cfg.Publisher, cfg.PublishLimit = c, func(_ string, n int) time.Duration { return time.Duration(n) * time.Second }
	}).signedIn()
	status, page := b.post("/ui/send", url.Values{"key": {"k1"}, "to": {"anna bo"}, "title": {"Hi"}})
	if wants(t, page, "come back in 1s"); status != http.StatusTooManyRequests || len(c.taken) != 0 {
		t.Errorf("%d, taken %+v", status, c.taken)
	}
}

func TestTheFormOfOneNotificationShowsHostileTextAsText(t *testing.T) {
	_, b := newCounter(t)
	form := url.Values{"key": {hostile}, "to": {hostile}, "title": {hostile}, "body": {hostile}, "ttl": {hostile}, "data": {hostile}, "step-0-channel": {hostile}, "step-0-after": {hostile}, "ack": {hostile}, "priority": {hostile}}
	for path, f := range map[string]url.Values{"/ui/send": form, "/ui/send/preview": form} {
		_, page := b.post(path, f)
		if checkHarmless(t, path, page); !strings.Contains(page, "&lt;hostile") {
			t.Errorf("%s: the text is not there", path)
		}
	}
	good := url.Values{"key": {"k"}, "to": {"anna"}, "title": {hostile}, "body": {hostile}, "step-0-channel": {"webhook"}, "step-0-after": {"5s"}}
	_, page := b.post("/ui/send/preview", good)
	checkHarmless(t, "preview", page)
	wants(t, page, `data-channel="live"`, `data-channel="webhook"`, "5s later over Webhook", "Given up after 1d", "&lt;hostile")
	_, page = b.get("/ui/send?to=" + url.QueryEscape(hostile))
	checkHarmless(t, "GET", page)
}
