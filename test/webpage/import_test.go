package webpage

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/test/blackbox"
)

// TestAPersonImportsATableWithBadLines imports 10,000 lines, downloads the problems of 12, and undoes the import.
func TestAPersonImportsATableWithBadLines(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestABotsOwnerSendsACampaignWithAButtonAndTakesItBack")
	s := newStage(t)
	s.signIn("dev")
	const lines, bad = 10_000, 12
	var table strings.Builder
	table.WriteString("chat_id,name,city,age\n")
	for i := range lines {
		chat := fmt.Sprint(i + 1)
		if i%(lines/bad) == 5 && i/(lines/bad) < bad {
			chat = "no chat"
		}
		fmt.Fprintf(&table, "%s,Reader %d,%s,%d\n", chat, i, []string{"Oslo", "Bergen", `"` + strings.ReplaceAll(hostile, `"`, `""`) + `"`}[i%3], 18+i%60)
	}
	file := filepath.Join(t.TempDir(), "readers.csv")
	if err := os.WriteFile(file, []byte(table.String()), 0o600); err != nil {
		t.Fatal(err)
	}

	s.holdsAPhone()
	s.opens("/ui/audience")
	s.sees(`a[href="/ui/audience/import"]`)
	s.enters(`a[href="/ui/audience/import"]`)
	check := func() {
		s.chooses("#channel", "telegram")
		s.does("choose the file", chromedp.SetUploadFiles("#file", []string{file}, chromedp.ByQuery))
		s.enters("#import button")
		s.reads("#result", "9,988 would be registered or renewed. 12 refused")
	}
	s.sees("#import")
	check()
	s.reads("#result", "attribute age, numbers")
	s.reads("#first", "name = Reader 0")
	s.enters("#run")
	s.reads("#result", "9,988 registered or renewed, 9,988 of them new. 12 refused")
	s.does("see the progress go", chromedp.WaitNotVisible("progress[data-sent]", chromedp.ByQuery))
	var report string
	const fetch = `fetch(document.querySelector("#report").href).then(r => r.text()).catch(() => atob(document.querySelector("#report").href.split(",")[1]))`
	s.does("read the report", chromedp.Evaluate(fetch, &report, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	if rows, err := csv.NewReader(strings.NewReader(report)).ReadAll(); err != nil || len(rows) != 1+bad || rows[1][0] != "7" || !strings.Contains(rows[1][1], "refused") {
		t.Errorf("the report: %v\n%s", err, report)
	}
	s.enters("#undo button")
	s.reads("#undone", "9,988 endpoints are deleted")
	s.opens("/ui/audience")
	s.reads(".figures", "0\nactive")
	s.looksAtEveryPage([]sight{
		{"import", "/ui/audience/import", "#import", nil},
		{"import-checked", "/ui/audience/import", "#import", check},
		{"imported", "/ui/audience/import", "#import", func() { check(); s.presses("#run", "#undo") }},
	})
}
