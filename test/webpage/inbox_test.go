package webpage

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// inboxPolicy is as strict as sites have one: no inline script, no inline style, no markup made of text.
const inboxPolicy = "default-src 'none'; script-src 'self' %[1]s; connect-src %[1]s %[2]s; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// inboxPageScript keeps what goes wrong in a page.
const inboxPageScript = `window.wrong = [];
addEventListener("securitypolicyviolation", (e) => wrong.push(e.violatedDirective + " " + e.blockedURI));
addEventListener("error", (e) => wrong.push(e.message), true);
addEventListener("unhandledrejection", (e) => wrong.push(String(e.reason)));`

// harbour is a site with the component, and the server behind it.
type harbour struct {
	*testing.T
	server *blackbox.Server
	api    *blackbox.API
	url    string
}

func newHarbour(t *testing.T) *harbour {
	t.Helper()
	h := &harbour{T: t, server: blackbox.Start(t, blackbox.Dev(), blackbox.Plain())}
	h.api = h.server.API()
	base := "http://" + h.server.HTTP
	page := `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Harbour</title><link rel="stylesheet" href="/site.css">
		<script src="/page.js"></script><script src="` + base + `/sdk/inbox.js" async></script>
		<body><header><h1>Harbour</h1><godwit-inbox app="demo" recipient="ada" categories="berth: Berths"></godwit-inbox></header><main><p>Text</p><a href="#a">A link</a></main>`
	files := map[string]string{"/": page, "/page.js": inboxPageScript, "/site.css": "header { display: flex; justify-content: space-between; }", "/berths": "<h1>Berths</h1>", "/favicon.ico": ""}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", fmt.Sprintf(inboxPolicy, base, strings.Replace(base, "http", "ws", 1)))
		switch {
		case strings.HasSuffix(r.URL.Path, ".js"):
			w.Header().Set("Content-Type", "text/javascript")
		case strings.HasSuffix(r.URL.Path, ".css"):
			w.Header().Set("Content-Type", "text/css")
		default:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		_, _ = w.Write([]byte(files[r.URL.Path]))
	}))
	t.Cleanup(site.Close)
	h.url = site.URL
	if out, err := h.server.Manage("app", "set", "demo", "--origin", h.url, "--data", h.server.Dir); err != nil {
		t.Fatalf("allow the site: %v\n%s", err, out)
	}
	blackbox.Eventually(t, "the site is allowed", func() error { return h.get("/v1/inbox?app=demo&recipient=ada", nil) })
	return h
}

