package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin"
)

// shelves has all channels; what is set up can send. The refusal, if there is one, answers each check and message.
type shelves struct {
	channelBox
	up      map[push.Channel]bool
	values  channel.Values // set last
	refusal error
	sent    []push.Request
}

func (s *shelves) serve(c *admin.Config) {
	s.up = map[push.Channel]bool{push.WebPush: true, push.Live: true}
	c.Channels = s
	c.Ready = func(_ context.Context, _ string, ch push.Channel) bool { return s.up[ch] }
}

func (s *shelves) List(app string) (all []channel.Info) {
	for _, ch := range push.Channels() {
		info, _ := s.Get(app, ch)
		all = append(all, info)
	}
	return all
}

func (s *shelves) Get(_ string, ch push.Channel) (channel.Info, error) {
	return channel.Info{Channel: ch, Configured: s.up[ch], Enabled: true}, nil
}

func (s *shelves) Set(_ context.Context, _ string, ch push.Channel, c channel.Change) (channel.Info, channel.Values, error) {
	s.up[ch], s.values = true, c.Values
	return channel.Info{}, nil, nil
}

func (s *shelves) Check(context.Context, string, push.Channel) (string, error) {
	return "bot @" + hostile, s.refusal
}

func (s *shelves) Sender(context.Context, string, push.Channel) (push.Sender, error) { return s, nil }

func (s *shelves) Send(_ context.Context, r push.Request) (push.Receipt, error) {
	s.sent = append(s.sent, r)
	return push.Receipt{}, s.refusal
}

func newShelves(t *testing.T) (*shelves, *world) {
	s := new(shelves)
	return s, newWorld(t, s.serve)
}

// subscription is a browser's, at a push service of Mozilla's.
const subscription = `{"endpoint":"https://updates.push.services.mozilla.com/wpush/v2/abc","keys":{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}}`

func TestTheOverviewOfANewAppBeginsWithTheGuides(t *testing.T) {
	_, w := newShelves(t)
	b := w.signedIn()
	_, page := b.get("/ui/")
	wants(t, page, "What do you want to reach?", `href="/ui/?goal=browsers"`, `href="/ui/?goal=bot"`, `href="/ui/?goal=phones"`, `href="/ui/?goal=live"`)
	_, page = b.get("/ui/?goal=browsers")
	wants(t, page, `aria-current="true"`, `id="origin"`, `data-events="/ui/overview/events?goal=browsers"`)
	b.post("/ui/start/start/away", nil)
	for _, path := range []string{"/ui/", "/ui/?goal=browsers"} {
		if _, page = w.as(signin.Admin).get(path); strings.Contains(page, `id="guide"`) || strings.Contains(page, "What do you want") {
			t.Errorf("%s has guides that another person has put away", path)
		}
	}
	_, page = b.get("/ui/start/browsers")
	wants(t, page, `id="origin"`)
}

func TestAGuideThatIsPutAwayLeavesThePageOfItsChannel(t *testing.T) {
	_, w := newShelves(t)
	b := w.signedIn()
	_, page := b.get("/ui/channels/telegram")
	wants(t, page, "Connect the bot", `data-events="/ui/start/bot/events"`)
	b.post("/ui/start/bot/away", nil)
	_, page = b.get("/ui/channels/telegram")
	if strings.Contains(page, `id="guide"`) {
		t.Error("the guide is still there")
	}
	wants(t, page, `href="/ui/start/bot"`)
	if status, _ := b.post("/ui/start/nothing/away", nil); status != http.StatusNotFound {
		t.Errorf("a guide that is none: %d", status)
	}
}

func TestWebPushIsReadyOnceSomebodyCanCome(t *testing.T) {
	_, w := newShelves(t)
	b := w.signedIn()
	for _, path := range []string{"/ui/channels", "/ui/channels/webpush"} {
		_, page := b.get(path)
		wants(t, page, "needs a site")
	}
	b.post("/ui/start/browsers/origin", url.Values{"origin": {"www.example.org"}})
	_, page := b.get("/ui/channels/webpush")
	wants(t, page, `<span class="state completed">ready</span>`)

	_, w = newShelves(t)
	w.register(push.WebPush, subscription, audience.Endpoint{Recipient: "anna"})
	_, page = w.signedIn().get("/ui/channels/webpush")
	wants(t, page, `<span class="state completed">ready</span>`)
}

