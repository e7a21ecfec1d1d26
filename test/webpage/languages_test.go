package webpage

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// languages are those that the test looks at and takes pictures of, with commas between them; empty: those with the longest words.
var languages = os.Getenv("GODWIT_SCREENSHOTS_LANGUAGES")

// fills makes something for each page to show, and returns an endpoint's id.
func (s *stage) fills() (endpoint string) {
	s.Helper()
	s.call(http.MethodPut, "/v1/categories/promo", map[string]any{"campaign_limit": "3/d"})
	s.call(http.MethodPut, "/v1/gateway/shop", map[string]any{"split": map[string]int{"shop": 95, "shop@2": 5}})
	s.call(http.MethodPut, "/v1/batches/region-7", map[string]any{"batch": "60s"})
	s.call(http.MethodPut, "/v1/hooks/billing", map[string]any{"url": "http://127.0.0.1:9/billing"})
	s.call(http.MethodPut, "/v1/sinks/clickhouse", map[string]any{"url": "http://127.0.0.1:9", "user": "godwit", "password": "s3cret"})
	s.call(http.MethodPut, "/v1/segments/north", map[string]any{"where": `station = "north" and exists(name)`, "description": "Who lives near the north pier"})
	s.call(http.MethodPut, "/v1/objects/region-1/camera-config", map[string]any{"version": "7", "payload": map[string]any{"iso": 400}})
	s.telegram("anna", 7001)
	s.publish("ride-1", "anna", "telegram")
	s.call(http.MethodPut, "/v1/recipients/anna/preferences", map[string]any{"categories": map[string]any{"promo": map[string]any{"channels": []string{}}}})
	var list struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	s.api.Call(s, http.MethodGet, "/v1/endpoints?recipient=anna", nil, &list)
	if len(list.Items) != 1 {
		s.Fatalf("anna has %d endpoints", len(list.Items))
	}
	return list.Items[0].ID
}

// asks opens the question before a send.
func (p *person) asks() {
	p.types("#title", "Low tide at noon")
	p.presses("#start", "#question")
}

// checks uploads a table with a bad line, to be checked.
func (p *person) checks() {
	file := filepath.Join(p.TempDir(), "readers.csv")
	if err := os.WriteFile(file, []byte("chat_id,name,age,timezone\n1,Ana,7,Europe/Oslo\nno chat,Bo,8,\n3,Cy,x,Nowhere\n"), 0o600); err != nil {
		p.Fatal(err)
	}
	p.chooses("#channel", "telegram")
	p.does("choose the file", chromedp.SetUploadFiles("#file", []string{file}, chromedp.ByQuery))
	p.presses("#import button", "#result")
}