// get makes a call as the site's page does.
func (h *harbour) get(path string, into any) error {
	r, err := http.NewRequestWithContext(h.Context(), http.MethodGet, "http://"+h.server.HTTP+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Origin", h.url)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, answer.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// publish puts an item into ada's inbox.
func (h *harbour) publish(id, title string, more map[string]any) {
	h.Helper()
	n := map[string]any{"to": "ada", "id": id, "title": title, "inbox": true, "ttl": "1h"}
	for k, v := range more {
		n[k] = v
	}
	h.api.Call(h, http.MethodPost, "/v1/notifications", n, nil)
}

type inboxItem struct {
	ID       string
	Read     *string `json:"read_at"`
	Archived *string `json:"archived_at"`
	Pinned   bool
}

// until waits until the server's inbox has an item that is so.
func (h *harbour) until(what, id string, is func(it inboxItem) bool) {
	h.Helper()
	blackbox.Eventually(h, what, func() error {
		var it inboxItem
		if err := h.get("/v1/inbox/"+id+"?app=demo&recipient=ada", &it); err != nil {
			return err
		}
		if !is(it) {
			return fmt.Errorf("it is %+v", it)
		}
		return nil
	})
}

func isRead(it inboxItem) bool     { return it.Read != nil }
func isUnread(it inboxItem) bool   { return it.Read == nil }
func isArchived(it inboxItem) bool { return it.Archived != nil }

// visits opens the site in a new tab.
func (h *harbour) visits(b maker) *guest {
	h.Helper()
	v := &guest{h.T, b.tab(h.T)}
	v.goes(h.url)
	return v
}

// nothingWrong checks that the page had no error, and that its policy was not violated.
func (v *guest) nothingWrong() {
	v.Helper()
	var wrong []string
	v.must("read what went wrong", v.asks("wrong", &wrong))
	if len(wrong) > 0 {
		v.Errorf("the page says %q", wrong)
	}
}

func TestAnInboxIsUsedByMouseKeyboardAndFinger(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestTabsAndAPhoneAgreeAndSurviveARestart")
	for name, start := range browsers {
		t.Run(name, func(t *testing.T) {
			h := newHarbour(t)
			h.publish("berth", "Can you free berth 7?", map[string]any{
				"body": "A pilot boat needs it.", "actions": []any{map[string]any{"id": "yes", "title": "Yes"}, map[string]any{"id": "no", "title": "No"}}, "reply_by": "1h",
			})
			h.publish("storm", "Storm from the west", map[string]any{"body": "From six in the evening.", "data": map[string]any{"url": "/berths"}})
			h.publish("tide", "Low tide at noon", nil)
			h.publish("lamp", "The lamp is lit", nil)
			b := start(t)
			h.byMouse(b)
			h.byKeyboard(b)
			h.byFinger(b)
		})
	}
}

// byMouse reads, answers and follows items with a mouse.
func (h *harbour) byMouse(b maker) {
	v := h.visits(b)
	v.clicksOn("Notifications, 4 new")
	v.seesText("Notifications")
	v.clicksOn("Low tide at noon")
	h.until("the tide is read", "tide", isRead)
	v.clicksOn("Yes")
	v.seesText("Answered: Yes")
	h.until("the question is read", "berth", isRead)
	blackbox.Eventually(h, "the question is answered", func() error { return h.api.WantState(h.Context(), "berth", "ada", "replied") })
	v.nothingWrong()
	v.clicksOn("Storm from the west")
	v.seesText("Berths")
	h.until("the storm is read although its page has gone", "storm", isRead)
	blackbox.Eventually(h, "what is read is acknowledged", func() error { return h.api.WantState(h.Context(), "tide", "ada", "acked") })
}

// byKeyboard goes through the list without a mouse.
func (h *harbour) byKeyboard(b maker) {
	v := h.visits(b)
	v.seesText("Notifications")
	v.hits("Tab", "Enter")
	v.seesText("Mark all as read")
	v.seesText("The lamp is lit")
	v.hits("Tab", "Tab", "Tab", "Tab")
	v.until("the first item has the focus", `active()?.dataset.id === "lamp"`)
	v.hits("ArrowDown")
	v.until("the next item has the focus", `active()?.dataset.id === "tide"`)
	v.hits("p")
	h.until("the tide is pinned", "tide", func(it inboxItem) bool { return it.Pinned })
	v.hits("u")
	h.until("the tide is unread", "tide", isUnread)
	v.hits("e")
	h.until("the tide is archived", "tide", isArchived)
	v.until("the focus stays in the list", `active()?.dataset.id`)
	v.clicksOn("Undo")
	h.until("the tide is back", "tide", func(it inboxItem) bool { return !isArchived(it) })
	v.hits("Escape")
	v.until("the bell has the focus", `active()?.getAttribute("aria-label") === "Notifications"`)
	v.nothingWrong()
}

// byFinger swipes items on a phone.
func (h *harbour) byFinger(b maker) {
	v := &guest{h.T, b.tab(h.T)}
	v.must("become a phone", v.phone(h.Context()))
	v.goes(h.url)
	v.taps("Notifications")
	v.until("the list is as large as the phone", fmt.Sprintf(`named("Close").length && every(document).find((e) => e.matches("section[part=panel]")).getBoundingClientRect().width === %d`, phoneWidth))
	v.swipes("The lamp is lit", 220)
	h.until("the lamp is archived", "lamp", isArchived)
	v.seesText("Archived")
	v.swipes("Low tide at noon", -220)
	h.until("the tide is read", "tide", isRead)
	v.taps("Close")
	v.seesNo("Low tide at noon")
	v.nothingWrong()
}

// TestTabsAndAPhoneAgreeAndSurviveARestart changes an inbox in one page, and looks at it in others of the same person.
func TestTabsAndAPhoneAgreeAndSurviveARestart(t *testing.T) {
	blackbox.Long(t)
	for name, start := range browsers {
		t.Run(name, func(t *testing.T) {
			h := newHarbour(t)
			b := start(t)
			h.publish("one", "The first", nil)
			var all []*guest
			for range 2 {
				all = append(all, h.visits(b))
			}
			phone := &guest{t, b.tab(t)}
			phone.must("become a phone", phone.phone(t.Context()))
			phone.goes(h.url)
			all = append(all, phone)
			for _, v := range all {
				v.seesText("Notifications, 1 new")
			}
			h.publish("two", "The second", nil)
			for _, v := range all {
				v.seesText("Notifications, 2 new")
			}
			for _, v := range all {
				v.must("open the list", v.asks(`(document.querySelector("godwit-inbox").open(), null)`, nil))
				v.seesText("The second")
			}
			for _, v := range all {
				v.seesText("Notifications") // what one has opened is new to nobody
			}
			all[0].must("archive", all[0].asks(`(document.querySelector("godwit-inbox").inbox.archive("one"), null)`, nil))
			for _, v := range all {
				v.seesNo("The first")
			}
			h.server.Kill()
			const offline = "You are offline. What you do here is kept until you are back."
			for _, v := range all {
				v.seesText(offline)
			}
			phone.must("read", phone.asks(`(document.querySelector("godwit-inbox").inbox.read("two"), null)`, nil))
			if err := h.server.Launch(); err != nil {
				t.Fatal(err)
			}
			h.until("what was done offline is done", "two", isRead)
			h.publish("three", "The third", nil)
			for _, v := range all {
				v.seesText("The third")
				v.seesNo(offline)
				v.until("the count is right", `document.querySelector("godwit-inbox").inbox.state.unread === 1`)
			}
			h.publish("ask", "Can you free berth 7?", map[string]any{"actions": []any{map[string]any{"id": "yes", "title": "Yes"}, map[string]any{"id": "no", "title": "No"}}, "reply_by": "1h"})
			for _, v := range all {
				v.seesText("Can you free berth 7?")
			}
			all[1].must("answer", all[1].asks(`(document.querySelector("godwit-inbox").inbox.answer("ask", "yes"), null)`, nil))
			for _, v := range all {
				v.seesText("Answered: Yes")
			}
			blackbox.Eventually(t, "the question is answered", func() error { return h.api.WantState(t.Context(), "ask", "ada", "replied") })
			later := h.visits(b)
			later.seesText("Notifications")
			later.must("open the list", later.asks(`(document.querySelector("godwit-inbox").open(), null)`, nil))
			later.seesText("Answered: Yes")
		})
	}
}

func TestContentOfAnInboxIsTextAndKeepsNobodyOut(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestTabsAndAPhoneAgreeAndSurviveARestart")
	axe, err := os.ReadFile(axeCore)
	if err != nil {
		blackbox.Skip(t, "axe-core is not there (cd clients/js && npm ci): %v", err)
	}
	const evil = `<img src=x onerror=alert(1)><script>alert(1)</script>`
	for name, start := range browsers {
		t.Run(name, func(t *testing.T) {
			h := newHarbour(t)
			h.publish("evil", evil, map[string]any{"body": evil, "data": map[string]any{"url": "javascript:alert(1)"}})
			h.publish("ask", "A question", map[string]any{"actions": []any{map[string]any{"id": "yes", "title": evil}}, "reply_by": "1h"})
			v := h.visits(start(t))
			v.clicksOn("Notifications, 2 new")
			v.clicksOn("Settings")
			v.clicksOn("Berths: Browser")
			v.seesText("Saved")
			v.clicksOn("Back to the notifications")
			v.until("the texts are text", fmt.Sprintf(`named(%s).length >= 3 && !every(document.querySelector("godwit-inbox").shadowRoot).some((e) => e.matches("img, script"))`, quoted(evil)))
			v.nothingWrong()
			// The policy keeps axe out of the page itself: the driver brings it along, or it is asked for where that is allowed.
			var violations []string
			v.must("run axe", v.script(t.Context(), `(async () => { `+string(axe)+`; const r = await axe.run("godwit-inbox"); return r.violations.map((f) => f.id + ": " + f.nodes.map((n) => n.html + " " + n.failureSummary).join(" | ")); })()`, &violations))
			if len(violations) > 0 {
				t.Errorf("axe finds %q", violations)
			}
		})
	}
}
