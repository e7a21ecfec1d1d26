package webpage

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// TestEveryPageOfTheDocumentationIsOpenToAll looks at each page that the navigation leads to; pages of single settings, commands and the
// like have one form, so one of each stands for it.
func TestEveryPageOfTheDocumentationIsOpenToAll(t *testing.T) {
	blackbox.Long(t)
	thorough.Only(t, "TestTheConsoleShowsHowTheServerIs")
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	p := newPerson(t, "http://"+server.HTTP)
	p.opens("/docs")
	p.sees("article h1")
	var links []string
	p.does("collect the pages", chromedp.Evaluate(`[...document.querySelectorAll('a[href^="/docs/"]')].map(a => new URL(a.href).pathname)`, &links))
	slices.Sort(links)
	links = slices.Compact(links)
	const least = 40
	if len(links) < least {
		t.Fatalf("the navigation leads to %d pages, want at least %d: %q", len(links), least, links)
	}
	var sights []sight
	for _, path := range links {
		sights = append(sights, sight{"docs" + strings.ReplaceAll(strings.TrimPrefix(path, "/docs"), "/", "-"), path, "main h1", nil})
	}
	for _, entry := range []string{"settings/http_addr", "metrics/godwit_sessions", "events/delivered", "problems/not-found", "commands/campaign-create"} {
		sights = append(sights, sight{"docs-" + strings.ReplaceAll(entry, "/", "-"), "/docs/" + entry, "main h1", nil})
	}
	p.looksAtEveryPage(sights)
}
