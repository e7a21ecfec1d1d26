package admin_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestStrangersSeeOnlyTheWayIn(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	for _, path := range []string{"/", "/ui/campaigns", "/ui/campaigns/new", "/ui/audience", "/ui/campaigns/x/progress"} {
		_, page := b.get(path)
		wants(t, page, "Sign in")
		if strings.Contains(page, "Sign out") {
			t.Errorf("%s is open to strangers", path)
		}
	}
	_, page := b.post("/ui/campaigns", url.Values{"title": {"x"}})
	wants(t, page, "Sign in")
	if list, err := w.store.List(t.Context(), "shop", 10, 0); err != nil || len(list) > 0 {
		t.Errorf("a stranger made %v, %v", list, err)
	}
}

func TestOnlyKeysOfTheServerOpenThePage(t *testing.T) {
	w := newWorld(t)
	for name, key := range map[string]string{"nonsense": "gw_nonsense", "": ""} {
		b := w.browser()
		status, page := b.post("/ui/sign-in", url.Values{"key": {key}})
		if status != http.StatusForbidden || strings.Contains(page, "Sign out") {
			t.Errorf("%s: %d", name, status)
		}
		if key != "" && strings.Contains(page, key) {
			t.Errorf("%s: the page shows the key", name)
		}
	}
}

func TestTheDevelopmentKeySignsInWhereItIsOne(t *testing.T) {
	dev := access.Config{Dev: true}
	w := newWorldWith(t, dev, func(c *admin.Config) { c.Dev = true })
	w.key = access.DevKey
	_, page := w.browser().get("/")
	wants(t, page, "Its key is <code>dev</code>")
	w.signedIn()

	w = newWorld(t)
	if status, _ := w.browser().post("/ui/sign-in", url.Values{"key": {access.DevKey}}); status != http.StatusForbidden {
		t.Errorf("elsewhere it is answered %d", status)
	}
}

func TestADeletedKeySignsOut(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	keys := w.access.Keys("shop")
	must(t, w.access.DeleteKey(t.Context(), "shop", keys[0].ID))
	_, page := b.get("/ui/campaigns")
	wants(t, page, "Sign in")
}

func TestSigningOutEndsTheCookie(t *testing.T) {
	b := newWorld(t).signedIn()
	u, err := url.Parse(b.srv.URL)
	must(t, err)
	kept := b.client.Jar.Cookies(u)
	b.post("/ui/sign-out", nil)
	b.client.Jar.SetCookies(u, kept) // a thief has a copy
	_, page := b.get("/ui/campaigns")
	wants(t, page, "Sign in")
}

func TestCookieAndPagesAreGuarded(t *testing.T) {
	w := newWorld(t, func(c *admin.Config) { c.TLS = true })
	b := w.browser()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.srv.URL+"/ui/sign-in", strings.NewReader(url.Values{"key": {w.key}}.Encode()))
	must(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, _ := b.do(req)
	wants(t, resp.Header.Get("Set-Cookie"), "__Host-godwit=", "HttpOnly", "Secure", "SameSite=Strict", "Path=/")
	wants(t, resp.Header.Get("Content-Security-Policy"), "default-src 'none'", "frame-ancestors 'none'", "script-src 'self'")
	if csp := resp.Header.Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") {
		t.Errorf("policy %q", csp)
	}
}