func TestASiteIsNamedAsPeopleNameIt(t *testing.T) {
	for typed, want := range map[string]string{
		"https://www.example.org": "https://www.example.org", "www.example.org": "https://www.example.org", " https://Example.org/shop?a=b#c ": "https://example.org",
		"localhost:3000": "http://localhost:3000", "http://127.0.0.1:8000/": "http://127.0.0.1:8000", "https://example.org:8443": "https://example.org:8443", "bücher.example": "https://xn--bcher-kva.example",
		"": "", "tides": "", "http://example.org": "", "ftp://example.org": "", "https://*.example.org": "", "javascript:alert(1)": "", hostile: "", "https://user:pass@": "", strings.Repeat("a", 400) + ".org": "",
	} {
		_, w := newShelves(t)
		b := w.signedIn()
		for _, by := range [][]string{nil, {"HX-Request", "true"}} {
			status, page := b.post("/ui/start/browsers/origin", url.Values{"origin": {typed}}, by...)
			checkHarmless(t, typed, page)
			app, err := w.access.App("shop")
			must(t, err)
			if want == "" {
				if status != http.StatusUnprocessableEntity || len(app.AnonymousOrigins) > 0 || !strings.Contains(page, `id="guide-problem"`) {
					t.Errorf("%q: %d, allowed are %q", typed, status, app.AnonymousOrigins)
				}
				continue
			}
			if status != http.StatusOK || !slices.Equal(app.AnonymousOrigins, []string{want}) {
				t.Errorf("%q: %d, allowed are %q, want %q", typed, status, app.AnonymousOrigins, want)
			}
		}
	}
	_, w := newShelves(t)
	b := w.signedIn()
	b.post("/ui/start/browsers/origin", url.Values{"origin": {"a.example"}})
	b.post("/ui/start/browsers/origin", url.Values{"origin": {"b.example"}})
	b.post("/ui/start/live/origin", url.Values{"origin": {"c.example"}})
	b.post("/ui/start/browsers/origin", url.Values{"remove": {"https://a.example"}})
	app, err := w.access.App("shop")
	if err != nil || !slices.Equal(app.AnonymousOrigins, []string{"https://b.example"}) || !slices.Equal(app.Origins, []string{"https://c.example"}) {
		t.Errorf("visitors register from %q, pages connect from %q: %v", app.AnonymousOrigins, app.Origins, err)
	}
}

// hasty is an app that somebody else changes just before each change of ours.
type hasty struct {
	admin.AppSettings
	t    *testing.T
	left int
}

func (h *hasty) SetApp(ctx context.Context, name string, change access.AppChange) error {
	if h.left > 0 {
		h.left--
		other := []string{fmt.Sprintf("https://other-%d.example", h.left)}
		must(h.t, h.AppSettings.SetApp(ctx, name, access.AppChange{AnonymousOrigins: &other}))
	}
	return h.AppSettings.SetApp(ctx, name, change)
}

func TestASiteIsAddedToWhatSomebodyElseHasJustNamed(t *testing.T) {
	s := new(shelves)
	w := newWorld(t, s.serve, func(c *admin.Config) { c.Settings = &hasty{c.Settings, t, 1} })
	status, _ := w.signedIn().post("/ui/start/browsers/origin", url.Values{"origin": {"mine.example"}})
	app, err := w.access.App("shop")
	if want := []string{"https://other-0.example", "https://mine.example"}; err != nil || status != http.StatusOK || !slices.Equal(app.AnonymousOrigins, want) {
		t.Errorf("%d, allowed are %q, %v; want %q", status, app.AnonymousOrigins, err, want)
	}
}

