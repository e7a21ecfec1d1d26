package docsite

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/docs"
	"godwit.dev/godwit/internal/server/module"
)

func built(t *testing.T) *site {
	t.Helper()
	s, err := build(docs.Files, served, problems(), commandsOf([]module.Command{
		{Path: "godwit publish", Short: "Publish a notification", Long: "Publish one.\n\nIt waits.", Usage: "godwit publish RECIPIENT", Examples: "godwit publish a <b>", Flags: "--ttl"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryLinkOfThePagesLeadsToAPageAndAHeading(t *testing.T) {
	all, err := build(os.DirFS(filepath.Join("..", "..", "..", "docs")), static, problems())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range append(all.broken, built(t).broken...) {
		t.Error(b)
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"README.md":             "# Docs\n\n## Guides\n\n- [A](a.md#there)\n- [A](a.md#nowhere)\n\n<!-- run -->\n",
		"a.md":                  "# A\n\n## There\n\n[itself](#gone) [source](../cmd/main.go) ![missing](x.png)\n",
		"reference/config.md":   "# Settings\n",
		"reference/metrics.md":  "# Metrics\n",
		"reference/events.md":   "# Events\n",
		"reference/problems.md": "# Problems\n",
	} {
		if err := put(dir, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	files := os.DirFS(dir)
	s, err := build(files, served)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(s.broken)
	if want := []string{"README.md leads to a.md#nowhere", "a.md leads to a.md#gone"}; !slices.Equal(s.broken, want) {
		t.Errorf("%q", s.broken)
	}
	if body := string(s.pages["a"].body); !strings.Contains(body, " source missing") || strings.Contains(body, "main.go") || strings.Contains(body, "x.png") {
		t.Errorf("links out of the documentation: %s", body)
	}
	if body := string(s.pages[""].body); !strings.Contains(body, `href="/docs/a#there"`) || strings.Contains(body, "run") {
		t.Errorf("the first page: %s", body)
	}
}

func TestEveryPageIsInTheNavigationAndEveryEntryHasAnAddressOfItsOwn(t *testing.T) {
	s := built(t)
	for path, p := range s.pages {
		if p.label == "" && path != "" {
			t.Errorf("%s is not in the lists of docs/README.md", path)
		}
		if p.title == "" {
			t.Errorf("%s has no title", path)
		}
	}
	seen := make(map[string]bool)
	for _, e := range s.entries {
		if seen[e.path()] {
			t.Errorf("two entries are %s", e.path())
		}
		seen[e.path()] = true
		if strings.ContainsAny(e.name, " /<>\"?#") || e.summary == "" {
			t.Errorf("entry %+v", e)
		}
	}
	for _, want := range []string{"settings/http_addr", "metrics/godwit_acks_total", "events/acked", "events/offline", "problems/not-found", "commands/publish"} {
		if !seen[want] {
			t.Errorf("there is no entry %s", want)
		}
	}
	for _, e := range s.entries {
		if s.pages[listOf(e.kind)] == nil {
			t.Errorf("there is no page that lists %s", e.kind)
		}
	}
}

func TestAnEntryNamesTheSectionsThatUseIt(t *testing.T) {
	s := built(t)
	var at []string
	for _, m := range s.mentions(s.find("settings/public_url")) {
		at = append(at, m.page.path)
	}
	if !slices.Contains(at, "guides/campaigns") || slices.Contains(at, "reference/config") {
		t.Errorf("public_url is named on %q", at)
	}
	if m := s.mentions(s.find("settings/data")); len(m) == 0 {
		t.Error("--data is named nowhere")
	}
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	a := anchors{}
	for _, c := range [][2]string{
		{"What it costs", "what-it-costs"},
		{"`godwit key create`", "godwit-key-create"},
		{"Rates, limits & budgets", "rates-limits--budgets"},
		{"What it costs", "what-it-costs-1"},
		{"snake_case and ünïcode", "snake_case-and-ünïcode"},
		{"A/B: 50%?", "ab-50"},
	} {
		if got := string(a.Generate([]byte(c[0]), 0)); got != c[1] {
			t.Errorf("%q is at %q, not %q", c[0], got, c[1])
		}
	}
}

// resource matches what a browser would load by itself.
var resource = regexp.MustCompile(`(?:src|srcset|action)="([^"]*)"|<link [^>]*href="([^"]*)"`)

func TestStaticPagesLeadToFilesThatAreThere(t *testing.T) {
	dir := t.TempDir()
	pages, err := Write(dir, docs.Files, "1.2.3", []module.Command{{Path: "godwit a b", Short: "Do", Long: "Do", Usage: "godwit a b"}})
	if err != nil || pages < 300 {
		t.Fatalf("%d pages, %v", pages, err)
	}
	if err := put(dir, openAPI, nil); err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`(?:href|src|srcset)="([^"#]*)`)
	checked := 0
	err = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".html" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "" || strings.HasPrefix(m[1], "https://") || strings.HasPrefix(m[1], "http://") {
				continue
			}
			checked++
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s leads to %s, which is not there", strings.TrimPrefix(name, dir), m[1])
			}
		}
		for _, m := range resource.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1]+m[2], "//") {
				t.Errorf("%s loads %s%s", strings.TrimPrefix(name, dir), m[1], m[2])
			}
		}
		return nil
	})
	if err != nil || checked < 5000 {
		t.Errorf("%d links, %v", checked, err)
	}
}
