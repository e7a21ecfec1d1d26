package webpage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/blackbox/chromium"
)

// Headless Chromium has no push service. This one gives the page a subscription of the test's service, and remembers it as a browser does.
const pushService = `(address) => {
	const make = () => ({
		endpoint: address.endpoint,
		options: {userVisibleOnly: true, applicationServerKey: new Uint8Array(JSON.parse(localStorage.getItem("key"))).buffer},
		toJSON: () => address,
		unsubscribe: async () => { localStorage.removeItem("key"); return true; },
	});
	const manager = {
		getSubscription: async () => localStorage.getItem("key") ? make() : null,
		subscribe: async ({applicationServerKey}) => { localStorage.setItem("key", JSON.stringify([...applicationServerKey])); return make(); },
	};
	navigator.serviceWorker?.addEventListener("message", ({data}) => { globalThis.became = data.godwit?.type; });
	if (globalThis.ServiceWorkerRegistration) Object.defineProperty(ServiceWorkerRegistration.prototype, "pushManager", {get: () => manager});
}`

// fresh starts a server as an operator would for the first time: an app, its key, and nothing else.
func fresh(t *testing.T, opts ...blackbox.Option) (server *blackbox.Server, key string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	server = blackbox.Start(t, append([]blackbox.Option{blackbox.Plain(), blackbox.Args("--allow-private-urls"), blackbox.Env("GODWIT_BOOTSTRAP_APP=news", "GODWIT_BOOTSTRAP_KEY_FILE="+file)}, opts...)...)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return server, strings.TrimSpace(string(b))
}

// website is a site to which its owner copies what the console shows.
type website struct {
	*httptest.Server
	line, worker atomic.Value
	origin       string
}

func newWebsite(t *testing.T) *website {
	w := new(website)
	w.line.Store("")
	w.worker.Store("")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(out, "<!doctype html><html lang=en><title>Tides</title><h1>Tides</h1>%s</html>", w.line.Load())
	})
	mux.HandleFunc("GET /godwit-sw.js", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(out, w.worker.Load())
	})
	w.Server = httptest.NewServer(mux)
	t.Cleanup(w.Close)
	w.origin = strings.Replace(w.URL, "127.0.0.1", "localhost", 1)
	return w
}

// tabsTo moves the focus with the Tab key alone until it is on an element.
func (p *person) tabsTo(selector string) {
	p.Helper()
	for range 80 {
		var there bool
		p.does("press Tab", chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(fmt.Sprintf("document.activeElement.matches(%q)", selector), &there))
		if there {
			return
		}
	}
	p.Fatalf("Tab does not lead to %s", selector)
}

// enters moves to an element with the keyboard and presses Enter there.
func (p *person) enters(selector string) {
	p.Helper()
	p.tabsTo(selector)
	p.does("press Enter on "+selector, chromedp.KeyEvent(kb.Enter))
}

// copies reads the text of a snippet.
func (p *person) copies(selector string) string {
	p.Helper()
	var s string
	p.does("read "+selector, chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).textContent", selector), &s))
	return s
}

// visitor is a person on a website, with a browser window of their own.
type visitor struct {
	*person
	site *website
}

// visits opens a website in a browser of its own.
func visits(t *testing.T, site *website, address json.RawMessage) *visitor {
	t.Helper()
	v := &visitor{newPersonIn(t, chromium.StartProgram(t, blackbox.Chromium(t), patience), site.origin), site}
	script := fmt.Sprintf("(%s)(%s)", pushService, address)
	v.does("come", chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(script).Do(ctx)
		return err
	}), browser.GrantPermissions([]browser.PermissionType{browser.PermissionTypeNotifications}).WithOrigin(site.origin))
	v.opens("/")
	return v
}

