package admin_test

import (
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/server/admin"
	"godwit.dev/godwit/internal/server/watch"
)

func TestAPageThatDoesNotExistOffersASearch(t *testing.T) {
	w := newWorld(t, new(post).serve)
	b := w.signedIn()
	for _, path := range []string{"/ui/nothing", "/ui/campaigns/", "/ui/" + url.PathEscape(hostile)} {
		status, page := b.get(path)
		checkHarmless(t, path, page)
		if wants(t, page, "There is no such page", `action="/ui/find"`); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	stranger := w.browser()
	stranger.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if status, _ := stranger.get("/ui/nothing"); status != http.StatusSeeOther {
		t.Errorf("a stranger gets %d", status)
	}
}

func TestTheSearchFindsWhatAPersonMaySee(t *testing.T) {
	w := newWorld(t, new(post).serve)
	b := w.signedIn()
	id := b.create(url.Values{"name": {"Tide <b>tables</b>"}, "title": {"x"}, "key": {"k"}})
	for query, want := range map[string]string{
		"ann": `href="/ui/recipients/anna"`, "ride-1": `href="/ui/notifications/ride-1"`, "tide": `href="/ui/campaigns/` + id + `"`, id: `href="/ui/campaigns/` + id + `"`,
		"chan": `href="/ui/channels"`, "audit": `href="/ui/audit"`, "zzz": "Nothing is called so", hostile: "Nothing is called so",
	} {
		status, page := b.get("/ui/find?q=" + url.QueryEscape(query))
		checkHarmless(t, query, page)
		if wants(t, page, want, "/docs/search?q="); status != http.StatusOK {
			t.Errorf("%q: %d", query, status)
		}
	}
	_, page := w.as(signin.View).get("/ui/find?q=audit")
	wants(t, page, "Nothing is called so")
}

// shell matches a command of the program. People of the page have no shell; "Do it by API" may name commands.
var shell = regexp.MustCompile(`(?i)godwit (app|audit|campaign|category|channel|cluster|doctor|endpoint|hook|key|listen|object|publish|recipient|serve|sink|source|status|token|why)\b`)

func TestNoPageNamesAShellCommand(t *testing.T) {
	for _, pattern := range []string{"*.go", "templates/*.html", "assets/*.js"} {
		files, err := fs.Glob(os.DirFS("."), pattern)
		if must(t, err); len(files) == 0 {
			t.Fatalf("no files %s", pattern)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			must(t, err)
			for i, line := range strings.Split(string(b), "\n") {
				code, _, _ := strings.Cut(line, "// ")
				if !strings.HasSuffix(name, "_test.go") && !strings.Contains(code, `template "byapi"`) && shell.MatchString(code) {
					t.Errorf("%s:%d: %s", name, i+1, strings.TrimSpace(line))
				}
			}
		}
	}
}

func TestThePartsOfTheDesignAreOnOnePage(t *testing.T) {
	_, page := newWorld(t).signedIn().get("/ui/design")
	checkHarmless(t, "design", page)
	for _, class := range []string{"card", "row", "stack", "field", "quiet", "danger", "plain", "notice", "waiting", "empty", "state", "figures", "bubble", "chip", "steps", "snippet", "tally", "cards", "hint", "problem"} {
		if !regexp.MustCompile(`class="([^"]* )?` + class + `[" ]`).MatchString(page) {
			t.Errorf("the page lacks %s", class)
		}
	}
}

// mostBytes limits what the browser loads for a page that nothing is cached of.
const mostBytes = 150 << 10

func TestNoPageIsHeavy(t *testing.T) {
	s := new(shelves)
	b := newWorld(t, new(post).serve, s.serve, func(c *admin.Config) { c.Watch = watch.Alone(busyHour(), "node-1") }).as(signin.Admin)
	for _, path := range []string{"/ui/?goal=browsers", "/ui/hooks/orders", "/ui/new/sources?kind=jetstream", "/ui/app", "/ui/campaigns", "/ui/campaigns/new", "/ui/audience", "/ui/channels/webpush", "/ui/recipients/anna", "/ui/notifications/ride-1?to=anna", "/ui/design"} {
		sum := b.weighs(path)
		_, page := b.get(path)
		for _, found := range regexp.MustCompile(`(?:src|href)="(/ui/assets/[^"]+)"`).FindAllStringSubmatch(page, -1) {
			sum += b.weighs(found[1])
		}
		if sum > mostBytes {
			t.Errorf("%s: %d bytes", path, sum)
		}
	}
}

// busyHour has an hour of readings, in which everything happened: the overview's table is as long as it gets.
func busyHour() *watch.Watch {
	w, at := watch.New(), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for n := range uint64(watch.Kept/watch.Every) + 1 {
		w.Read(at.Add(time.Duration(n)*watch.Every), watch.Totals{
			Stored: n * 6_172, Sessions: int64(1_234_567 + n), Push: map[watch.Ended]uint64{{Channel: "webpush", Outcome: "failed"}: 3 * n, {Channel: "telegram", Outcome: "accepted"}: 7 * n},
		})
	}
	return w
}

// weighs returns the bytes that travel for an answer.
func (b *browser) weighs(path string) int {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.srv.URL+path, nil)
	must(b.T, err)
	req.Header.Set("Accept-Encoding", "gzip") // set here, the client does not unpack
	resp, body := b.do(req)
	if resp.StatusCode != http.StatusOK {
		b.Errorf("%s: %d", path, resp.StatusCode)
	}
	return len(body)
}
