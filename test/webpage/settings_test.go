package webpage

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"godwit.dev/godwit/test/blackbox"
)

// receiver is a program that a hook posts to. It passes on the bodies whose signature holds.
type receiver struct {
	*httptest.Server
	posted chan post
}

type post struct {
	header http.Header
	body   string
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{posted: make(chan post, 16)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		select {
		case r.posted <- post{q.Header, string(body)}:
		default:
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// genuine reports whether a post is signed with a secret, as Standard Webhooks says.
func (p post) genuine(secret string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(p.header.Get("webhook-id") + "." + p.header.Get("webhook-timestamp") + "." + p.body))
	return err == nil && p.header.Get("webhook-signature") == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// holdsAPhone looks through the screen of a phone.
func (p *person) holdsAPhone() {
	p.Helper()
	p.does("hold a phone", emulation.SetDeviceMetricsOverride(390, 844, 1, true))
}

func TestAHookIsSetUpByTheKeyboardOnAPhone(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestOperatorsManageAppsInABrowser")
	billing := newReceiver(t)
	s := newStage(t, "--allow-private-urls")
	s.signIn("dev")
	s.holdsAPhone()
	s.opens("/ui/integrations")
	s.sees("#hooks")
	s.enters(`a[href="/ui/new/hooks"]`)
	s.sees("#settings")
	s.tabsTo("#name")
	s.key("billing")
	s.tabsTo("#url")
	s.key("nonsense")
	s.tabsTo(`input[name="types"][value="stored"]`)
	s.key(" ")
	s.enters(`#settings button`)
	s.sees("#url-problem")
	s.holds("#url")
	s.shows("#url", "nonsense")
	s.does("mend it", chromedp.Evaluate(`document.activeElement.select()`, nil))
	s.key(billing.URL + kb.Enter)
	s.sees("#secret")
	secret := s.copies("#secret")
	if !strings.HasPrefix(secret, "whsec_") {
		t.Fatalf("the secret is %q", secret)
	}
	s.publish("ride-1", "anna")
	if got := <-billing.posted; !got.genuine(secret) || !strings.Contains(got.body, `"stored"`) || !strings.Contains(got.body, "ride-1") {
		t.Errorf("posted was %+v", got)
	}

	s.opens("/ui/hooks/billing")
	s.sees("#settings")
	if page := s.copies("html"); strings.Contains(page, secret) {
		t.Error("the secret comes out again")
	}
	s.enters(`button[hx-post="/ui/hooks/billing/test"]`)
	s.reads("#tested", "was taken")
	if got := <-billing.posted; !got.genuine(secret) || !strings.Contains(got.body, `"test"`) {
		t.Errorf("posted was %+v", got)
	}
	s.looksAtEveryPage([]sight{
		{"hook", "/ui/hooks/billing", "#settings", nil},
		{"new-hook", "/ui/new/hooks", "#settings", nil},
		{"hook-mistake", "/ui/new/hooks", "#settings", func() {
			s.types("#name", hostile)
			s.types("#url", hostile)
			s.clicks("#settings button")
			s.sees(".problem")
		}},
	})
	s.holdsAPhone()
	s.opens("/ui/hooks/billing")
	s.sees("#delete")
	s.enters("#delete button") // the question is answered with yes
	s.reads("#hooks", "No program of yours is told of events")
}

func TestALostKeyIsReplacedByTheKeyboardOnAPhone(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestPeopleSeeWhatTheirRoleMayDo")
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	lost := newKey(t, server, "publish", "orders service")
	p := newPerson(t, "http://"+server.HTTP)
	p.signIn("dev")
	p.holdsAPhone()
	works := func(key string) int {
		a, err := server.API(key).Do(t.Context(), http.MethodPost, "/v1/notifications", map[string]any{"to": "anna", "title": "Hi"})
		if err != nil {
			t.Fatal(err)
		}
		return a.Status
	}
	p.opens("/ui/keys")
	p.sees("#keylist")
	p.enters(`button[aria-label="Replace orders service"]`)
	p.reads("#made", "works as before")
	second := p.copies("#secret")
	if works(second) != http.StatusCreated || works(lost) != http.StatusCreated {
		t.Error("the new key and the former one do not both work")
	}
	p.looksAtEveryPage([]sight{{"keys-two", "/ui/keys", "#keylist", nil}})
	p.holdsAPhone()
	p.opens("/ui/keys")
	p.sees("#keylist")
	p.enters(`#keylist tr:nth-child(2) button.danger`) // the newest is first
	p.misses(`#keylist tr:nth-child(3)`)
	blackbox.Eventually(t, "the former key ends", func() error { // the row may go a moment before
		if now := works(lost); now != http.StatusUnauthorized {
			return fmt.Errorf("it gets %d", now)
		}
		return nil
	})
	if now := works(second); now != http.StatusCreated {
		t.Errorf("the new key gets %d", now)
	}
}

// isToldOfAnother saves a form, on a phone, of settings that somebody else has changed meanwhile.
func (s *stage) isToldOfAnother() {
	s.Helper()
	s.holdsAPhone()
	s.opens("/ui/categories/promo")
	s.sees("#settings")
	s.call(http.MethodPut, "/v1/categories/promo", map[string]any{"campaign_limit": "3/d"})
	s.rewrites("#escalate_limit", "5/h")
	s.clicks("#settings button")
	s.reads(".notice[role=alert]", "Somebody else has changed these settings")
	var inView bool
	var kept string
	s.does("see the notice without scrolling", chromedp.Poll(`(() => { const r = document.querySelector(".notice").getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight; })()`, &inView), chromedp.Value("#escalate_limit", &kept, chromedp.ByQuery))
	if kept != "5/h" {
		s.Errorf("what was typed is now %q", kept)
	}
	s.clicks("#settings button")
	s.reads("main", "Saved.")
	s.does("put the phone away", emulation.ClearDeviceMetricsOverride())
}

func TestEverySettingOfAnAppHasAFormInABrowser(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestOperatorsManageAppsInABrowser")
	s := newStage(t, "--allow-private-urls")
	s.signIn("dev")
	s.opens("/ui/categories")
	s.clicks(`a[href="/ui/new/categories"]`)
	s.types("#name", "promo")
	s.types("#campaign_limit", "1/8h")
	s.clicks("#settings button")
	s.reads("main", "Saved.")
	s.isToldOfAnother()
	s.opens("/ui/new/services")
	s.types("#name", "shop")
	s.types("#split", "shop 95\nshop@2 5")
	s.clicks("#settings button")
	s.reads("main", "Saved.")
	s.opens("/ui/new/batches")
	s.types("#name", "region-7")
	s.types("#batch", "60s")
	s.clicks("#settings button")
	s.reads("main", "Saved.")
	s.opens("/ui/new/sources")
	s.clicks(`a[href="/ui/new/sources?kind=sqlite-outbox"]`)
	s.rewrites("#name", "orders")
	s.types("#path", "orders.db")
	s.clicks("#settings button")
	s.sees(".done, .notice, .problem")
	s.opens("/ui/new/sources?kind=postgres")
	s.types("#url", "postgres://godwit@127.0.0.1:9/shop?sslmode=disable")
	s.types("#tables", `[{"table":"public.trip","to":"{rider}","title":"Trip {id}"}]`)
	s.clicks(`#settings button[value="preview"]`)
	s.sees("#tested section, #settings .problem, main .notice")
	var typed string
	s.does("see what was typed", chromedp.Value("#url", &typed, chromedp.ByQuery))
	if typed == "" {
		t.Error("a preview loses what was typed")
	}
	s.opens("/ui/new/sinks")
	s.types("#url", "http://127.0.0.1:9")
	s.types("#user", "godwit")
	s.types("#password", "s3cret")
	s.clicks("#settings button")
	s.reads("main", "Saved.")
	if page := s.copies("html"); strings.Contains(page, "s3cret") {
		t.Error("the password comes out again")
	}
	s.opens("/ui/app")
	s.types("#origins", "https://shop.example")
	s.clicks("#settings button")
	s.reads("main", "Saved.")
	s.looksAtEveryPage([]sight{
		{"categories", "/ui/categories", "#resources", nil},
		{"category", "/ui/categories/promo", "#settings", nil},
		{"services", "/ui/services", "#resources", nil},
		{"service", "/ui/services/shop", "#settings", nil},
		{"batches", "/ui/batches", "#resources", nil},
		{"batch", "/ui/batches/region-7", "#settings", nil},
		{"source-kinds", "/ui/new/sources", ".tiles", nil},
		{"new-source", "/ui/new/sources?kind=postgres", "#settings", nil},
		{"sink", "/ui/sinks/clickhouse", "#settings", nil},
		{"own-app", "/ui/app", "#settings", nil},
		{"sign-in-rules", "/ui/sign-in-rules", "#setting", nil},
	})
}