// agrees says yes to the dialog that asks.
func (v *visitor) agrees() {
	v.Helper()
	const press = `(() => {
		const buttons = [...document.querySelectorAll("*")].flatMap((e) => e.shadowRoot ? [...e.shadowRoot.querySelectorAll("button")] : []);
		const yes = buttons.find((b) => b.textContent.trim() === "Continue");
		yes?.click();
		return !!yes;
	})()`
	err := blackbox.Poll(v.ctx, blackbox.Patience, func() error {
		var pressed bool
		if err := chromedp.Run(v.ctx, chromedp.Evaluate(press, &pressed)); err != nil || !pressed {
			return errors.Join(errors.New("no dialog asks"), err)
		}
		return nil
	})
	if err != nil {
		v.Fatal(err)
	}
}

// gets delivers a message to the site's service worker, as the push service would.
func (v *visitor) gets(payload []byte) {
	v.Helper()
	v.wants("true", `(await navigator.serviceWorker.getRegistrations()).some((r) => r.active?.state === "activated")`) // until then a message is lost
	found := make(chan serviceworker.RegistrationID, 1)
	chromedp.ListenTarget(v.ctx, func(ev any) {
		updated, ok := ev.(*serviceworker.EventWorkerRegistrationUpdated)
		if !ok {
			return
		}
		for _, r := range updated.Registrations {
			if !r.IsDeleted && strings.HasPrefix(r.ScopeURL, v.site.origin) {
				select {
				case found <- r.RegistrationID:
				default: // one is enough
				}
			}
		}
	})
	v.does("deliver the message", serviceworker.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		select {
		case id := <-found:
			return serviceworker.DeliverPushMessage(v.site.origin, id, string(payload)).Do(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}))
}

// shows waits until the browser shows a notification with this title. The worker says so: Chromium forgets a notification that is being shown while
// somebody asks what is shown.
func (v *visitor) shows(title string) {
	v.Helper()
	v.wants("shown", `globalThis.became`)
	v.wants(title, `(await Promise.all((await navigator.serviceWorker.getRegistrations()).map((r) => r.getNotifications()))).flat().map((n) => n.title).join()`)
}

// wants waits until an expression, which may await, is want as text.
func (v *visitor) wants(want, js string) {
	v.Helper()
	blackbox.Eventually(v, want, func() error {
		var is string
		await := func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }
		if err := chromedp.Run(v.ctx, chromedp.Evaluate("(async () => String("+js+"))()", &is, await)); err != nil {
			return err
		}
		if is != want {
			return fmt.Errorf("the browser says %q", is)
		}
		return nil
	})
}

