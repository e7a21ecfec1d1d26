package webpage

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/test/blackbox"
)

// hostile is a text that would break out of text, of attributes with either quote and of a script.
const hostile = `"'--></script></textarea></title><img src=x onerror=alert(1)>`

func TestTheConsoleShowsHowTheServerIs(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestOperatorsManageAppsInABrowser")
	s := newStage(t, "--allow-private-urls", "--node", "node-1")
	s.givesKey("dev")
	s.reads("#advice", "Nothing needs attention")
	anna, err := s.server.Dial(t.Context(), "ws", blackbox.Hello{App: access.DevApp, Recipient: "anna", Device: "phone"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(anna.Cut)
	anna = blackbox.Attended(anna)
	s.sees(".plot:not([hidden]) canvas")
	s.reads("#figures", "1\nsessions") // the page updates itself without a reload
	s.walksTheHeader()
	s.sendsOne(anna)

	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(hostile))
	}))
	t.Cleanup(away.Close)
	s.call(http.MethodPut, "/v1/hooks/orders", map[string]any{"url": away.URL})
	s.publish("ride-1", "anna")
	s.opens("/ui/")
	s.reads("#advice", "The hook orders is failing")
	s.setsUpTelegram()
	s.looksAtObjects()
	s.looksAtEveryPage([]sight{
		{"overview", "/ui/", ".plot:not([hidden]) canvas", nil},
		{"channels", "/ui/channels", "#channels", nil},
		{"channel", "/ui/channels/telegram", "#settings", nil},
		{"integrations", "/ui/integrations", "#hooks table", func() {
			s.clicks(`#hooks button[hx-post$="/test"]`)
			s.reads("#tested", "retry")
		}},
		{"objects", "/ui/objects?group=region-1", "#list table", nil},
		{"object", "/ui/objects/region-1/camera-config", "#units table", nil},
		{"topics", "/ui/topics", "#topics", nil},
		{"gateway", "/ui/gateway", "#sessions table", nil},
		{"nodes", "/ui/nodes", "#nodes", nil},
		{"log", "/ui/log", "#log table", nil},
		{"settings", "/ui/settings", ".settings", nil},
		{"design", "/ui/design", "#guide-sample", nil},
		{"nothing", "/ui/nothing", "#q", nil},
		{"found", "/ui/find?q=anna", "#found", nil},
		{"docs", "/docs", "article h1", nil},
		{"docs-page", "/docs/reference/frames", "article table", nil},
		{"docs-entry", "/docs/commands/campaign-create", "main h1 code", nil},
		{"docs-search", "/docs/search?q=escalate", ".results mark", nil},
	})
	s.opens("/ui/topics")
	s.reads("#topics", "rides.*")
	s.speaks()
	s.opens("/ui/gateway")
	s.reads("#sessions", "server-sent events")
	s.opens("/ui/integrations")
	s.presses(`#hooks button[hx-post$="/pause"]`, `#hooks button[hx-post$="/resume"]`)
	s.reads("#hooks", "disabled")
}

// setsUpTelegram sets a channel up like an operator with the bot's token, and tries it.
func (s *stage) setsUpTelegram() {
	s.Helper()
	bot := botserver.Start(botserver.Options{Token: "123456789:AAExampleExampleExampleExample1234567"})
	s.Cleanup(bot.Close)
	s.opens("/ui/channels")
	s.clicks(`a[href="/ui/channels/telegram"]`)
	s.types("#token", "nonsense")
	s.clicks(`#settings button`)
	s.sees("#token-problem")
	s.types("#token", "123456789:AAExampleExampleExampleExample1234567")
	s.types("#base_url", bot.URL)
	s.clicks(`#settings button`)
	s.reads(".done", "Saved")
	s.clicks(`#test button`)
	s.reads("#tested", "accepted")
	var page string
	s.does("read the page", chromedp.OuterHTML("html", &page, chromedp.ByQuery))
	if strings.Contains(page, "AAExample") {
		s.Error("the page shows the bot's token")
	}
	if a, err := s.api.Do(s.Context(), http.MethodPost, "/v1/notifications", map[string]any{"to": "no name", "title": hostile}); err != nil || a.Status == http.StatusCreated {
		s.Fatalf("%v %+v", err, a)
	}
	s.opens("/ui/log")
	s.reads("#log", "POST /v1/notifications")
}

// walksTheHeader goes through the pages with the keyboard alone.
func (s *stage) walksTheHeader() {
	s.Helper()
	s.opens("/ui/")
	s.sees("#figures")
	var groups []string
	for range 12 {
		var at string
		s.does("press Tab", chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(`document.activeElement.closest("nav")?.ariaLabel === "Parts" ? document.activeElement.textContent : ""`, &at))
		if at != "" {
			groups = append(groups, at)
		}
	}
	if got := strings.Join(groups, " "); got != "Overview Send Find Live Connect People Server" {
		s.Errorf("Tab leads through %q", got)
	}
	s.does("hold a phone", chromedp.EmulateViewport(390, 844))
	s.clicks(`nav[aria-label="Parts"] a[href="/ui/campaigns"]`)
	s.clicks(`nav[aria-label="Send"] a[href="/ui/audience"]`)
	s.sees("#segment")
	s.does("look as before", emulation.ClearDeviceMetricsOverride())
}

