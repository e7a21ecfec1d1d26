package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin"
)

func TestANotificationsPageShowsWhatItSaysWhileThatIsKept(t *testing.T) {
	p, b := newPost(t)
	p.content = notification.Content{Title: "Low tide " + hostile, Body: "At noon.", Category: "TIDES", Data: []byte(`{"station":"north"}`), ContentType: "application/json"}
	_, page := b.get("/ui/notifications/ride-1?to=anna")
	checkHarmless(t, "notification", page)
	wants(t, page, "Low tide &#34;", "At noon.", "TIDES", "&#34;station&#34;: &#34;north&#34;")
	for _, path := range []string{"/ui/recipients/anna", "/ui/notifications/news"} {
		_, page := b.get(path)
		checkHarmless(t, path, page)
		wants(t, page, "Low tide &#34;")
	}
	p.ended = true
	_, page = b.get("/ui/notifications/ride-1?to=anna")
	if wants(t, page, "It is not kept any more"); strings.Contains(page, "At noon.") {
		t.Error("the page shows what is not kept")
	}
	_, page = b.get("/ui/recipients/anna")
	wants(t, page, ">ride-1</a>")
}

func TestDataIsShownAsFarAsPeopleCanReadIt(t *testing.T) {
	p, b := newPost(t)
	for what, c := range map[string]struct {
		data string
		want string
	}{
		"text":      {"some words", "some words"},
		"bytes":     {"\xff\xfe\x00", "3 bytes of image/png"},
		"long text": {strings.Repeat("tide ", 10_000), "The beginning of it."},
	} {
		p.content = notification.Content{Title: "x", Data: []byte(c.data), ContentType: "image/png"}
		_, page := b.get("/ui/notifications/ride-1?to=anna")
		if wants(t, page, c.want); len(page) > 40<<10 {
			t.Errorf("%s: the page has %d bytes", what, len(page))
		}
	}
}

// TestAPushContentIsShownAsItsChannelsShowIt: a notification of a template says other things over a channel than to a session.
func TestAPushContentIsShownAsItsChannelsShowIt(t *testing.T) {
	p, b := newPost(t)
	message, err := json.Marshal(map[string]any{"content": map[string]any{"title": "For the bot", "body": "Press", "telegram": map[string]any{"buttons": [][]map[string]string{{{"text": "Take it", "callback": "take"}}}}}})
	must(t, err)
	p.content = notification.Content{Title: "For the session", Push: message}
	p.steps = []notification.Step{{Channel: notification.Live}, {Channel: "telegram"}}
	_, page := b.get("/ui/notifications/ride-1?to=anna")
	wants(t, page, "For the session", "For the bot", "Take it", "reports take")
}

// wishing knows what anna chose.
type wishing struct{}

func (wishing) Preferences(_ context.Context, app string, names []string) (map[string]preference.Preferences, error) {
	if app != "shop" || names[0] != "anna" {
		return nil, nil
	}
	return map[string]preference.Preferences{"anna": {
		Categories: map[string]preference.Choice{hostile: {Channels: []push.Channel{push.WebPush, push.Telegram}}, "promo": {Channels: []push.Channel{}}, "*": {}},
		Quiet:      &preference.Hours{From: "22:00", To: "07:00"}, Timezone: "Europe/Oslo",
	}}, nil
}

func TestARecipientsPageShowsDevicesAndWishes(t *testing.T) {
	w := newWorld(t, new(post).serve, func(c *admin.Config) { c.Preferences = wishing{} })
	_, page := w.signedIn().get("/ui/recipients/anna")
	checkHarmless(t, "recipient", page)
	wants(t, page, "Browsers, Telegram", "<td>nothing</td>", "Everything else", "every channel", "22:00 to 07:00, Europe/Oslo", "old-phone", "not connected now")
}

// printing publishes nothing, and remembers what it was given.
type printing struct{ drafts []*notification.Draft }

func (p *printing) Publish(_ context.Context, app string, drafts []*notification.Draft) []delivery.Result {
	p.drafts = append(p.drafts, drafts...)
	return []delivery.Result{{ID: drafts[0].ID, Copies: []delivery.Copy{{To: drafts[0].To[0]}}}}
}

func TestATestReachesTheChosenAddressOfTheRecipientAlone(t *testing.T) {
	s, press := new(shelves), new(printing)
	w := newWorld(t, new(post).serve, s.serve, func(c *admin.Config) { c.Publisher = press })
	own := w.register(push.WebPush, subscription, audience.Endpoint{Recipient: "anna"})
	others := w.register(push.Telegram, `{"chat_id":7}`, audience.Endpoint{Recipient: "bo"})
	b := w.as(signin.Send)
	_, page := b.post("/ui/recipients/anna/test", url.Values{"to": {own.ID.String()}}, "HX-Request", "true")
	wants(t, page, "accepted", "The test to Firefox is on its way.")
	_, page = b.post("/ui/recipients/anna/test", nil)
	wants(t, page, "The test to the mailbox is on its way.")
	for path, to := range map[string]string{"/ui/recipients/anna/test": others.ID.String(), "/ui/recipients/nobody/test": ""} {
		if status, _ := b.post(path, url.Values{"to": {to}}); status != http.StatusNotFound {
			t.Errorf("%s to %q: %d", path, to, status)
		}
	}
	if len(s.sent) != 1 || len(press.drafts) != 1 || press.drafts[0].To[0] != "anna" {
		t.Errorf("sent %+v, published %+v", s.sent, press.drafts)
	}
	s.refusal = &push.PermanentError{Reason: hostile}
	_, page = b.post("/ui/recipients/anna/test", url.Values{"to": {own.ID.String()}})
	checkHarmless(t, "test", page)
	wants(t, page, "failed", "&lt;hostile")
}

func TestWhatAnEndpointIsCalled(t *testing.T) {
	for address, want := range map[string]string{
		"https://fcm.googleapis.com/fcm/send/x": "Chrome", "https://updates.push.services.mozilla.com/wpush/v2/x": "Firefox", "https://web.push.apple.com/x": "Safari",
		"https://wns2-db5p.notify.windows.com/w/?token=x": "Edge", "https://ntfy.example/up1": "Browser at ntfy.example", "https://evil-push.apple.com.example/x": "Browser at evil-push.apple.com.example",
	} {
		w := newWorld(t)
		e := w.register(push.WebPush, strings.Replace(subscription, "https://updates.push.services.mozilla.com/wpush/v2/abc", address, 1), audience.Endpoint{})
		_, page := w.signedIn().get("/ui/audience/" + e.ID.String())
		wants(t, page, fmt.Sprintf("<h1>%s</h1>", want))
	}
}