// everyPage are the pages of an app's admin, with an element that each has.
func (s *stage) everyPage(sent, draft, endpoint string) []sight {
	return []sight{
		{"overview", "/ui/", "#figures", nil},
		{"start-browsers", "/ui/start/browsers", "#guide", nil},
		{"start-bot", "/ui/start/bot", "#guide", nil},
		{"start-phones", "/ui/start/phones", "#guide", nil},
		{"start-live", "/ui/start/live", "#guide", nil},
		{"campaigns", "/ui/campaigns", "#several", nil},
		{"campaign", "/ui/campaigns/" + sent, "#progress", nil},
		{"draft", "/ui/campaigns/" + draft, "#try", nil},
		{"deliveries", "/ui/campaigns/" + sent + "/deliveries?outcome=failed", "#reasons", nil},
		{"compose", "/ui/campaigns/new", "#reach", nil},
		{"ask", "/ui/campaigns/new", "#reach", s.asks},
		{"edit", "/ui/campaigns/" + draft + "/edit", "#preview .bubble", nil},
		{"correct", "/ui/campaigns/" + sent + "/correct", "#preview .bubble", nil},
		{"send", "/ui/send", "#compose", nil},
		{"templates", "/ui/templates", "#templates", nil},
		{"template", "/ui/templates/closed", "#compose", nil},
		{"new-template", "/ui/new-template", "#compose", nil},
		{"segments", "/ui/segments", "#segments", nil},
		{"segment", "/ui/segments/north", "#look", nil},
		{"new-segment", "/ui/new-segment", "#look", nil},
		{"audience", "/ui/audience", "#found", nil},
		{"endpoint", "/ui/audience/" + endpoint, "main h1", nil},
		{"import", "/ui/audience/import", "#import", nil},
		{"import-checked", "/ui/audience/import", "#import", s.checks},
		{"categories", "/ui/categories", "#resources", nil},
		{"category", "/ui/categories/promo", "#settings", nil},
		{"new-category", "/ui/new/categories", "#settings", nil},
		{"recipients", "/ui/recipients", "#list", nil},
		{"recipient", "/ui/recipients/anna", "main h1", nil},
		{"notification", "/ui/notifications/ride-1?to=anna", "#why", nil},
		{"objects", "/ui/objects", "#list", nil},
		{"object", "/ui/objects/region-1/camera-config", "main h1", nil},
		{"topics", "/ui/topics", "#workers", nil},
		{"gateway", "/ui/gateway", "#sessions", nil},
		{"services", "/ui/services", "#resources", nil},
		{"service", "/ui/services/shop", "#settings", nil},
		{"batches", "/ui/batches", "#resources", nil},
		{"batch", "/ui/batches/region-7", "#settings", nil},
		{"channels", "/ui/channels", "#channels", nil},
		{"channel", "/ui/channels/telegram", "#settings", nil},
		{"channel-browsers", "/ui/channels/webpush", "#settings", nil},
		{"channel-phones", "/ui/channels/fcm", "#settings", nil},
		{"integrations", "/ui/integrations", "#sources", nil},
		{"hook", "/ui/hooks/billing", "#settings", nil},
		{"new-hook", "/ui/new/hooks", "#settings", nil},
		{"sink", "/ui/sinks/clickhouse", "#settings", nil},
		{"source-kinds", "/ui/new/sources", ".tiles", nil},
		{"new-source", "/ui/new/sources?kind=jetstream", "#settings", nil},
		{"new-source-postgres", "/ui/new/sources?kind=postgres", "#settings", nil},
		{"app", "/ui/app", "#settings", nil},
		{"keys", "/ui/keys", "#mint", nil},
		{"signed-in", "/ui/signed-in", "#stays", nil},
		{"rules", "/ui/sign-in-rules", "main h1", nil},
		{"audit", "/ui/audit", "#deeds", nil},
		{"nodes", "/ui/nodes", "#nodes", nil},
		{"log", "/ui/log", "#log", nil},
		{"settings", "/ui/settings", ".settings", nil},
		{"find", "/ui/find?q=tide", "#found", nil},
		{"missing", "/ui/nowhere", "#search", nil},
	}
}

// writesLike checks the form of numbers and times for a browser that names some languages, on a page in German.
func (p *person) writesLike(accepted []string, want string) {
	p.Helper()
	list, err := json.Marshal(accepted)
	if err != nil {
		p.Fatal(err)
	}
	var script page.ScriptIdentifier
	var form string
	p.does("write like "+want, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		script, err = page.AddScriptToEvaluateOnNewDocument(`Object.defineProperty(navigator, "languages", {get: () => ` + string(list) + `})`).Do(ctx)
		return err
	}))
	p.opens("/ui/nodes")
	p.sees("#nodes")
	p.does("ask for the form", chromedp.Evaluate("locale", &form), chromedp.ActionFunc(func(ctx context.Context) error {
		return page.RemoveScriptToEvaluateOnNewDocument(script).Do(ctx)
	}))
	if form != want {
		p.Errorf("a browser that names %v writes like %q, want %q", accepted, form, want)
	}
}

// speaks chooses a language at the foot of the page.
func (p *person) speaks(tag, name string) {
	p.Helper()
	p.speaksTag(tag)
	p.reads(".languages summary", name)
}

