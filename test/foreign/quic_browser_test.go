package foreign

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/firefox"
)

//go:embed quicpage.html
var quicPage string

// pageConfig is what the page is to do.
type pageConfig struct {
	Server    string `json:"server"`
	QUIC      string `json:"quic"`
	Hash      string `json:"hash"`
	Recipient string `json:"recipient"`
	Datagrams bool   `json:"datagrams"`
	Raw       bool   `json:"raw"`
	Speaks    bool   `json:"speaks"` // without being asked, many times a second
}

// pageReport is what happened in the page.
type pageReport struct {
	Name, Why string
	Took      int // milliseconds until the connection
}

// pageSite serves the page, and passes on its reports.
type pageSite struct {
	*httptest.Server
	reports chan pageReport
}

func (s *quicServer) newPageSite(t *testing.T, config pageConfig) *pageSite {
	t.Helper()
	config.Server, config.Hash = "https://"+s.HTTP, s.hash
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	site := &pageSite{reports: make(chan pageReport, 256)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(strings.ReplaceAll(quicPage, "CONFIG", string(text))))
	})
	// The page takes the scripts from its own site, since the browser does not trust the server's certificate.
	mux.HandleFunc("GET /sdk/", func(w http.ResponseWriter, r *http.Request) {
		script, err := s.api.Do(r.Context(), "GET", r.URL.RequestURI(), nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", script.Header.Get("Content-Type"))
		_, _ = w.Write(script.Body)
	})
	mux.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		var report pageReport
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			report.Why = err.Error()
		}
		site.reports <- report
	})
	site.Server = httptest.NewServer(mux)
	t.Cleanup(site.Close)
	return site
}

// next waits for a report while the page is expected to say something.
func (p *pageSite) next(ctx context.Context, t *testing.T, expected string, stop ...string) pageReport {
	t.Helper()
	select {
	case r := <-p.reports:
		t.Logf("%+v", r)
		if slices.Contains(stop, r.Name) || r.Name == "broken" || r.Name == "trouble" {
			t.Fatalf("the page reports %+v before %s", r, expected)
		}
		return r
	case <-ctx.Done():
		t.Fatalf("the page did not report %s in time", expected)
		return pageReport{}
	}
}

// wants waits for a report of a name. Reports of names that stop must not come before.
func (p *pageSite) wants(ctx context.Context, t *testing.T, name string, stop ...string) pageReport {
	t.Helper()
	for {
		if r := p.next(ctx, t, name, stop...); r.Name == name {
			return r
		}
	}
}

// wantsAll waits for a report of each name, in any order.
func (p *pageSite) wantsAll(ctx context.Context, t *testing.T, names ...string) {
	t.Helper()
	for len(names) > 0 {
		r := p.next(ctx, t, strings.Join(names, " and "))
		names = slices.DeleteFunc(names, func(name string) bool { return name == r.Name })
	}
}

// opens shows the page to a browser.
func (s *quicServer) opens(ctx context.Context, t *testing.T, browser string, config pageConfig) *pageSite {
	t.Helper()
	site := s.newPageSite(t, config)
	if out, err := s.Manage("app", "set", "demo", "--origin", site.URL, "--data", s.Dir); err != nil {
		t.Fatalf("allow the page's origin: %v\n%s", err, out)
	}
	if browser == "firefox" {
		profile, err := os.MkdirTemp("", "firefox") // not t.TempDir: Firefox may still write while it ends
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(profile) })
		if err := firefox.Start(t, profile, "").Tab(t).Open(ctx, site.URL); err != nil {
			t.Fatal(err)
		}
		return site
	}
	chromium := blackbox.Chromium(t)
	// The exception is for the WebSocket; WebTransport goes by the hash.
	visit(ctx, t, chromium, site.URL, "--ignore-certificate-errors")
	return site
}

var browsers = []string{"chromium", "firefox"}

// over is the gateway of a recipient's only session.
func (s *quicServer) over(ctx context.Context, t *testing.T, recipient string) (gateway string) {
	t.Helper()
	blackbox.Eventually(t, "there is one session", func() error {
		all, err := s.gateways(ctx, recipient)
		if err == nil && len(all) != 1 {
			err = fmt.Errorf("%s is connected over %v", recipient, all)
		}
		if err == nil {
			gateway = all[0]
		}
		return err
	})
	return gateway
}

func TestBrowsersListenOverWebTransport(t *testing.T) {
	blackbox.Long(t)
	for _, browser := range browsers {
		t.Run(browser, func(t *testing.T) { listens(t, browser) })
	}
}