func TestAGuideNoticesTheFirstVisitorAndSendsATest(t *testing.T) {
	s, w := newShelves(t)
	b := w.signedIn()
	b.post("/ui/start/browsers/origin", url.Values{"origin": {"www.example.org"}})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r := bufio.NewReader(b.events(ctx, "/ui/start/browsers/events").Body)
	name, drawn := next(t, r)
	if wants(t, drawn, "Waiting for your site’s first visitor", `data-app=&#34;shop&#34;`); name != "guide" {
		t.Fatalf("event %s", name)
	}
	e := w.register(push.WebPush, subscription, audience.Endpoint{Attributes: audience.Attributes{"plan": audience.Text(hostile)}})
	name, drawn = next(t, r)
	checkHarmless(t, name, drawn)
	wants(t, drawn, "Firefox", `value="`+e.ID.String()+`"`)

	s.refusal = &push.RetryError{Reason: hostile}
	_, page := b.post("/ui/start/browsers/test", url.Values{"to": {e.ID.String()}})
	checkHarmless(t, "test", page)
	if wants(t, page, "retry", "&lt;hostile"); strings.Contains(page, `id="finished"`) {
		t.Error("a test that failed ends the guide")
	}
	s.refusal = nil
	_, page = b.post("/ui/start/browsers/test", url.Values{"to": {e.ID.String()}}, "HX-Request", "true")
	wants(t, page, `id="finished"`, "accepted")
	if len(s.sent) != 2 || string(s.sent[1].Address) != string(e.Address) || s.sent[1].Content.Title != "It works" {
		t.Errorf("sent %+v", s.sent)
	}
	if status, _ := b.post("/ui/start/browsers/test", url.Values{"to": {"nobody"}}); status != http.StatusNotFound {
		t.Errorf("a test to nobody: %d", status)
	}
}

func TestAGuideConnectsABot(t *testing.T) {
	s, w := newShelves(t)
	b := w.signedIn()
	_, page := b.post("/ui/start/bot/connect", url.Values{"token": {""}})
	wants(t, page, "Paste it here first.")
	_, page = b.post("/ui/start/bot/connect", url.Values{"token": {"12:s3cret"}})
	checkHarmless(t, "connect", page)
	if wants(t, page, "bot @", "Waiting for the first person"); strings.Contains(page, "s3cret") {
		t.Error("the page shows the bot's token")
	}
	if s.values["token"] != "12:s3cret" || s.values["updates"] != "true" {
		t.Errorf("set to %v", s.values)
	}
	s.refusal = &push.ConfigError{Reason: hostile}
	_, page = b.post("/ui/start/phones/connect", url.Values{"service_account": {"{}"}})
	checkHarmless(t, "connect", page)
	wants(t, page, "It is stored, but does not work yet: ")
}

func TestWhoMayOnlyLookSeesStepsWithoutForms(t *testing.T) {
	s, w := newShelves(t)
	s.up[push.Telegram] = true
	for _, path := range []string{"/ui/", "/ui/?goal=browsers", "/ui/start/browsers", "/ui/start/bot", "/ui/start/phones", "/ui/start/live", "/ui/channels/telegram"} {
		_, page := w.as(signin.View).get(path)
		for _, lead := range leads(t, page) {
			if method, _, _ := strings.Cut(lead, " "); method == http.MethodPost {
				t.Errorf("%s draws %s for who may only look", path, lead)
			}
		}
	}
}

func TestTheServersAddressInSnippetsIsTheVisitors(t *testing.T) {
	_, w := newShelves(t)
	b := w.signedIn()
	_, page := b.get("/ui/start/godwit-sw.js")
	if want := `importScripts("` + w.srv.URL + `/sdk/sw.js");`; strings.TrimSpace(page) != want {
		t.Errorf("the file is %q, want %q", page, want)
	}
	s := new(shelves)
	w = newWorld(t, s.serve, func(c *admin.Config) { c.Origin = "https://push.example.org" })
	b = w.signedIn()
	_, page = b.get("/ui/start/live")
	wants(t, page, `https://push.example.org/sdk/live.js`)
	if strings.Contains(page, w.srv.URL) {
		t.Error("the snippet names the address behind the proxy")
	}
}
