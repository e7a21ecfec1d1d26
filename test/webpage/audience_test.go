package webpage

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/test/blackbox"
)

func TestAPersonLooksAfterTheAudience(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestABotsOwnerSendsACampaignWithAButtonAndTakesItBack")
	bot := newBot(t)
	s := newStage(t, "--allow-private-urls")
	s.has(bot)
	for i := 1; i <= 3; i++ {
		s.call(http.MethodPost, "/v1/endpoints", map[string]any{
			"channel": "telegram", "recipient": fmt.Sprintf("reader-%d", i), "address": map[string]any{"chat_id": 7000 + i}, "tags": []string{"news", fmt.Sprintf("gate-%d", i)},
			"attributes": map[string]any{"city": "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch"},
		})
	}
	s.signIn("dev")

	s.opens("/ui/audience?tag=news")
	s.reads("#found", "reader-3")
	s.sees("#days .plot canvas")
	s.reads("#days", "3 gained")
	s.looksAtEveryPage([]sight{{"found", "/ui/audience?tag=news", "#found table", nil}})
	s.opens("/ui/audience")
	s.types("#tag", "gate-2")
	s.clicks("#find button")
	s.misses(`a[href="/ui/recipients/reader-1"]`)
	s.exports("csv", "reader-2", "reader-1")
	s.clicks("#found tbody a")
	s.reads("#endpoint", "chat 7002")
	var at string
	s.does("read the address", chromedp.Location(&at))
	s.looksAtEveryPage([]sight{{"endpoint", strings.TrimPrefix(at, s.base), "#endpoint", nil}})

	s.opens(strings.TrimPrefix(at, s.base))
	s.presses("#pause", "#wake")
	s.reads("#endpoint", "paused on the web page")
	s.presses("#wake", "#send")
	s.clicks("#send")
	s.types("#title", "For you alone")
	s.presses("#start", "#ask")
	s.presses("#go", "#progress")
	s.sees(`[data-state="completed"]`)
	if got := bot.Messages(); len(got) != 1 || got[0].Chat != 7002 || !strings.Contains(got[0].Text, "For you alone") {
		t.Errorf("sent: %+v", got)
	}
	s.opens(strings.TrimPrefix(at, s.base))
	s.clicks("#delete")
	s.sees("#find")
	s.opens("/ui/audience?who=reader-2")
	s.reads("#found", "There are none.")
}

// exports fetches the file behind a link of the page, which must contain only the matches.
func (s *stage) exports(format, has, lacks string) {
	s.Helper()
	var file string
	fetch := fmt.Sprintf(`fetch(document.querySelector('a[download][href*="format=%s"]').href).then(r => r.text())`, format)
	s.does("export", chromedp.Evaluate(fetch, &file, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	if !strings.Contains(file, has) || strings.Contains(file, lacks) || strings.Contains(file, "chat_id") {
		s.Errorf("the file:\n%s", file)
	}
}

func TestAnImportShowsHowMuchOfTheFileIsSent(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestABotsOwnerSendsACampaignWithAButtonAndTakesItBack")
	s := newStage(t)
	s.signIn("dev")
	file := filepath.Join(t.TempDir(), "chats.csv")
	var table strings.Builder
	table.WriteString("chat_id,note\n")
	for i := range 2000 {
		fmt.Fprintf(&table, "%d,%s\n", i+1, strings.Repeat("x", 500))
	}
	if err := os.WriteFile(file, []byte(table.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s.opens("/ui/audience/import")
	const watch = `window.sent = []; new MutationObserver(() => window.sent.push(document.querySelector("span[data-sent]").textContent))
		.observe(document.querySelector("span[data-sent]"), {childList: true})`
	var none any
	s.does("choose a file", chromedp.SetUploadFiles("#file", []string{file}, chromedp.ByQuery), chromedp.Evaluate(watch, &none))
	s.clicks("#import button")
	s.reads("#outcome", "2,000 would be registered")
	var sent []string
	var hidden bool
	s.does("read what was shown", chromedp.Evaluate(`window.sent`, &sent), chromedp.Evaluate(`document.querySelector("progress[data-sent]").hidden`, &hidden))
	if len(sent) < 2 || !slices.Contains(sent, "1.0 of 1.0 MB sent") || sent[len(sent)-1] != "" || !hidden {
		t.Errorf("shown were %q, hidden %t", sent, hidden)
	}
}