func TestPagesHaveNothingInline(t *testing.T) {
	b := newWorld(t).signedIn()
	b.subscribe("shop")
	inline := regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=`)
	for _, path := range []string{"/ui/campaigns", "/ui/campaigns/new", "/ui/audience"} {
		if _, page := b.get(path); inline.MatchString(page) {
			t.Errorf("%s: %q would not run under its own policy", path, inline.FindString(page))
		}
	}
}

func TestOtherSitesCannotPost(t *testing.T) {
	b := newWorld(t).signedIn()
	status, _ := b.post("/ui/campaigns", url.Values{"title": {"Hi"}}, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	if status != http.StatusForbidden {
		t.Errorf("answered %d", status)
	}
}

func TestPagesOfThePublicURLCanPostThroughAProxyThatRewritesHost(t *testing.T) {
	w := newWorld(t, func(c *admin.Config) { c.Origin = "https://push.example.org" })
	for origin, want := range map[string]int{"https://push.example.org": http.StatusOK, "https://evil.example": http.StatusForbidden} {
		if status, _ := w.browser().post("/ui/sign-in", url.Values{"key": {w.key}}, "Origin", origin); status != want {
			t.Errorf("a sign-in from %s is answered %d, want %d", origin, status, want)
		}
	}
}

func TestAttemptsToSignInAreLimited(t *testing.T) {
	w := newWorld(t, func(c *admin.Config) { c.Admit = func(netip.Addr) bool { return false } })
	if status, _ := w.browser().post("/ui/sign-in", url.Values{"key": {w.key}}); status != http.StatusTooManyRequests {
		t.Errorf("answered %d", status)
	}
}

// create makes a campaign by the form and returns its id.
func (b *browser) create(form url.Values) string {
	b.Helper()
	_, page := b.post("/ui/campaigns", form)
	found := regexp.MustCompile(`/ui/campaigns/([0-9A-Z]{26})/`).FindStringSubmatch(page)
	if found == nil {
		b.Fatalf("no campaign was made:\n%s", page)
	}
	return found[1]
}

func TestACampaignIsComposedStartedAndWatched(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	w.subscribe("shop", "news")
	w.subscribe("shop", "sport")
	form := url.Values{
		"name": {"Spring"}, "title": {"Dear {{name|friend}}"}, "body": {"It is <b>spring</b>"}, "channel": {"webhook"}, "tags_any": {"news"},
		"track": {"on"}, "key": {"k1"}, "then": {"draft"},
	}
	_, page := b.post("/ui/campaigns/preview", form)
	wants(t, page, "<b>1</b> can be reached", "Dear friend", "&lt;b&gt;spring")

	id := b.create(form)
	if again := b.create(form); again != id {
		t.Errorf("posting the form twice made %s and %s", id, again)
	}
	_, page = b.get("/ui/campaigns/" + id)
	wants(t, page, "Spring", `data-state="draft"`, "Any of the tags", "news")
	if _, page = b.get("/ui/campaigns"); strings.Count(page, ">Spring<") != 1 {
		t.Errorf("the list:\n%s", page)
	}
	b.post("/ui/campaigns/"+id+"/start", nil, "HX-Request", "true")
	page = b.eventually("/ui/campaigns/"+id+"/progress", `data-state="completed"`)
	wants(t, page, "1 of 1 done", `data-outcome="accepted"><b>1</b>`, "Take back")
	if strings.Contains(page, "hx-trigger") {
		t.Error("the page of a campaign that has ended goes on asking")
	}
}

// eventually requests a page until it contains a text.
func (b *browser) eventually(path, want string) (page string) {
	b.Helper()
	if !eventually.Holds(func() bool {
		_, page = b.get(path)
		return strings.Contains(page, want)
	}) {
		b.Fatalf("%s never had %q:\n%s", path, want, page)
	}
	return page
}

func TestADraftIsChangedTestedAndDeleted(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	w.subscribe("shop", "news")
	id := b.create(url.Values{
		"name": {"Spring"}, "title": {"Dear"}, "channel": {"webhook"}, "tags_any": {"news"}, "track": {"on"}, "key": {"k1"}, "rate": {"100/m"}, "image": {"https://example.org/a.png"},
	})
	_, page := b.get("/ui/campaigns/" + id + "/edit")
	wants(t, page, `value="Spring"`, `value="Dear"`, `value="news"`, `value="webhook" checked`, `action="/ui/campaigns/`+id+`"`, `value="https://example.org/a.png"`)
	_, page = b.post("/ui/campaigns/"+id, url.Values{"name": {"Summer"}, "title": {"Dear"}, "channel": {"webhook"}, "tags_any": {"news"}, "rate": {"1.67/s"}})
	wants(t, page, "<h1>Summer</h1>", `data-state="draft"`)
	c, err := w.store.Get(t.Context(), "shop", id)
	must(t, err)
	if c.Spec.Rate.String() != "1.67/s" || c.Spec.Content.Telegram.Photo != "" || c.Spec.Tracked() {
		t.Errorf("changed to %+v", c.Spec)
	}

	status, page := b.post("/ui/campaigns/"+id+"/test", url.Values{"to": {"nobody"}}, "HX-Request", "true")
	if wants(t, page, "nobody has no active address"); status != http.StatusOK {
		t.Errorf("a test to nobody ends with %d", status)
	}
	endpoints, _, _, err := w.store.ListEndpoints(t.Context(), "shop", audience.Active, everybody(t), 0, 1)
	must(t, err)
	_, page = b.post("/ui/campaigns/"+id+"/test", url.Values{"to": {endpoints[0].ID.String()}}, "HX-Request", "true")
	wants(t, page, `<span class="state accepted">accepted</span> Webhook`)

	_, page = b.post("/ui/campaigns/"+id+"/delete", nil)
	wants(t, page, "No campaign yet")
	if status, _ := b.get("/ui/campaigns/" + id + "/edit"); status != http.StatusNotFound {
		t.Errorf("after it was deleted: %d", status)
	}
}

func everybody(t *testing.T) *audience.Selection {
	t.Helper()
	sel, err := (&audience.Audience{}).Select("")
	must(t, err)
	return sel
}

func TestACampaignIsOfItsTemplateUntilItsTextIsChanged(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	id := b.create(url.Values{"title": {"Plan {{plan}}"}, "key": {"k"}})
	_, err := w.store.Change(t.Context(), "shop", id, func(c *campaign.Campaign) error {
		c.Spec.Template, c.Spec.TemplateRevision, c.Spec.Variables = "welcome", 3, map[string]string{"plan": "pro"}
		return nil
	})
	must(t, err)
	_, page := b.get("/ui/campaigns/" + id + "/edit")
	wants(t, page, `<option value="welcome" selected>`, `name="variable-plan"`)
	for _, step := range []struct{ title, template string }{{"Plan {{plan}}", "welcome"}, {"Your plan: {{plan}}", ""}} {
		b.post("/ui/campaigns/"+id, url.Values{"title": {step.title}, "rate": {"10/s"}})
		c, err := w.store.Get(t.Context(), "shop", id)
		must(t, err)
		if got := c.Spec; got.Content.Title != step.title || got.Template != step.template || got.Variables["plan"] != "pro" {
			t.Errorf("saved with %q: %+v", step.title, got)
		}
	}
}

func TestTimesAreReadInThePersonsZone(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	at := time.Now().AddDate(0, 1, 0).UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)
	form := url.Values{"title": {"x"}, "channel": {"webhook"}, "then": {"start"}, "key": {"k"}, "timezone": {"Asia/Kolkata"}, "send_at": {at.Add(5*time.Hour + 30*time.Minute).Format("2006-01-02T15:04")}}
	id := b.create(form)
	c, err := w.store.Get(t.Context(), "shop", id)
	must(t, err)
	if !c.SendAt.Equal(at) {
		t.Errorf("it is to be sent at %s, want %s", c.SendAt, at)
	}
	_, page := b.get("/ui/campaigns/" + id + "/edit")
	wants(t, page, `data-utc="`+at.Format("2006-01-02T15:04")+`"`)
	for _, zone := range []string{"Local", "../../etc/passwd", "Mars/Olympus"} {
		form.Set("timezone", zone)
		form.Set("key", zone)
		if status, page := b.post("/ui/campaigns", form); status != http.StatusUnprocessableEntity || !strings.Contains(page, "time zone") {
			t.Errorf("%s: %d", zone, status)
		}
	}
}

func TestFailuresLeadToTheirReasonsAndDaysAreDrawn(t *testing.T) {
	w := newWorld(t, func(c *admin.Config) { c.Campaigns = failing{c.Campaigns} })
	b := w.signedIn()
	w.subscribe("shop", "news")
	id := b.create(url.Values{"title": {"x"}, "channel": {"webhook"}, "then": {"start"}, "key": {"k"}})
	page := b.eventually("/ui/campaigns/"+id+"/progress", `data-state="completed"`)
	wants(t, page, `<a href="/ui/campaigns/`+id+`/deliveries?outcome=accepted">`)
	_, page = b.get("/ui/campaigns/" + id + "/deliveries?outcome=failed")
	wants(t, page, "gone &amp; &lt;b", "2</td>", "deliveries?outcome=failed")
	_, page = b.get("/ui/campaigns/" + id + "/causes")
	wants(t, page, "gone &amp; &lt;b", ">2<", "100 %", "deliveries?outcome=failed")
	if status, _ := b.get("/ui/campaigns/" + id + "/deliveries?outcome=nonsense"); status != http.StatusBadRequest {
		t.Errorf("an unknown outcome is answered %d", status)
	}
	_, page = b.get("/ui/campaigns")
	wants(t, page, `id="days"`, `<rect class="accepted"`, "1 accepted")
}

// failing reports failures for campaigns without any.
type failing struct{ admin.Campaigns }

func (f failing) Report(ctx context.Context, app, id string, only *campaign.Outcome, limit int, cursor int64) ([]campaign.Delivery, int64, error) {
	if *only != campaign.Refused {
		return f.Campaigns.Report(ctx, app, id, only, limit, cursor)
	}
	return []campaign.Delivery{{Row: 1, Channel: push.Webhook, Detail: "gone & <b>"}, {Row: 2, Channel: push.Webhook, Detail: "gone & <b>"}}, 0, nil
}

func TestLongNamesAreCutInTheList(t *testing.T) {
	b := newWorld(t).signedIn()
	b.create(url.Values{"name": {strings.Repeat("ä", 80)}, "title": {"Hi"}})
	b.create(url.Values{"name": {strings.Repeat("ö", 81)}, "title": {"Hi"}})
	_, page := b.get("/ui/campaigns")
	wants(t, page, ">"+strings.Repeat("ä", 80)+"<", ">"+strings.Repeat("ö", 79)+"…<")
}

func TestMistakesAreTold(t *testing.T) {
	b := newWorld(t).signedIn()
	for _, c := range []struct {
		form url.Values
		want string
	}{
		{url.Values{"title": {""}, "then": {"ask"}}, "empty message"},
		{url.Values{"title": {"x"}, "where": {"age >="}}, "where-problem"},
		{url.Values{"title": {"x"}, "rate": {"fast"}}, "is not a rate"},
		{url.Values{"title": {"x"}, "url": {"javascript:alert(1)"}}, "url-problem"},
		{url.Values{"title": {"x"}, "channel": {"telegram"}, "then": {"start"}}, "not set up"},
		{url.Values{"title": {"x"}, "quiet_from": {"25:00"}, "quiet_to": {"07:00"}}, "is not a time of day"},
		{url.Values{"title": {"x"}, "send_at": {"2030-01-01T10:00"}, "then": {"draft"}}, "more than a year ahead"},
	} {
		c.form.Set("key", t.Name()+c.want)
		status, page := b.post("/ui/campaigns", c.form, "HX-Request", "true")
		if status < 400 || status >= 500 || !strings.Contains(page, c.want) {
			t.Errorf("%v: %d %s, want %q", c.form, status, page, c.want)
		}
	}
}

func TestAnotherAppsCampaignIsUnknown(t *testing.T) {
	w := newWorld(t)
	id := w.signedIn().create(url.Values{"title": {"Ours"}, "key": {"k"}})
	w.key = w.newKey("other", access.Admin)
	b := w.signedIn()
	if status, page := b.get("/ui/campaigns/" + id); status != http.StatusNotFound || strings.Contains(page, "Ours") {
		t.Errorf("another app sees it: %d\n%s", status, page)
	}
	if status, _ := b.post("/ui/campaigns/"+id+"/cancel", nil); status != http.StatusNotFound {
		t.Errorf("another app may cancel it: %d", status)
	}
}

func TestAudienceIsCounted(t *testing.T) {
	w := newWorld(t)
	w.subscribe("shop", "news")
	w.subscribe("shop", "sport")
	w.subscribe("other", "news")
	b := w.signedIn()
	_, page := b.get("/ui/audience")
	wants(t, page, "<b>2</b><span>active", "news", "sport", "Endpoints by day: 2 gained, 0 lost", `data-gained="2" data-lost="0"`, `data-gained="0" data-lost="0"`)
	_, page = b.post("/ui/audience/count", url.Values{"tags_any": {"news"}}, "HX-Request", "true")
	wants(t, page, "<b>1</b> active address matches")
	_, page = b.post("/ui/audience/count", url.Values{"where": {`city = `}}, "HX-Request", "true")
	wants(t, page, "where")
}

func TestAssetsMayBeKept(t *testing.T) {
	b := newWorld(t).browser()
	_, page := b.get("/")
	for _, path := range regexp.MustCompile(`/ui/assets/[^"]+`).FindAllString(page, -1) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.srv.URL+path, nil)
		must(t, err)
		resp, body := b.do(req)
		if resp.StatusCode != http.StatusOK || body == "" || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, %q", path, resp.StatusCode, resp.Header.Get("Cache-Control"))
		}
	}
}

func TestTheCampaignsPageSaysHowFarACorrectionHasCome(t *testing.T) {
	w := newWorld(t)
	b := w.signedIn()
	id := b.create(url.Values{"title": {"Mondey"}, "channel": {"webhook"}})
	_, err := w.store.Change(t.Context(), "shop", id, func(c *campaign.Campaign) error {
		c.State, c.RecallFrom, c.Channels = campaign.Correcting, campaign.Completed, []push.Channel{push.Telegram, push.Webhook}
		c.Spec.Correction = &campaign.Correction{At: time.Now(), Messages: 4, Content: campaign.Content{Content: push.Content{Title: "Monday"}}}
		return nil
	})
	must(t, err)
	_, page := b.get("/ui/campaigns/" + id)
	wants(t, page, "0 of 4 messages in Telegram are corrected", "Monday", "Mondey", `>Take back<`)
}
