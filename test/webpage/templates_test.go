package webpage

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/test/blackbox"
)

// TestAPersonWritesATemplate writes a template in two languages, meets somebody else's change, deletes it, brings it back and begins a
// campaign with it.
func TestAPersonWritesATemplate(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestABotsOwnerSendsACampaignWithAButtonAndTakesItBack")
	s := newStage(t)
	s.call(http.MethodPut, "/v1/templates/welcome", map[string]any{"content": map[string]any{"title": "Welcome, {{name|friend}}", "body": "Good that you are here. " + hostile, "language": "en", "locales": map[string]any{"de": map[string]any{"title": "Willkommen"}}}})
	s.signIn("dev")

	s.key("g")
	s.key("t")
	s.arrives("/ui/templates", `a[href="/ui/templates/welcome"]`)
	s.clicks(`a[href="/ui/new-template"]`)
	s.sees("#compose")
	s.types("#name", "tides")
	s.types("#title", "Low tide at {{time|noon}}")
	s.types("#body", "The flats at {{place}} are open, {{name|friend}}.")
	s.reads("#preview .telegram", "Low tide at noon")
	s.reads("#preview", "has to fill in: place.")
	s.clicks("#locales > summary")
	s.types("#locale-0-tag", "fr")
	s.types("#locale-0-title", "Marée basse")
	s.sees("#in")
	s.does("choose French", chromedp.SetValue("#in", "fr", chromedp.ByQuery), chromedp.Evaluate(`document.querySelector("#in").dispatchEvent(new Event("input", {bubbles: true}))`, nil))
	s.reads("#preview .phone", "Marée basse")
	s.reads("#preview .browser", "Marée basse")
	s.clicks("details.api > summary")
	s.reads("#call", "/v1/templates/tides")
	s.sees("button[data-copy=call]")
	s.clicks("#save")
	s.reads(".done", "Saved as revision 1.")

	s.call(http.MethodPut, "/v1/templates/tides", map[string]any{"content": map[string]any{"title": "Theirs"}})
	s.rewrites("#title", "High tide at {{time|noon}}")
	s.presses("#save", "#changed")
	s.reads("#changed", "Somebody else has saved revision 2")
	s.presses("#save", ".done")
	s.reads(".done", "Saved as revision 3.")
	s.reads("#preview", "High tide at noon")

	s.clicks(`#versions a[href="/ui/templates/tides?revision=2"]`)
	s.reads("#former", "This is what revision 2 said.")
	s.reads("#preview .phone", "Theirs")
	s.looksAtEveryPage([]sight{{"write-former", "/ui/templates/tides?revision=1", "#former", nil}})

	s.opens("/ui/find?q=tid")
	s.clicks(`#found a[href="/ui/templates/tides"]`)
	s.sees("#delete")
	s.clicks("#delete button")
	s.reads("#gone", "tides is deleted")
	s.clicks("#gone button")
	s.reads(".done", "Saved as revision 1.")
	s.clicks(`a[href="/ui/campaigns/new?template=tides"]`)
	s.sees("#variable-place")
	s.types("#variable-place", "the north pier")
	s.reads("#preview", "The flats at the north pier are open")

	s.looksAtEveryPage([]sight{
		{"templates", "/ui/templates", "#templates table", nil},
		{"write", "/ui/templates/tides", "#preview .device", nil},
		{"write-hostile", "/ui/templates/welcome?in=de", "#preview .device", nil},
		{"write-new", "/ui/new-template", "#preview", nil},
	})
}