// sendsOne composes a notification, checks its preview, and then its status.
func (s *stage) sendsOne(anna blackbox.Link) {
	s.Helper()
	s.opens("/ui/send")
	s.types("#to", "anna")
	s.types("#title", "New ride")
	s.types("#body", hostile)
	s.reads("#preview", "New ride")
	s.reads("#way", "Given up after 1d")
	s.looksAtEveryPage([]sight{{"send", "/ui/send?to=anna", "#preview h2", func() {
		s.types("#title", "New ride")
		s.types("#body", "2.1 km away, at the north pier.")
		s.types("#step-0-after", "30s")
		s.presses(`button[value="more-step"]`, "#step-1-after")
		s.reads("#preview", "Step 1, channel")
	}}})
	s.clicks("#send")
	s.reads("main", "Step 1, channel: Say over which channel") // the step was added, and not filled in
	s.opens("/ui/send?to=anna")
	s.types("#title", "New ride")
	s.types("#body", hostile)
	s.clicks("#send")
	s.sees("#why")
	n, err := blackbox.NextNotification(s.Context(), anna)
	if err != nil || n.Title != "New ride" {
		s.Fatalf("got %+v, %v", n, err)
	}
	if err := anna.Ack(s.Context(), n.ID); err != nil {
		s.Fatal(err)
	}
	s.reads("#why", "Acknowledged") // the page follows
}

// unit connects a unit that registers for an object, and returns the session's secret.
func (s *stage) unit(name string) (session string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.base+"/v1/stream?app="+access.DevApp+"&recipient="+name+"&group=region-1&objects=camera-config&topics=rides.*", nil)
	if err != nil {
		s.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var welcome struct{ Session string }
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &welcome) == nil && welcome.Session != "" {
			return welcome.Session
		}
	}
	s.Fatalf("%s is not welcome: %v", name, lines.Err())
	return ""
}

// looksAtObjects checks on the page which units have a version.
func (s *stage) looksAtObjects() {
	s.Helper()
	s.call(http.MethodPut, "/v1/objects/region-1/camera-config", map[string]any{"version": "7", "payload": map[string]any{"iso": 400, "note": hostile}})
	first := s.unit("unit-1")
	s.unit("unit-2")
	s.call(http.MethodPost, "/v1/frames", map[string]any{"session": first, "frames": []any{map[string]any{"object_ack": map[string]any{"object": "camera-config", "version": "7"}}}})
	s.opens("/ui/objects")
	s.clicks(`a[href="/ui/objects?group=region-1"]`)
	s.clicks(`a[href="/ui/objects/region-1/camera-config"]`)
	s.reads("#units", "unit-1")
	s.does("ask who lags", chromedp.SetValue("#only", "behind", chromedp.ByQuery), chromedp.Evaluate(`document.querySelector("#only").dispatchEvent(new Event("change", {bubbles: true}))`, nil))
	s.misses(`a[href="/ui/recipients/unit-1"]`)
	s.reads("#units", "lags behind")
}

// speaks checks a time and a number in five languages.
func (s *stage) speaks() {
	s.Helper()
	var agent string
	s.does("read the browser's name", chromedp.Evaluate("navigator.userAgent", &agent))
	for language, want := range map[string][2]string{
		"en-US": {"Mar 5, 2026, 2:07 PM", "1,234,567.5"},
		"de-DE": {"05.03.2026, 14:07", "1.234.567,5"},
		"fr-FR": {"5 mars 2026, 14:07", "1\u202f234\u202f567,5"},
		"es-ES": {"5 mar 2026, 14:07", "1.234.567,5"},
		"pt-PT": {"05/03/2026, 14:07", "1\u00a0234\u00a0567,5"},
	} {
		s.does("speak "+language, emulation.SetUserAgentOverride(agent).WithAcceptLanguage(language), emulation.SetTimezoneOverride("UTC"))
		s.opens("/ui/nodes")
		s.sees("#nodes")
		var said [2]string
		const say = `(() => {
			const root = document.createElement("p");
			root.innerHTML = '<time datetime="2026-03-05T14:07:00Z">x</time><data value="1234567.5">x</data>';
			localize(root);
			return [root.children[0].textContent.replaceAll("\u202f", " "), root.children[1].textContent];
		})()`
		s.does("read", chromedp.Evaluate(say, &said))
		if said != want {
			s.Errorf("in %s it reads %q, want %q", language, said, want)
		}
	}
	s.does("speak as before", emulation.SetUserAgentOverride(agent).WithAcceptLanguage("en"), emulation.SetTimezoneOverride("UTC"))
}
