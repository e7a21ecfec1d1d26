package webpage

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"godwit.dev/godwit/internal/access/signin/providertest"
	"godwit.dev/godwit/test/blackbox"
)

// A bot's owner writes a campaign with a button, sends it to those whom an expression picks, and takes it back: on a phone, by the keyboard.
func TestABotsOwnerSendsACampaignWithAButtonAndTakesItBack(t *testing.T) {
	blackbox.Long(t)
	bot := newBot(t)
	s := newStage(t, "--allow-private-urls")
	s.hasChats(bot)
	p := s.person
	p.signIn("dev")
	p.holdsAPhone()
	p.opens("/ui/campaigns")
	p.enters(`a[href="/ui/campaigns/new"]`)
	p.sees("#title")
	p.tabsTo("#name")
	p.key("Tide tables")
	p.tabsTo("#title")
	p.key("Low tide, {{name|friend}}")
	p.enters("#telegram > summary")
	p.sees("#button-0-text")
	p.tabsTo("#button-0-text")
	p.key("Timetable")
	p.tabsTo("#button-0-url")
	p.key("https://example.org/tides")
	p.tabsTo("#where")
	p.key(`station = "north"`)
	p.reads("#reach", "30 can be reached")
	p.enters("#start")
	p.reads("#question", "Send it to 30 addresses over Telegram")
	p.does("wait for the focus", chromedp.Poll(`document.activeElement.id === "go"`, nil))
	p.key(kb.Enter)
	p.sees(`[data-state="completed"]`)
	p.reads(`[data-outcome="accepted"]`, "30")
	for _, m := range bot.Messages() {
		if !strings.Contains(m.Buttons, "Timetable") || !strings.Contains(m.Buttons, "https://example.org/tides") {
			t.Errorf("chat %d got the buttons %s", m.Chat, m.Buttons)
		}
	}
	p.enters(`button[hx-post$="/recall"]`)
	p.sees(`[data-state="recalled"]`)
	p.reads(`[data-outcome="recalled"]`, "30")
	for _, m := range bot.Messages() {
		if !m.Deleted {
			t.Errorf("chat %d still has the message", m.Chat)
		}
	}
}

// A new colleague, who is in a group of the identity provider, signs in on a phone and looks for a person. An administrator sees and ends that
// session.
func TestANewColleagueSignsInByTheKeyboardOnAPhone(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestPeopleSeeWhatTheirRoleMayDo")
	provider, addr := providertest.Start(t), blackbox.Free(t)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Env("GODWIT_OIDC_CLIENT_SECRET="+providertest.Secret), blackbox.Args(
		"--http-addr", addr, "--public-url", "http://"+addr, "--oidc-issuer", provider.URL, "--oidc-client-id", providertest.ClientID,
		"--oidc-allow", "view demo groups=support",
	))
	provider.Says(map[string]any{"sub": "ben-1", "email": "ben@example.org", "groups": []string{"support"}})
	if a, err := server.API().Do(t.Context(), http.MethodPost, "/v1/notifications", map[string]any{"to": "anna", "id": "ride-1", "title": "Your ride is here"}); err != nil || a.Status != http.StatusCreated {
		t.Fatalf("publish: %v %+v", err, a)
	}
	owner := newPerson(t, "http://"+server.HTTP)
	owner.signIn("dev")
	owner.holdsAPhone()
	owner.opens("/ui/sign-in-rules")
	owner.reads("#rules", "support")

	colleague := newPerson(t, "http://"+server.HTTP)
	colleague.holdsAPhone()
	colleague.opens("/")
	colleague.enters("#provider")
	colleague.sees(".who a")
	colleague.sees("main h1")
	colleague.key("/")
	colleague.arrives("/ui/find", "#q")
	colleague.holds("#q")
	colleague.key("anna" + kb.Enter)
	colleague.reads("#found", "anna")
	colleague.enters(`#found a[href="/ui/recipients/anna"]`)
	colleague.reads("#history", "Your ride is here")
	colleague.enters(`#history a[href^="/ui/notifications/ride-1"]`)
	colleague.reads("main", "Your ride is here")
	colleague.misses(`form[action$="/recall"]`)

	owner.opens("/ui/signed-in")
	owner.reads("#stays", "ben@example.org")
	owner.enters(`#stays form[action$="/end"] button`)
	owner.misses(`#stays form[action$="/end"]`)
	colleague.opens("/ui/recipients")
	colleague.sees("#provider")
}
