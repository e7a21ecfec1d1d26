package foreign

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

//go:embed page.html
var page string

// browserResult is what the page reports about one connection.
type browserResult struct {
	Name  string
	OK    bool
	Why   string
	IDs   []string
	Acked int
}

// TestBrowser connects a real browser with WebSocket and EventSource from a page of an allowed origin, and checks that a page of another
// origin is refused.
func TestBrowser(t *testing.T) {
	blackbox.Long(t)
	chromium := blackbox.Chromium(t)
	server := blackbox.Start(t, blackbox.Dev())
	ctx, api := timeout(t), server.API()
	for _, recipient := range []string{"browser-ws", "browser-sse"} {
		for i := range 5 {
			err := api.Publish(ctx, map[string]any{"to": recipient, "id": fmt.Sprintf("%s-%d", recipient, i), "title": "Blåbær ☕", "data": map[string]int{"n": i}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	reports := make(chan browserResult, 8)
	allowed, stranger := startSite(t, server.HTTP, reports), startSite(t, server.HTTP, reports)
	out, err := server.Manage("app", "set", "demo", "--origin", allowed, "--data", server.Dir)
	if err != nil {
		t.Fatalf("allow the page's origin: %v\n%s", err, out)
	}
	blackbox.Eventually(t, "the origin is allowed", func() error { return preflight(ctx, server, allowed) })

	visit(ctx, t, chromium, allowed)
	for range 2 {
		r := next(ctx, t, reports)
		if !r.OK || r.Acked != 5 {
			t.Fatalf("%s from an allowed origin: %+v", r.Name, r)
		}
		for i, id := range r.IDs {
			if want := fmt.Sprintf("browser-%s-%d", r.Name, i); id != want {
				t.Errorf("%s got %v", r.Name, r.IDs)
			}
			blackbox.Eventually(t, "acknowledged", func() error { return api.WantState(ctx, id, "browser-"+r.Name, "acked") })
		}
	}
	visit(ctx, t, chromium, stranger)
	for range 2 {
		if r := next(ctx, t, reports); r.OK || len(r.IDs) > 0 {
			t.Errorf("%s from a strange origin was let in: %+v", r.Name, r)
		}
	}
}

// startSite serves the page and takes its reports.
func startSite(t *testing.T, godwit string, reports chan<- browserResult) (origin string) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, strings.ReplaceAll(page, "GODWIT", godwit))
	})
	mux.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		var report browserResult
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			report.Why = err.Error()
		}
		reports <- report
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// preflight checks, as a browser does, that the origin may read the stream.
func preflight(ctx context.Context, server *blackbox.Server, origin string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodOptions, server.URL("/v1/frames?app=demo"), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Origin", origin)
	req.Header.Set("Access-Control-Request-Method", "POST")
	req.Header.Set("Access-Control-Request-Headers", "content-type")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if got := resp.Header.Get("Access-Control-Allow-Origin"); got != origin {
		return fmt.Errorf("preflight: %s, allowed origin %q", resp.Status, got)
	}
	return nil
}

func next(ctx context.Context, t *testing.T, reports <-chan browserResult) browserResult {
	t.Helper()
	select {
	case r := <-reports:
		return r
	case <-ctx.Done():
		t.Fatal("the browser's page did not report in time")
		return browserResult{}
	}
}

// visit opens a page in a browser of its own, which is killed with everything it started when the test ends.
func visit(ctx context.Context, t *testing.T, chromium, address string, flags ...string) {
	t.Helper()
	// Not t.TempDir: the browser's helpers may still write while they end, which would fail the test.
	profile, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir=" + profile, "--remote-debugging-port=0",
	}, flags...)
	cmd := exec.CommandContext(ctx, chromium, append(args, address)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = os.RemoveAll(profile)
	})
}
