package webpage

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/test/blackbox"
)

// languages are those that the test looks at and takes pictures of, with commas between them; empty: those with the longest words.
var languages = os.Getenv("GODWIT_SCREENSHOTS_LANGUAGES")

// everyPage are the pages of an app's admin, with an element that each has.
func everyPage(sent, draft string) []sight {
	return []sight{
		{"overview", "/ui/", "#figures", nil},
		{"start-browsers", "/ui/start/browsers", "#guide", nil},
		{"start-bot", "/ui/start/bot", "#guide", nil},
		{"campaigns", "/ui/campaigns", "#several", nil},
		{"campaign", "/ui/campaigns/" + sent, "#progress", nil},
		{"draft", "/ui/campaigns/" + draft, "#try", nil},
		{"deliveries", "/ui/campaigns/" + sent + "/deliveries?outcome=failed", "#reasons", nil},
		{"compose", "/ui/campaigns/new", "#reach", nil},
		{"edit", "/ui/campaigns/" + draft + "/edit", "#preview .bubble", nil},
		{"send", "/ui/send", "#compose", nil},
		{"templates", "/ui/templates", "#templates", nil},
		{"new-template", "/ui/new-template", "#compose", nil},
		{"audience", "/ui/audience", "#found", nil},
		{"import", "/ui/audience/import", "#import", nil},
		{"categories", "/ui/categories", "main h1", nil},
		{"new-category", "/ui/new/categories", "#settings", nil},
		{"recipients", "/ui/recipients", "#list", nil},
		{"objects", "/ui/objects", "#list", nil},
		{"topics", "/ui/topics", "#workers", nil},
		{"gateway", "/ui/gateway", "#sessions", nil},
		{"channels", "/ui/channels", "#channels", nil},
		{"channel", "/ui/channels/telegram", "#settings", nil},
		{"integrations", "/ui/integrations", "#sources", nil},
		{"new-hook", "/ui/new/hooks", "#settings", nil},
		{"new-source", "/ui/new/sources?kind=jetstream", "#settings", nil},
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
	bot := botserver.Start(botserver.Options{Token: "123456789:AAExampleExampleExampleExample1234567"})
	t.Cleanup(bot.Close)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--allow-private-urls"))
	setUp(t, server, bot)
	p := newPerson(t, "http://"+server.HTTP)
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

	tags := []string{"de", "hi"}
	if languages != "" {
		tags = strings.Split(languages, ",")
	}
	for _, tag := range tags {
		p.opens("/ui/")
		p.speaksTag(tag)
		for _, s := range everyPage(sent, draft) {
			p.opens(s.path)
			p.sees(s.ready)
			p.sees(`html[lang="` + tag + `"]`)
			p.isSmall(s)
			for _, on := range []screen{screens[0], screens[len(screens)-1]} {
				p.looksWith(on)
				p.fits(s, on)
				p.isNotCut(s, on)
				p.photographs(tag + "-" + s.name + "-" + on.name)
			}
		}
	}
}

// speaksTag chooses a language by its tag.
func (p *person) speaksTag(tag string) {
	p.Helper()
	p.clicks(".languages summary")
	p.clicks(`.languages button[value="` + tag + `"]`)
	p.sees(`html[lang="` + tag + `"]`)
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
