package webpage

import (
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// axeCore is a script that finds accessibility barriers; the JavaScript client's tools pin its version and use it, too.
const axeCore = "../../clients/js/node_modules/axe-core/axe.min.js"

// screenshots is the folder for the documentation's pictures; empty: none are written. A picture has the visible part of a page, or with
// GODWIT_SCREENSHOTS_WHOLE the whole page.
var screenshots, whole = os.Getenv("GODWIT_SCREENSHOTS"), os.Getenv("GODWIT_SCREENSHOTS_WHOLE") != ""

// screen is a screen size and colour scheme for viewing the pages.
type screen struct {
	name, scheme  string
	width, height int64
	phone         bool
}

var screens = []screen{
	{"phone-light", "light", 390, 844, true},
	{"phone-dark", "dark", 390, 844, true},
	{"desktop-light", "light", 1280, 800, false},
	{"desktop-dark", "dark", 1280, 800, false},
}

// sight is a page to look at.
type sight struct {
	name, path string
	ready      string // an element that appears once the page is complete
	prepare    func() // actions before the check
}

// looksAtEveryPage checks that every page fits every screen, and has no accessibility barriers in light and dark mode. It takes the
// documentation's pictures if requested.
func (p *person) looksAtEveryPage(sights []sight) {
	p.Helper()
	axe, err := os.ReadFile(axeCore)
	if err != nil {
		blackbox.Skip(p, "axe-core is not there (cd clients/js && npm ci): %v", err)
	}
	for _, s := range sights {
		p.opens(s.path)
		p.sees(s.ready)
		if s.prepare != nil {
			s.prepare()
		}
		p.does("bring axe along", chromedp.Evaluate(string(axe), nil))
		// axe reads each page in light mode on a phone and in dark mode on a desktop; on each change in one of the two, drawn anew.
		read := []int{0, len(screens) - 1}
		rand.Shuffle(len(read), func(i, j int) { read[i], read[j] = read[j], read[i] })
		read = read[:thorough.Rounds(1, len(read))]
		for i, on := range screens {
			p.looksWith(on)
			p.fits(s, on)
			if slices.Contains(read, i) {
				p.isOpenToAll(s, on)
			}
			p.photographs(s.name + "-" + on.name)
		}
	}
	p.does("look as before", emulation.SetEmulatedMedia(), emulation.ClearDeviceMetricsOverride())
	p.repeats("innerWidth === outerWidth", "the page has not the window's width")
}

func (p *person) looksWith(on screen) {
	p.Helper()
	p.does("look with "+on.name,
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: on.scheme}}),
		emulation.SetDeviceMetricsOverride(on.width, on.height, 1, on.phone))
}

func (p *person) fits(s sight, on screen) {
	p.Helper()
	var content int64
	p.does("measure "+s.name, chromedp.Evaluate("document.documentElement.scrollWidth", &content))
	if content > on.width {
		p.Errorf("%s on %s is %d wide on a screen of %d", s.name, on.name, content, on.width)
	}
}