func TestTheConsoleSpeaksTheLanguageThatAPersonChooses(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestOperatorsManageAppsInABrowser")
	bot := newBot(t)
	s := newStage(t, "--allow-private-urls")
	s.hasChats(bot)
	p, server := s.person, s.server
	p.opens("/")
	p.speaks("de", "Deutsch")
	p.reads("main h1", "Anmelden")
	p.types("#key", "wrong")
	p.clicks("main button")
	p.reads(".notice", "Das ist kein Schlüssel dieses Servers.")
	p.types("#key", "dev")
	p.clicks("main button")
	p.sees("#figures")
	p.reads("nav", "Übersicht")
	p.writesLike([]string{"en-US@posix", "c", "fr", "de-CH", "de"}, "de-CH")
	p.writesLike([]string{"ja", "en"}, "de")

	draft := p.draft(server)
	p.opens("/ui/campaigns/new")
	p.reads("#reach", "60 sind erreichbar")
	p.types("#where", "age >=")
	p.presses(`.beside button[value="draft"]`, "#troubles")
	p.reads("#troubles", "Und wo gilt")
	sent := p.sendsWithFailures(server, bot)
	p.opens("/ui/audience")
	p.speaks("hi", "हिन्दी")
	p.reads("main h1", "ऑडियंस")
	p.speaks("en", "English")
	p.reads("main h1", "Audience")

	pages := s.everyPage(sent, draft, s.fills())
	for tag, some := range shared(pages) {
		p.opens("/ui/keys") // whose foot does not move while it is clicked
		p.speaksTag(tag)
		for _, s := range some {
			p.opens(s.path)
			p.sees(s.ready)
			p.sees(`html[lang="` + tag + `"]`)
			p.isSmall(s)
			if s.prepare != nil {
				s.prepare()
			}
			for _, on := range []screen{screens[0], screens[len(screens)-1]} {
				p.looksWith(on)
				p.fits(s, on)
				p.isNotCut(s, on)
				p.photographs(tag + "-" + s.name + "-" + on.name)
			}
		}
	}
}

// shared returns the pages that are looked at in each language: all where languages are named; else each page in one of two, and in both in
// a thorough run.
func shared(pages []sight) map[string][]sight {
	tags := []string{"de", "hi"}
	each := thorough.Rounds(1, len(tags))
	if languages != "" {
		tags = strings.Split(languages, ",")
		each = len(tags)
	}
	by := map[string][]sight{}
	for _, page := range pages {
		for _, i := range rand.Perm(len(tags))[:each] {
			by[tags[i]] = append(by[tags[i]], page)
		}
	}
	return by
}

// speaksTag chooses a language by its tag.
func (p *person) speaksTag(tag string) {
	p.Helper()
	p.clicks(".languages summary")
	p.clicks(`.languages button[value="` + tag + `"]`)
	p.sees(`html[lang="` + tag + `"]:has(.languages:not([open]))`) // the next page, even if it speaks as the last one did
}

// mostPage limits a page, in bytes: letters of other scripts take up to three each.
const mostPage = 150 << 10

func (p *person) isSmall(s sight) {
	p.Helper()
	var size int
	p.does("weigh "+s.name, chromedp.Evaluate(`performance.getEntriesByType("navigation")[0].decodedBodySize`, &size))
	if size == 0 || size > mostPage {
		p.Errorf("%s has %d bytes", s.name, size)
	}
}

// isNotCut checks that no word is longer than the button, the heading or the label that it is in.
func (p *person) isNotCut(s sight, on screen) {
	p.Helper()
	var cut []string
	const find = `[...document.querySelectorAll("main button, main a.button, main h1, main h2, main label, main legend, main summary, nav a")]
		.filter(e => e.offsetParent && !e.closest(".unseen, .scroll") && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline").map(e => e.textContent.trim().slice(0, 60))`
	p.does("look for cut words on "+s.name, chromedp.Evaluate(find, &cut))
	var broken []string // labels of cards, which stand before their values and would break within a word
	const labels = `[...document.querySelectorAll("main .cards td[data-label]")].filter(td => td.offsetParent && getComputedStyle(td).display === "grid").filter(td => {
		const pen = document.createElement("canvas").getContext("2d"), style = getComputedStyle(td, "::before");
		pen.font = [style.fontWeight, style.fontSize, style.fontFamily].join(" ");
		return td.dataset.label.split(/\s+/).some(word => pen.measureText(word).width > parseFloat(getComputedStyle(td).gridTemplateColumns) + 1);
	}).map(td => td.dataset.label)`
	p.does("look for broken labels on "+s.name, chromedp.Evaluate(labels, &broken))
	for _, text := range append(cut, broken...) {
		p.Errorf("%s on %s: %q is wider than its place", s.name, on.name, text)
	}
}