func listens(t *testing.T, browser string) {
	s := startQUIC(t)
	ctx := timeout(t)
	if err := s.api.Publish(ctx, map[string]any{"to": "page", "id": "before", "title": "Hi"}); err != nil {
		t.Fatal(err)
	}
	p := s.opens(ctx, t, browser, pageConfig{QUIC: "https://" + s.quic, Recipient: "page", Datagrams: true})
	p.wantsAll(ctx, t, "notification", "subscribed")
	for over := s.over(ctx, t, "page"); over != "quic"; over = s.over(ctx, t, "page") {
		// The browser was slow, on a busy machine. The client has noticed that the way is open.
		s.api.Call(t, "DELETE", "/v1/recipients/page/sessions", nil, nil)
		p.wants(ctx, t, "connected")
	}
	for _, size := range []int{10, 1000, 60 << 10} {
		s.api.Call(t, "POST", "/v1/topics/rides.oslo", map[string]string{"text": strings.Repeat("x", size)}, nil)
		p.wants(ctx, t, "message", "left")
	}
	for _, id := range []string{"after-1", "after-2"} {
		if err := s.api.Publish(ctx, map[string]any{"to": "page", "id": id, "title": strings.Repeat("☕", 10_000)}); err != nil {
			t.Fatal(err)
		}
		if r := p.wants(ctx, t, "notification", "left"); r.Why != id {
			t.Errorf("got %s, want %s", r.Why, id)
		}
		blackbox.Eventually(t, "acknowledged", func() error { return s.api.WantState(ctx, id, "page", "acked") })
	}
	blackbox.Eventually(t, "acknowledged", func() error { return s.api.WantState(ctx, "before", "page", "acked") })
	// The client learns why the server ends a session, comes back, and comes back no more where that is pointless.
	s.api.Call(t, "DELETE", "/v1/recipients/page/sessions", nil, nil)
	if r := p.wants(ctx, t, "left", "fallback"); r.Why != "server said goodbye: disconnected" {
		t.Errorf("the session ended with %q", r.Why)
	}
	p.wants(ctx, t, "connected", "fallback")
	s.api.Call(t, "DELETE", "/v1/recipients/page", nil, nil)
	if r := p.wants(ctx, t, "refused", "fallback", "connected"); r.Why != "erased" {
		t.Errorf("the recipient was erased, and the page was told %q", r.Why)
	}
}

// TestBrowsersReadTheCodeOfAClose uses WebTransport without the client.
func TestBrowsersReadTheCodeOfAClose(t *testing.T) {
	blackbox.Long(t)
	thorough.IfChanged(t, "internal/gateway/quicgate", "TestBrowsersListenOverWebTransport")
	s := startQUIC(t)
	for _, browser := range browsers {
		t.Run(browser, func(t *testing.T) {
			ctx := timeout(t)
			p := s.opens(ctx, t, browser, pageConfig{QUIC: "https://" + s.quic, Raw: true})
			if r := p.wants(ctx, t, "said"); !strings.Contains(r.Why, `"reason":"unauthenticated"`) {
				t.Errorf("the server said %s", r.Why)
			}
			if r := p.wants(ctx, t, "closed"); r.Why != "1008 unauthenticated" {
				t.Errorf("the session was closed with %s", r.Why)
			}
		})
	}
}

// TestChromiumFallsBackWhereUDPIsBlocked gives the page an address whose packets vanish, then one that nobody has.
func TestChromiumFallsBackWhereUDPIsBlocked(t *testing.T) {
	blackbox.Long(t)
	thorough.IfChanged(t, "internal/gateway/quicgate", "TestBrowsersListenOverWebTransport")
	s := startQUIC(t)
	hole, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	var lost atomic.Int64
	go func() {
		buf := make([]byte, 2048)
		for {
			if _, _, err := hole.ReadFrom(buf); err != nil {
				return
			}
			lost.Add(1)
		}
	}()
	for name, at := range map[string]string{"vanish": hole.LocalAddr().String(), "refused": blackbox.Free(t)} {
		t.Run(name, func(t *testing.T) {
			ctx := timeout(t)
			p := s.opens(ctx, t, "chromium", pageConfig{QUIC: "https://" + at, Recipient: name, Datagrams: true})
			p.wants(ctx, t, "fallback", "connected")
			t.Logf("connected after %d ms", p.wants(ctx, t, "connected", "left").Took)
			if over := s.over(ctx, t, name); over != "ws" {
				t.Errorf("the page is connected over %s", over)
			}
			if err := s.api.Publish(ctx, map[string]any{"to": name, "id": name, "title": "Hi"}); err != nil {
				t.Fatal(err)
			}
			blackbox.Eventually(t, "acknowledged", func() error { return s.api.WantState(ctx, name, name, "acked") })
			s.api.Call(t, "DELETE", "/v1/recipients/"+name+"/sessions", nil, nil)
			p.wants(ctx, t, "left", "fallback")
			p.wants(ctx, t, "connected", "fallback") // without trying again what failed
		})
	}
	if lost.Load() == 0 {
		t.Error("no packet came to the address whose packets vanish")
	}
}