func (p *person) isOpenToAll(s sight, on screen) {
	p.Helper()
	var found []string
	const run = `axe.run(document, {resultTypes: ["violations"], selectors: false, preload: false}).then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html + " " + n.failureSummary).join("\n")))`
	p.does("run axe on "+s.name, chromedp.Evaluate(run, &found, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	for _, violation := range found {
		p.Errorf("%s on %s: %s", s.name, on.name, violation)
	}
}

// photographs stores a picture of the page for the documentation.
func (p *person) photographs(name string) {
	p.Helper()
	if screenshots == "" {
		return
	}
	var png []byte
	shoot := chromedp.CaptureScreenshot(&png)
	if whole {
		shoot = chromedp.FullScreenshot(&png, 100)
	}
	p.does("photograph "+name, chromedp.Evaluate("document.activeElement?.blur(); scrollTo(0, 0)", nil), shoot)
	if err := os.WriteFile(filepath.Join(screenshots, name+".png"), small(p.T, png), 0o644); err != nil { // a picture for everybody
		p.Fatal(err)
	}
}

// draft creates a campaign with every feature of Telegram and browsers, and returns its id.
func (p *person) draft(server *blackbox.Server) string {
	p.Helper()
	return p.makes(server, map[string]any{
		"name": "A rather long name of a campaign that has not been sent to anybody yet",
		"content": map[string]any{
			"title": "Spring tide", "body": "The highest water of the year, {{name|friend}}.\nKeep away from the sea wall.", "url": "https://example.org/tides",
			"telegram": map[string]any{
				"silent": true, "no_preview": true, "video": "https://example.org/tide.mp4",
				"buttons": [][]map[string]string{
					{{"text": "Tide table", "url": "https://example.org/table"}, {"text": "Map", "url": "https://example.org/map"}},
					{{"text": "What to do", "url": "https://example.org/help"}},
				},
			},
			"webpush": map[string]any{"actions": []map[string]string{{"action": "map", "title": "Map", "url": "https://example.org/map"}}},
			"locales": map[string]any{"fr": map[string]any{
				"title": "Grande marée", "body": "La plus haute mer de l’année.", "telegram": map[string]any{"buttons": [][]map[string]string{{{"text": "Horaires", "url": "https://example.org/horaires"}}}},
			}},
		},
		"audience": map[string]any{"channels": []string{"telegram"}, "where": `station = "north" and name != "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch"`}, "rate": "25/s",
		"quiet_hours": map[string]any{"from": "22:00", "to": "07:00"},
	})
}

// makes creates a campaign and returns its id.
func (p *person) makes(server *blackbox.Server, spec map[string]any) string {
	p.Helper()
	a, err := server.API().Do(p.Context(), http.MethodPost, "/v1/campaigns", spec)
	if err != nil || a.Status != http.StatusCreated {
		p.Fatalf("make a campaign: %v %+v", err, a)
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := a.JSON(&made); err != nil {
		p.Fatal(err)
	}
	return made.ID
}

// sights returns all pages, with those of a sent campaign and of a draft.
func (p *person) sights(sent, draft string) []sight {
	mistakes := func() {
		const typed = `for (const [id, text] of Object.entries({"where": "age >=", "button-1-url": "javascript:alert(1)", "rate": "fast", "locale-0-tag": ""}))
			document.getElementById(id).value = text`
		p.does("make mistakes", chromedp.Evaluate(typed, nil))
		p.presses(`.beside button[value="draft"]`, "#troubles")
	}
	template := func() {
		p.does("choose a template", chromedp.SetValue("#template", "closed", chromedp.ByQuery))
		p.presses(`button[value="template"]`, "#variable-name:focus") // typing before the page has set the focus would go to another field
		p.types("#variable-place", "north pier")
		p.reads("#preview", "The north pier is closed")
	}
	correction := func() {
		p.rewrites("#body", "From eight in the evening. Keep off the flats, {{name|friend}}.")
		p.reads("#preview", "From eight")
	}
	return []sight{
		{"campaigns", "/ui/campaigns", "#days", nil},
		{"campaign", "/ui/campaigns/" + sent, "#progress", nil},
		{"draft", "/ui/campaigns/" + draft, "#try", nil},
		{"reasons", "/ui/campaigns/" + sent + "/deliveries?outcome=failed", "#reasons", nil},
		{"compose", "/ui/campaigns/new", "#reach", nil},
		{"template", "/ui/campaigns/new", "#reach", template},
		{"correct", "/ui/campaigns/" + sent + "/correct", "#preview .bubble", correction},
		{"change", "/ui/campaigns/" + draft + "/edit", "#preview .bubble", nil},
		{"mistakes", "/ui/campaigns/" + draft + "/edit", "#preview .bubble", mistakes},
		{"audience", "/ui/audience", "#segment", nil},
		{"error", "/ui/campaigns/01JUNKNOWN", "main h1", nil},
	}
}
