package workergate_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/httphead"
	"godwit.dev/godwit/internal/gateway/workergate"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/frame"
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

// worker gives the same answer to every request, and keeps the last request.
type worker struct {
	answer request.Answer
	asked  *request.Request
	takes  time.Duration
}

func (w *worker) Ask(ctx context.Context, _ string, r *request.Request) (*request.Answer, error) {
	w.asked = r
	select {
	case <-time.After(w.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a := w.answer
	return &a, nil
}

func (*worker) Serves(string, string) error { return nil }

// serveWorker serves a worker's answers on a kind of origin.
func serveWorker(t *testing.T, w *worker, place httphead.Place, cookies bool) string {
	t.Helper()
	s := httptest.NewServer(workergate.New(workergate.Config{Asker: w, Access: open{cookies: cookies}, Place: place, Log: slog.New(slog.DiscardHandler)}))
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
	if resp := call(t, http.MethodGet, serveWorker(t, w, httphead.Shared, false)+"/gw/shop/", nil); resp.StatusCode != http.StatusBadGateway {
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

func TestAnswersWithoutABodyHaveNone(t *testing.T) {
	w := &worker{answer: request.Answer{ContentType: "text/plain", Data: []byte("body")}}
	at := serveWorker(t, w, httphead.OwnOrigin, false) + "/gw/shop/"
	for _, c := range []struct {
		method string
		status int
		header frame.Headers
		length string
		body   string
	}{
		{"GET", 200, nil, "4", "body"},
		{"GET", 204, frame.Headers{"Content-Length": {"9"}}, "", ""},
		{"GET", 205, nil, "0", ""},
		{"GET", 304, nil, "", ""},
		{"HEAD", 200, nil, "4", ""},
		{"HEAD", 205, nil, "", ""},
		{"GET", 200, frame.Headers{"Content-Length": {"9"}, "Transfer-Encoding": {"chunked"}, "Trailer": {"X"}}, "4", "body"},
	} {
		w.answer.Status, w.answer.Header = c.status, c.header
		resp := call(t, c.method, at, nil)
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != c.status || string(b) != c.body || resp.Header.Get("Content-Length") != c.length || (resp.Header.Get("Content-Type") != "text/plain") != (c.status == 304) {
			t.Errorf("%s %d: %q, %v, with %v", c.method, c.status, b, err, resp.Header)
		}
	}
	w.answer = request.Answer{Status: 200, Header: frame.Headers{"Content-Length": {"1234"}}}
	if resp := call(t, http.MethodHead, at, nil); resp.ContentLength != 1234 {
		t.Errorf("HEAD says a length of %d, and its worker one of 1234", resp.ContentLength)
	}
	w.answer.Header["Content-Length"] = []string{"-7"}
	if resp := call(t, http.MethodHead, at, nil); resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Length") == "-7" {
		t.Errorf("HEAD is answered %d with %v", resp.StatusCode, resp.Header)
	}
}

func TestACallIsAnsweredHoweverLongItsServiceMayTake(t *testing.T) {
	const patience = 3 * time.Second // of the listener; the request's own timeout is longer
	for _, body := range []string{"", "body"} {
		w := &worker{answer: request.Answer{Status: 200, Data: []byte("late")}, takes: patience + 2*time.Second}
		s := httptest.NewUnstartedServer(workergate.New(workergate.Config{Asker: w, Access: open{}, Log: slog.New(slog.DiscardHandler)}))
		s.Config.ReadTimeout, s.Config.WriteTimeout = patience, patience
		s.Start()
		resp, err := http.Post(s.URL+"/gw/shop/", "text/plain", strings.NewReader(body))
		if err != nil {
			t.Errorf("a call with the body %q is not answered: %v", body, err)
		} else {
			got, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK || string(got) != "late" {
				t.Errorf("a call with the body %q is answered %d %q, %v; want the worker's answer", body, resp.StatusCode, got, err)
			}
			_ = resp.Body.Close()
		}
		s.Close()
	}
}
