package docsite

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"godwit.dev/godwit/internal/server/module"
)

// serve starts a server of the documentation alone.
func serve(t *testing.T) *httptest.Server {
	t.Helper()
	s := &server{log: slog.New(slog.DiscardHandler), version: "1.2.3", commands: func() []module.Command {
		return []module.Command{{Path: "godwit publish", Short: "Publish", Long: "Publish.\n\nIt <waits>.", Usage: "godwit publish RECIPIENT", Examples: `godwit publish a --title "Hi"`, Flags: "--ttl duration"}}
	}}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return web
}

func get(t *testing.T, web *httptest.Server, method, path string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestPagesAreServed(t *testing.T) {
	web := serve(t)
	for path, want := range map[string]struct {
		status int
		kind   string
		parts  []string
	}{
		"/docs":                       {200, "text/html", []string{"Godwit 1.2.3", `href="/docs/guides/publish"`, `<h1 id="godwits-documentation">`}},
		"/docs/guides/publish":        {200, "text/html", []string{`aria-current="page"`, `rel="next"`, "On this page"}},
		"/docs/settings/public_url":   {200, "text/html", []string{"GODWIT_PUBLIC_URL", "<dl>", `href="/docs/reference/config"`, "On these pages"}},
		"/docs/commands/publish":      {200, "text/html", []string{"godwit publish RECIPIENT", "It &lt;waits&gt;.", "--ttl duration"}},
		"/docs/reference/commands":    {200, "text/html", []string{`href="/docs/commands/publish"`}},
		"/docs/problems/rate-limited": {200, "text/html", []string{"Retry-After"}},
		"/docs/reference/http":        {200, "text/html", []string{`href="/openapi.yaml"`}},
		"/docs/docs.css":              {200, "text/css", []string{"prefers-color-scheme"}},
		"/docs/guides/publish.md":     {200, "text/markdown", []string{"# "}},
		"/docs/search?q=escalate":     {200, "text/html", []string{"<mark>", `href="/docs/guides/escalation`}},
		"/docs/search?q=zzzzzz":       {200, "text/html", []string{"No page has all of these words"}},
		"/docs/search":                {200, "text/html", []string{"Write a few words"}},
		"/docs/nope":                  {404, "text/html", []string{"No such page", `role="search"`}},
		"/docs/../../etc/passwd":      {404, "text/html", nil},
		"/docs/%2e%2e/embed.go":       {404, "text/html", nil},
		"/docs/guides":                {404, "text/html", nil},
		"/docs/layout.html":           {404, "text/html", nil},
	} {
		resp, body := get(t, web, http.MethodGet, path)
		if resp.StatusCode != want.status || !strings.HasPrefix(resp.Header.Get("Content-Type"), want.kind) {
			t.Errorf("%s: %d, %s", path, resp.StatusCode, resp.Header.Get("Content-Type"))
		}
		for _, p := range want.parts {
			if !strings.Contains(body, p) {
				t.Errorf("%s lacks %s", path, p)
			}
		}
		if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, resp.Header)
		}
		if head, text := get(t, web, http.MethodHead, path); head.StatusCode != want.status || text != "" || head.ContentLength != int64(len(body)) {
			t.Errorf("HEAD %s: %d, %d bytes, not %d", path, head.StatusCode, head.ContentLength, len(body))
		}
	}
}

func TestASlashAtTheEndLeadsToThePage(t *testing.T) {
	web := serve(t)
	for from, to := range map[string]string{"/docs/": "/docs", "/docs/guides/publish/": "/docs/guides/publish", "/docs//evil.example/": "/docs/evil.example"} {
		if resp, _ := get(t, web, http.MethodGet, from); resp.StatusCode != http.StatusMovedPermanently || resp.Header.Get("Location") != to {
			t.Errorf("%s: %d to %s", from, resp.StatusCode, resp.Header.Get("Location"))
		}
	}
}

func TestWordsOfASearchAreShownAsText(t *testing.T) {
	web := serve(t)
	for _, words := range []string{`"><script>alert(1)</script>`, "\x00\xff", strings.Repeat("é", 5000), `' OR "`, "NEAR(a b)", "h52.1 -", "Downloads/transcripts", "2026-12-15", "~", ")", "col:x", "a AND"} {
		resp, body := get(t, web, http.MethodGet, "/docs/search?q="+url.QueryEscape(words))
		if resp.StatusCode != http.StatusOK || strings.Contains(body, "<script") || len(body) > 100_000 {
			t.Errorf("%.40q: %d, %d bytes", words, resp.StatusCode, len(body))
		}
	}
}

func TestManyFirstReadersGetTheSamePage(t *testing.T) {
	web := serve(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			resp, err := http.Get(web.URL + "/docs/search?q=publish")
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "<mark>") {
				t.Errorf("%d, %v", resp.StatusCode, err)
			}
		})
	}
	wg.Wait()
}

func TestAStoppedServerOpensNothing(t *testing.T) {
	s := &server{log: slog.New(slog.DiscardHandler)}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs", nil))
	if w.Code != http.StatusInternalServerError || s.shown != nil {
		t.Errorf("%d", w.Code)
	}
}
