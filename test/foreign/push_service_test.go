package foreign

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	webpush "github.com/SherClockHolmes/webpush-go"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/firefox"
)

//go:embed pushpage.html
var pushPage []byte

//go:embed pushworker.js
var pushWorker []byte

// pushService is a server that is the push service of a Firefox, and the site that its page is from.
type pushService struct {
	*testing.T
	server    *blackbox.Server
	site      string
	reports   chan string // what the worker was sent
	profile   string
	browser   *firefox.Firefox
	page      *firefox.Tab
	key       pushKey
	subscribe json.RawMessage // the subscription
}

type pushKey struct{ private, public string }

func startPushService(t *testing.T) *pushService {
	t.Helper()
	p := &pushService{T: t, reports: make(chan string, 64), profile: t.TempDir()}
	p.server = blackbox.Start(t, blackbox.Dev(), blackbox.Args("--push-service", "--push-ping-seconds", "5"))
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/worker.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(pushWorker)
		case "/report":
			text, _ := io.ReadAll(r.Body)
			p.reports <- string(text)
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write(pushPage)
		}
	}))
	t.Cleanup(site.Close)
	p.site = site.URL
	var err error
	if p.key.private, p.key.public, err = webpush.GenerateVAPIDKeys(); err != nil {
		t.Fatal(err)
	}
	p.browse()
	return p
}

// hellos is how many devices have said hello since the server's start.
func (p *pushService) hellos() (n float64) {
	p.Helper()
	resp, err := http.Get("http://" + p.server.HTTP + "/metrics")
	if err != nil {
		return 0 // it is being restarted
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "godwit_push_service_hellos_total "); found {
			_, _ = fmt.Sscan(value, &n)
		}
	}
	return n
}

// connected waits until the browser has said hello once more.
func (p *pushService) connected(before float64) {
	p.Helper()
	blackbox.Eventually(p, "the browser says hello", func() error {
		if n := p.hellos(); n <= before {
			return fmt.Errorf("%v devices so far", n)
		}
		return nil
	})
}

// browse starts Firefox with the push service in its preferences, as a user or an enterprise's policy sets it, and opens the page.
func (p *pushService) browse() {
	p.Helper()
	before := p.hellos()
	p.browser = firefox.Start(p, p.profile, `user_pref("dom.push.serverURL", "ws://`+p.server.HTTP+`/push");
user_pref("dom.push.connection.enabled", true);
user_pref("dom.push.testing.allowInsecureServerURL", true);
user_pref("dom.push.retryBaseInterval", 200);
user_pref("permissions.default.desktop-notification", 1);
user_pref("alerts.useSystemBackend", false);
`)
	p.page = p.browser.Tab(p.T)
	p.connected(before) // a subscription that is asked for earlier fails
	ctx := timeout(p.T)
	if err := p.page.Open(ctx, p.site); err != nil {
		p.Fatal(err)
	}
	p.script(ctx, `subscribe("`+p.key.public+`")`, &p.subscribe)
}

func (p *pushService) script(ctx context.Context, js string, into any) {
	p.Helper()
	if err := p.page.Script(ctx, js, into); err != nil {
		p.Fatalf("%s: %v", js, err)
	}
}

// sending is one message.
type sending struct {
	text, topic, encoding string
	ttl                   int
}

// sender is a library of Web Push: it returns the status and the Location of the answer.
type sender func(p *pushService, m sending) (status int, location string)

