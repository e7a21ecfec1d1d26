package frontgate_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/frame"
	"godwit.dev/godwit/internal/gateway/frontgate"
	"godwit.dev/godwit/internal/httphead"
	"godwit.dev/godwit/internal/request"
)

// open lets everybody in.
type open struct {
	access.Access
	cookies bool
}

func (o open) Service(string, string) (access.Service, bool) {
	return access.Service{Access: access.ByAnyone, Cookies: o.cookies}, true
}
func (open) OnlyApp() string { return "demo" }

// worker answers every request alike, and keeps the last one.
type worker struct {
	answer request.Answer
	asked  *request.Request
}

func (w *worker) Ask(_ context.Context, _ string, r *request.Request) (*request.Answer, error) {
	w.asked = r
	a := w.answer
	return &a, nil
}

// serveWorker serves a worker's answers on an origin.
func serveWorker(t *testing.T, w *worker, place httphead.Place, cookies bool) string {
	t.Helper()
	s := httptest.NewServer(frontgate.New(frontgate.Config{Asker: w, Access: open{cookies: cookies}, Place: place, Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(s.Close)
	return s.URL
}

// call calls a worker and returns the answer, whose body is closed.
func call(t *testing.T, method, url string, header http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestAPageOfAWorkerHasNoPowerOnASharedOrigin(t *testing.T) {
	w := &worker{answer: request.Answer{Status: 200, ContentType: "text/html", Data: []byte("<script></script>"), Header: frame.Headers{
		"Content-Security-Policy": {"sandbox allow-scripts allow-same-origin"}, "Set-Cookie": {"godwit=x; Path=/", "theme=dark"}, "Clear-Site-Data": {`"*"`}, "X-Own": {"kept"},
	}}}
	resp := call(t, http.MethodGet, serveWorker(t, w, httphead.Shared, false)+"/gw/shop/", nil)
	if csp := resp.Header["Content-Security-Policy"]; len(csp) != 2 || csp[0] != "sandbox" {
		t.Errorf("the policies are %q", csp)
	}
	if got := resp.Header["Set-Cookie"]; strings.Join(got, "|") != "theme=dark" || resp.Header.Get("Clear-Site-Data") != "" || resp.Header.Get("X-Own") != "kept" {
		t.Errorf("the headers are %v", resp.Header)
	}
	own := serveWorker(t, w, httphead.OwnOrigin, false)
	if csp := call(t, http.MethodGet, own+"/gw/shop/", nil).Header["Content-Security-Policy"]; len(csp) != 1 {
		t.Errorf("on an origin of its own the policies are %q", csp)
	}
}

func TestASharedOriginHasNoServiceWorkerOfAWorker(t *testing.T) {
	w := &worker{answer: request.Answer{Status: 200, ContentType: "text/javascript"}}
	for place, want := range map[httphead.Place]int{httphead.Shared: 403, httphead.OwnOrigin: 200} {
		at := serveWorker(t, w, place, false)
		for _, h := range []http.Header{{"Service-Worker": {"script"}}, {"Sec-Fetch-Dest": {"serviceworker"}}} {
			if resp := call(t, http.MethodGet, at+"/gw/shop/sw.js", h); resp.StatusCode != want {
				t.Errorf("in place %d %v gets %d, want %d", place, h, resp.StatusCode, want)
			}
		}
	}
}

func TestAnAnswerInPartsWithHeadersOfTheirOwnIsRefused(t *testing.T) {
	w := &worker{answer: request.Answer{Status: 200, ContentType: "multipart/x-mixed-replace; boundary=x"}}
	if resp := call(t, http.MethodGet, serveWorker(t, w, httphead.Shared, false)+"/gw/shop/", nil); resp.StatusCode != 502 {
		t.Errorf("status %d, want 502", resp.StatusCode)
	}
}

func TestAWorkerLearnsWhoCallsFromTheGatewayAlone(t *testing.T) {
	w := &worker{answer: request.Answer{Status: 200}}
	at := serveWorker(t, w, httphead.Shared, true)
	call(t, http.MethodGet, at+"/gw/shop/", http.Header{
		"Godwit_Recipient": {"admin"}, "GODWIT-KEY": {"k"}, "godwit.client.addr": {"1.2.3.4"}, "X_Forwarded_For": {"1.2.3.4"}, "X-Real_ip": {"1.2.3.4"}, "CF_Connecting_IP": {"1.2.3.4"},
		"Forwarded": {"for=1.2.3.4"}, "True-Client-Ip": {"1.2.3.4"}, "Cookie": {"godwit=secret; a=1"}, "X_own": {"kept"},
	})
	for name, values := range w.asked.Header {
		switch name {
		case "Godwit-Client-Addr", "X_own", "Cookie", "Accept-Encoding", "User-Agent":
		default:
			t.Errorf("the worker gets %s: %q", name, values)
		}
	}
	if h := w.asked.Header; h["Godwit-Client-Addr"][0] != "127.0.0.1" || h["Cookie"][0] != "a=1" || h["X_own"] == nil {
		t.Errorf("the worker gets %v", h)
	}
}
