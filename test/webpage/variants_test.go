package webpage

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"godwit.dev/godwit/test/blackbox"
)

// TestTwoVariantsAreComparedByTheKeyboardOnAPhone composes a campaign with two variants, answers the question, reads the report, and
// decides.
func TestTwoVariantsAreComparedByTheKeyboardOnAPhone(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestABotsOwnerSendsACampaignWithAButtonAndTakesItBack")
	bot := newBot(t)
	s := newStage(t, "--allow-private-urls", "--public-url", "https://push.example.org")
	s.hasChats(bot)
	s.signIn("dev")
	s.holdsAPhone()
	s.opens("/ui/campaigns/new")
	s.sees("#title")
	s.tabsTo("#name")
	s.key("Two headlines")
	s.tabsTo("#title")
	s.key("Low tide at noon")
	s.tabsTo("#url")
	s.key("https://example.org/tides")
	s.enters("#variants summary")
	s.tabsTo("#b_title")
	s.key("Walk to the island")
	s.tabsTo("#share_a")
	s.key("30")
	s.tabsTo("#share_b")
	s.key("30")
	s.tabsTo("#start")
	s.key(kb.Enter)
	s.reads("#decide_after-problem", "Is missing")
	s.sees("#decide_after:focus")
	s.key("1h")
	s.enters("#start")
	s.reads("#question", "over Telegram")
	s.reads("#asked-variants", "A to 30 %, B to 30 %; the rest gets the one with more clicks, 1h after both were sent")
	s.sees("#go:focus")
	s.key(kb.Enter)
	s.reads("#decision", "It decides")
	s.reads(`#compared [data-variant="Rest"]`, "The rest")
	s.enters(`button[formaction$="/decide-b"]`)
	s.reads("#decision", "The rest gets B: somebody chose it.")
	s.sees(`[data-state="completed"]`)
	said := map[string]int{}
	for _, m := range bot.Messages() {
		switch {
		case strings.Contains(m.Text, "Low tide at noon"):
			said["A"]++
		case strings.Contains(m.Text, "Walk to the island"):
			said["B"]++
		}
	}
	if said["A"]+said["B"] != chats || said["A"] == 0 || said["B"] < said["A"] {
		t.Errorf("the chats got %v", said)
	}
	unfolds := func() {
		s.does("unfold both", chromedp.Evaluate(`for (const id of ["variants", "local"]) document.getElementById(id).open = true`, nil))
	}
	asks := func() {
		s.types("#title", "Low tide at noon")
		s.presses("#start", "#ask")
	}
	s.looksAtEveryPage([]sight{
		{"compared", s.path(), "#compared", nil},
		{"variants", "/ui/campaigns/new", "#variants", unfolds},
		{"asked", "/ui/campaigns/new", "#title", asks},
	})
}

// path returns the path of the page.
func (p *person) path() (at string) {
	p.Helper()
	p.does("read the address", chromedp.Evaluate("location.pathname", &at))
	return at
}