// senders are those libraries.
var pushSenders = map[string]sender{
	"npm web-push": func(p *pushService, m sending) (int, string) {
		modules := filepath.Join(blackbox.Root(), ".bin", "node", "node_modules")
		if _, err := os.Stat(modules); err != nil {
			blackbox.Skip(p, "the JavaScript packages are not installed: run make test-tools")
		}
		cmd := exec.CommandContext(p.Context(), "node", filepath.Join("clients", "push_send.cjs"))
		cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
		return p.program(cmd, m)
	},
	"pywebpush": func(p *pushService, m sending) (int, string) {
		return p.program(exec.CommandContext(p.Context(), python(p.T), filepath.Join("clients", "push_send.py")), m)
	},
	"webpush-go": func(p *pushService, m sending) (int, string) {
		var to webpush.Subscription
		if err := json.Unmarshal(p.subscribe, &to); err != nil {
			p.Fatal(err)
		}
		resp, err := webpush.SendNotificationWithContext(p.Context(), []byte(m.text), &to, &webpush.Options{
			Subscriber: "ops@example.org", VAPIDPublicKey: p.key.public, VAPIDPrivateKey: p.key.private, TTL: m.ttl, Topic: m.topic,
		})
		if err != nil {
			p.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Location")
	},
}

func (p *pushService) program(cmd *exec.Cmd, m sending) (status int, location string) {
	p.Helper()
	input, err := json.Marshal(map[string]any{
		"subscription": p.subscribe, "private": p.key.private, "public": p.key.public, "text": m.text, "ttl": m.ttl, "topic": m.topic, "encoding": m.encoding,
	})
	if err != nil {
		p.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &stderr
	out, err := cmd.Output()
	if err != nil {
		p.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	_, _ = fmt.Sscan(string(out), &status, &location) // a missing Location stays empty
	return status, location
}

// send sends a message by a library and checks that it is accepted.
func (p *pushService) send(by string, m sending) {
	p.Helper()
	if status, location := pushSenders[by](p, m); status != http.StatusCreated || location == "" {
		p.Fatalf("%s got %d %q, want 201 with Location", by, status, location)
	}
}

// receives checks that the worker gets and shows these messages next, in any order: it reports them side by side.
func (p *pushService) receives(texts ...string) {
	p.Helper()
	ctx := timeout(p.T)
	for left := slices.Clone(texts); len(left) > 0; {
		select {
		case got := <-p.reports:
			i := slices.Index(left, got)
			if i < 0 {
				p.Fatalf("the worker got %q, want one of %q", got, left)
			}
			left = slices.Delete(left, i, i+1)
		case <-ctx.Done():
			p.Fatalf("the worker did not get %q", left)
		}
	}
}

func TestFirefoxReceivesWhatLibrariesSend(t *testing.T) {
	blackbox.Long(t)
	p := startPushService(t)
	for name := range pushSenders {
		text := name + ": Blåbær ☕"
		p.send(name, sending{text: text, ttl: 60})
		p.receives(text)
	}
	for _, name := range []string{"npm web-push", "pywebpush"} { // webpush-go has no aesgcm
		text := name + " in the form of before RFC 8291"
		p.send(name, sending{text: text, ttl: 60, encoding: "aesgcm"})
		p.receives(text)
	}
}

func TestFirefoxMissesNothingThroughRestarts(t *testing.T) {
	blackbox.Long(t)
	thorough.IfChanged(t, "internal/gateway/pushgate", "TestFirefoxReceivesWhatLibrariesSend")
	p := startPushService(t)
	endpoint := func() string {
		var s struct{ Endpoint string }
		if err := json.Unmarshal(p.subscribe, &s); err != nil {
			t.Fatal(err)
		}
		return s.Endpoint
	}
	first := endpoint()
	const by = "webpush-go"
	p.send(by, sending{text: "before", ttl: 60})
	p.receives("before")

	p.browser.Quit(t)
	p.send(by, sending{text: "dropped", ttl: 0})
	p.send(by, sending{text: "replaced", ttl: 3600, topic: "news"})
	p.send(by, sending{text: "waits", ttl: 3600})
	p.send(by, sending{text: "replaces", ttl: 3600, topic: "news"})
	p.server.Kill() // after the 201
	if err := p.server.Launch(); err != nil {
		t.Fatal(err)
	}
	p.browse()
	if got := endpoint(); got != first {
		t.Errorf("after the restart the endpoint is %s, want %s", got, first)
	}
	p.receives("waits", "replaces")

	p.server.Kill()
	if err := p.server.Launch(); err != nil {
		t.Fatal(err)
	}
	p.connected(0)
	p.send(by, sending{text: "after", ttl: 0})
	p.receives("after")

	var gone bool
	if p.script(timeout(t), "unsubscribe()", &gone); !gone {
		t.Error("the page could not unsubscribe")
	}
	blackbox.Eventually(t, "the endpoint is gone", func() error {
		if status, _ := pushSenders[by](p, sending{text: "late", ttl: 60}); status != http.StatusGone {
			return fmt.Errorf("it answers %d", status)
		}
		return nil
	})
}
