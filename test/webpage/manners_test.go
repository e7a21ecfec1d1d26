package webpage

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"godwit.dev/godwit/test/blackbox"
)

// key presses a key on the page itself.
func (p *person) key(keys string) {
	p.Helper()
	p.does("press "+keys, chromedp.KeyEvent(keys))
}

// arrives waits until the browser is at a page.
func (p *person) arrives(path, shows string) {
	p.Helper()
	p.sees(shows)
	var at string
	p.does("read the address", chromedp.Evaluate("location.pathname", &at))
	if at != path {
		p.Errorf("the browser is at %s, want %s", at, path)
	}
}

func TestSupportFindsAPersonAndWhatTheyWereToldByTheKeyboard(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestThePageSaysWhyANotificationDidNotArrive")
	s := newStage(t)
	s.call(http.MethodPost, "/v1/notifications", map[string]any{"id": "ride-1", "to": "anna", "title": "New ride", "body": "At the north pier. " + hostile, "data": map[string]any{"fare": 120}, "ttl": "1h"})
	s.call(http.MethodPut, "/v1/recipients/anna/preferences", map[string]any{"categories": map[string]any{"promo": map[string]any{"channels": []string{}}}})
	s.signIn("dev")

	s.holdsAPhone()
	s.does("skip the header", chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab))
	s.does("see that the link which skips the header leads to the content", chromedp.Poll(`document.querySelector("main").contains(document.activeElement)`, nil))
	s.key("g")
	s.key("r")
	s.arrives("/ui/recipients", "#prefix")
	s.opens("/ui/nodes")
	s.sees("#nodes")
	s.key("/")
	s.arrives("/ui/find", "#q")
	s.holds("#q")
	s.key("ann" + kb.Enter)
	s.reads("#found", "anna")
	s.enters(`#found a[href="/ui/recipients/anna"]`)
	s.reads("#history", "New ride")
	s.reads("#wishes", "promo")
	s.reads("#history time", "ago")
	s.enters(`#history a[href^="/ui/notifications/ride-1"]`)
	s.reads("#message", "At the north pier. "+hostile)
	s.reads("#data", `"fare": 120`)
	var title string
	s.does("hover over the time", chromedp.AttributeValue("#story time", "title", &title, nil, chromedp.ByQuery))
	if year := time.Now().Format("2006"); len(title) < 20 || !strings.Contains(title, year) {
		t.Errorf("on hover the time is %q", title)
	}
	s.looksAtEveryPage([]sight{{"notification-kept", "/ui/notifications/ride-1?to=anna", "#data", nil}, {"recipient-known", "/ui/recipients/anna", "#wishes", nil}})

	s.key("?")
	s.sees("#shortcuts[open]")
	s.does("turn the keys off", chromedp.Click("#shortcuts input", chromedp.ByQuery), chromedp.Click("#shortcuts button", chromedp.ByQuery))
	s.opens("/ui/notifications/ride-1?to=anna")
	s.sees("#message")
	s.key("g")
	s.key("c")
	s.key("?")
	s.sees("#shortcuts[open]")
	s.does("turn them on", chromedp.Click("#shortcuts input", chromedp.ByQuery), chromedp.Click("#shortcuts button", chromedp.ByQuery))
	s.key("g")
	s.key("c")
	s.arrives("/ui/campaigns", "#find")

	s.takesBack("/ui/notifications/ride-1?to=anna")
	s.copiesWithoutAClipboard()
	s.opens("/ui/nothing-here")
	s.reads("h1", "There is no such page")
}

// copiesWithoutAClipboard copies a snippet as on a page without https, where scripts have no clipboard.
func (s *stage) copiesWithoutAClipboard() {
	s.Helper()
	s.opens("/ui/start/live")
	s.sees("#page")
	var selected string
	s.does("copy", chromedp.Evaluate(`Object.defineProperty(navigator, "clipboard", {value: undefined})`, nil), chromedp.Click(`button[data-copy="page"]`, chromedp.ByQuery),
		chromedp.Evaluate("getSelection().toString()", &selected))
	if !strings.Contains(selected, "client.listen(") {
		s.Errorf("selected is %q", selected)
	}
	s.does("see times said", chromedp.Evaluate(`[said(new Date(Date.now() - 125_000)), said(new Date(Date.now() + 3_000)), said(new Date(Date.now() + 3_600_000)).includes("in ")].join()`, &selected))
	if selected != "2 min. ago,now,false" {
		s.Errorf("times are said as %q", selected)
	}
}

// takesBack takes a notification back, whose content is gone then, and prints its page.
func (s *stage) takesBack(path string) {
	s.Helper()
	s.opens(path)
	s.presses(`button.danger`, `[data-state="recalled"]`)
	s.opens(path)
	s.reads("#message", "It is not kept any more")
	var shown string
	s.does("look at it on paper", emulation.SetEmulatedMedia().WithMedia("print"), chromedp.Evaluate(`getComputedStyle(document.querySelector("header")).display`, &shown), emulation.SetEmulatedMedia())
	if shown != "none" {
		s.Errorf("on paper the header is %s", shown)
	}
}
