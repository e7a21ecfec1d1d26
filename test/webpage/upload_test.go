package webpage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/test/blackbox"
)

// TestAPersonUploadsAFileForACampaign chooses a file in the form of a campaign, and sends the campaign with it.
func TestAPersonUploadsAFileForACampaign(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestABotsOwnerSendsACampaignWithAButtonAndTakesItBack")
	bot := newBot(t)
	s := newStage(t, "--allow-private-urls")
	s.has(bot)
	s.telegram("ana", 7001)
	menu := filepath.Join(t.TempDir(), "menu <1>.pdf")
	if err := os.WriteFile(menu, []byte("the menu of the week"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.signIn("dev")

	s.opens("/ui/campaigns/new")
	s.types("#title", "This week's menu")
	s.chooses("#upload-type", "document")
	s.types("#upload-chat", "no chat")
	s.does("choose the file", chromedp.SetUploadFiles("#upload-file", []string{menu}, chromedp.ByQuery))
	s.presses("#upload button", `#uploaded [role="alert"]`)
	s.rewrites("#upload-chat", "7001")
	s.clicks("#upload button")
	s.reads("#uploaded", "menu <1>.pdf is uploaded.")
	var title, kind, id string
	s.does("read the form", chromedp.Value("#title", &title, chromedp.ByQuery), chromedp.Value("#media", &kind, chromedp.ByQuery), chromedp.Value("#media_url", &id, chromedp.ByQuery))
	if title != "This week's menu" || kind != "document" || id == "" {
		t.Errorf("after the upload the form has the title %q and %q %q", title, kind, id)
	}
	s.presses("#start", "#ask")
	s.presses("#go", "#progress")
	s.sees(`[data-state="completed"]`)
	sent := bot.Messages()
	if last := len(sent) - 1; last < 0 || sent[last].Method != "sendDocument" || sent[last].Media != id || sent[last].Uploaded || sent[last].Chat != 7001 {
		t.Errorf("sent: %+v", sent)
	}
}

// chooses selects an option of a list.
func (p *person) chooses(selector, value string) {
	p.Helper()
	p.does("choose "+value, chromedp.SetValue(selector, value, chromedp.ByQuery))
}