// A site's owner comes from a fresh server to the first push by the console alone: with the keyboard, on a phone's screen.
func TestAFreshServersFirstPushByTheGuideAlone(t *testing.T) {
	blackbox.Long(t)
	provider := pushserver.Start(pushserver.Options{})
	t.Cleanup(provider.Close)
	cert := filepath.Join(t.TempDir(), "push.pem")
	if err := os.WriteFile(cert, provider.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	server, key := fresh(t, blackbox.Env("SSL_CERT_FILE="+cert))
	site := newWebsite(t)
	p := newPerson(t, "http://"+server.HTTP)
	p.does("hold a phone", chromedp.EmulateViewport(390, 844))
	p.opens("/")
	p.holds("#key")
	p.does("type the key", chromedp.KeyEvent(key+kb.Enter))
	p.sees("#start")
	p.opens("/ui/channels/webpush")
	p.reads(".head .state", "needs a site")
	p.opens("/ui/")
	p.enters(`.tile[href="/ui/?goal=browsers"]`)
	p.sees("#guide")

	p.tabsTo("#origin")
	p.does("mistype the site", chromedp.KeyEvent("tides"+kb.Enter))
	p.reads("#guide-problem", "Write the address of your site")
	p.does("correct it", chromedp.Evaluate(`document.querySelector("#origin").select()`, nil), chromedp.Focus("#origin", chromedp.ByQuery), chromedp.KeyEvent(site.origin+"/tides?day=1"+kb.Enter))
	p.reads("#origins", site.origin)
	site.line.Store(p.copies("#tag"))
	site.worker.Store(p.copies("#worker"))
	p.reads("#step-visitor", "Waiting for your site’s first visitor")

	subscription, address := provider.Subscribe(pushserver.Accepting)
	v := visits(t, site, address)
	v.agrees()
	p.sees("#step-visitor.done") // without a reload
	p.enters("#test-form button")
	p.sees("#finished")
	got := provider.Received(subscription)
	if len(got) != 1 {
		t.Fatalf("the push service got %d messages, want the test alone", len(got))
	}
	payload, err := got[0].Payload()
	if err != nil {
		t.Fatal(err)
	}
	v.gets(payload)
	v.shows("It works")

	p.opens("/ui/channels/webpush")
	p.reads(".head .state", "ready")
	p.does("look as before", emulation.ClearDeviceMetricsOverride())
	p.looksAtEveryPage([]sight{{"start-done", "/ui/?goal=browsers", "#finished", nil}, {"start-phones", "/ui/?goal=phones", "#guide-account", nil}, {"start-live", "/ui/start/live", "#page", nil}})
	p.opens("/ui/?goal=browsers")
	p.clicks(`#start form button`)
	p.misses("#start")
	p.opens("/ui/")
	p.sees("#figures")
	p.misses("#start")
}

// A bot's owner does the same in Telegram, and a page with a live connection.
func TestFreshServersReachABotAndALiveConnectionByTheirGuides(t *testing.T) {
	blackbox.Long(t)
	ifChanged(t, "TestAFreshServersFirstPushByTheGuideAlone")
	bot := newBot(t)
	server, key := fresh(t)
	p := newPerson(t, "http://"+server.HTTP)
	p.givesKey(key)
	p.sees("#start")
	p.looksAtEveryPage([]sight{{"start", "/ui/", "#start", nil}, {"start-browsers", "/ui/?goal=browsers", "#origin", nil}, {"start-bot", "/ui/channels/telegram", "#guide-token", nil}})

	p.opens("/ui/?goal=bot")
	p.types("#guide-token", "nonsense")
	p.clicks("#bot-form .row button")
	p.sees("#guide-problem")
	p.types("#guide-token", botToken)
	p.clicks("#bot-form summary")
	p.types("#guide-base", bot.URL)
	p.clicks("#bot-form .row button")
	p.reads("#step-chat", "Waiting for the first person")
	a, err := server.API(key).Do(t.Context(), http.MethodPost, "/v1/endpoints", map[string]any{"channel": "telegram", "recipient": "anna", "address": map[string]any{"chat_id": 42}})
	if err != nil || a.Status >= http.StatusMultipleChoices {
		t.Fatalf("%v %+v", err, a)
	}
	p.reads("#step-chat.done", "anna")
	p.clicks("#test-form button")
	p.sees("#finished")
	if all := bot.Messages(); len(all) != 1 || !strings.Contains(all[0].Text, "It works") {
		t.Errorf("the chat got %+v", all)
	}

	p.opens("/ui/start/live")
	p.types("#recipient", "bo")
	p.clicks("#token-form button")
	p.reads("#page", `client.listen("bo"`)
	script := p.copies("#page")
	_, rest, _ := strings.Cut(script, `token: "`)
	client, _, _ := strings.Cut(rest, `"`)
	link, err := server.Dial(t.Context(), "ws", blackbox.Hello{App: "news", Token: client, Device: "page"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Cut)
	link = blackbox.Attended(link)
	p.reads("#step-page.done", "bo")
	p.clicks("#test-form button")
	n, err := blackbox.NextNotification(t.Context(), link)
	if err != nil || n.Title != "It works" {
		t.Fatalf("got %+v, %v", n, err)
	}
	p.sees("#finished")
}
