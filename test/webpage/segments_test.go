package webpage

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"godwit.dev/godwit/test/blackbox"
)

// TestASegmentIsBuiltByTheKeyboardOnAPhone builds a segment row by row at the width of a phone, by the keyboard alone: the expression and the
// count follow each row, the rows follow the expression, and the focus stays where somebody types.
func TestASegmentIsBuiltByTheKeyboardOnAPhone(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestABotsOwnerSendsACampaignWithAButtonAndTakesItBack")
	s := newStage(t)
	for i := range 12 {
		city := []string{"Oslo", "Bergen", "Tromsø"}[i%3]
		s.call(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "telegram", "address": map[string]any{"chat_id": i + 1}, "recipient": fmt.Sprintf("person-%d", i), "attributes": map[string]any{"city": city, "age": 10 + i}})
	}
	s.signIn("dev")
	s.holdsAPhone()
	s.key("g")
	s.key("s")
	s.arrives("/ui/segments", `a[href="/ui/new-segment"]`)
	s.enters(`a[href="/ui/new-segment"]`)
	s.sees("#rows")
	s.tabsTo("#name")
	s.key("osloers")
	s.tabsTo("#description")
	s.key("Who lives in Oslo")
	s.tabsTo("#row-0-field")
	s.key("city")
	s.tabsTo("#row-0-value")
	s.key("Oslo")
	s.reads("#picks", "4 addresses")
	s.shows("#where", `city = "Oslo"`)
	s.holds("#row-0-value")
	s.enters("#more")
	s.sees("#row-1-field")
	s.holds("#row-1-field")
	s.key("age")
	s.tabsTo("#row-1-op")
	for range 8 {
		s.key(kb.ArrowDown)
	}
	s.shows("#row-1-op", "more")
	s.tabsTo("#row-1-value")
	s.key("15")
	s.reads("#picks", "2 addresses")
	s.shows("#where", `city = "Oslo" and age > 15`)
	s.holds("#row-1-value")
	s.reads("#sample", "person-9")
	s.enters(`button[value="drop-0"]`)
	s.reads("#picks", "6 addresses")
	s.holds("#row-0-field")
	s.shows("#row-0-field", "age")

	s.tabsTo("#where")
	s.rewrites("#where", `city = "Oslo" or city = "Bergen" or age >= 20`)
	s.sees("#row-2-value")
	s.shows("#row-2-value", "20")
	s.shows("#join", "or")
	s.holds("#where")
	s.reads("#picks", "9 addresses")
	s.rewrites("#where", `city = "Oslo" or `)
	s.reads("#mistake", "at character 17")
	s.shows("#row-2-value", "20") // the rows wait
	s.rewrites("#where", `city = "Oslo" and (age > 12 or age < 11)`)
	s.reads("#no-rows", "Rows cannot show this expression")
	s.rewrites("#where", `city = "Oslo" and age >= 12`)
	s.sees("#row-1-value")
	s.enters("#save")
	s.reads(".done", "Saved.")
	s.does("look as before", emulation.ClearDeviceMetricsOverride())

	s.presses(`a[href="/ui/campaigns/new?segment=osloers"]`, "#segment")
	s.shows("#segment", "osloers")
	s.types("#title", "Low tide")
	s.reads("#reach", "3 can be reached")
	s.opens("/ui/segments/osloers")
	s.presses("#delete button", "#gone")
	s.presses("#gone button", ".done")
	s.looksAtEveryPage([]sight{
		{"segments", "/ui/segments", "#segments table", nil},
		{"segment", "/ui/segments/osloers", "#sample", nil},
		{"segment-new", "/ui/new-segment", "#rows", nil},
	})
}

// holds waits until an element has the focus.
func (p *person) holds(selector string) {
	p.Helper()
	p.does("see the focus on "+selector, chromedp.Poll(fmt.Sprintf("document.activeElement?.matches(%q)", selector), nil))
}

// shows waits until a field has a value.
func (p *person) shows(selector, value string) {
	p.Helper()
	p.does(fmt.Sprintf("see %q in %s", value, selector), chromedp.Poll(fmt.Sprintf("document.querySelector(%q)?.value === %q", selector, value), nil))
}
