package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/engine/latency"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/httpapi/operator"
)

// TestEveryRouteChecksItsRole tries each route that needs a key without one, with a wrong one, and with each role.
func TestEveryRouteChecksItsRole(t *testing.T) {
	w, _, _ := campaigns(t)
	publish, read, admin := []string{"publish", "admin"}, []string{"read", "publish", "admin"}, []string{"admin"}
	for _, c := range []struct {
		method, path, body string
		may                []string
	}{
		{"POST", "/v1/notifications", `{"to":"a","title":"Hi"}`, publish},
		{"POST", "/v1/notifications/batch", `{"to":"a","title":"Hi"}`, publish},
		{"POST", "/v1/notify/a", "x", publish},
		{"GET", "/v1/notifications/n", "", read},
		{"DELETE", "/v1/notifications/n", "", publish},
		{"GET", "/v1/recipients", "", read},
		{"GET", "/v1/recipients/none", "", read},
		{"GET", "/v1/recipients/none/notifications", "", read},
		{"GET", "/v1/recipients/none/timeline", "", read},
		{"GET", "/v1/notifications/none/timeline?to=a", "", read},
		{"DELETE", "/v1/recipients/none", "", publish},
		{"DELETE", "/v1/recipients/none/sessions", "", publish},
		{"GET", "/v1/endpoints", "", read},
		{"POST", "/v1/endpoints/batch", `{}`, publish},
		{"GET", "/v1/endpoints/export", "", read},
		{"GET", "/v1/endpoints/01ARZ3NDEKTSV4RRFFQ69G5FAV", "", read},
		{"PATCH", "/v1/endpoints/01ARZ3NDEKTSV4RRFFQ69G5FAV", `{}`, publish},
		{"DELETE", "/v1/endpoints/01ARZ3NDEKTSV4RRFFQ69G5FAV", "", publish},
		{"GET", "/v1/audience", "", read},
		{"GET", "/v1/audience/days", "", read},
		{"POST", "/v1/audience/count", `{}`, read},
		{"GET", "/v1/events?since=x", "", read},
		{"GET", "/v1/stats", "", read},
		{"GET", "/v1/stats/history", "", read},
		{"GET", "/v1/warnings", "", read},
		{"GET", "/v1/topics", "", read},
		{"GET", "/v1/workers", "", read},
		{"GET", "/v1/connections", "", read},
		{"GET", "/v1/log", "", read},
		{"GET", "/v1/settings", "", admin},
		{"GET", "/v1/objects", "", read},
		{"POST", "/v1/keys", `{"roles":["read"]}`, admin},
		{"GET", "/v1/keys", "", admin},
		{"DELETE", "/v1/keys/none", "", admin},
		{"GET", "/v1/channels", "", read},
		{"GET", "/v1/channels/none", "", read},
		{"PUT", "/v1/channels/none", "{}", admin},
		{"DELETE", "/v1/channels/none", "", admin},
		{"POST", "/v1/channels/none/test", "", admin},
		{"POST", "/v1/channels/none/files", "x", publish},
		{"POST", "/v1/campaigns", "{}", publish},
		{"GET", "/v1/campaigns", "", read},
		{"GET", "/v1/campaigns/days", "", read},
		{"GET", "/v1/campaigns/none", "", read},
		{"PUT", "/v1/campaigns/none", "{}", publish},
		{"DELETE", "/v1/campaigns/none", "", publish},
		{"POST", "/v1/campaigns/none/start", "", publish},
		{"POST", "/v1/campaigns/none/pause", "", publish},
		{"POST", "/v1/campaigns/none/resume", "", publish},
		{"POST", "/v1/campaigns/none/cancel", "", publish},
		{"POST", "/v1/campaigns/none/recall", "", publish},
		{"POST", "/v1/campaigns/none/retry-unknown", "", publish},
		{"POST", "/v1/campaigns/none/test", "", publish},
		{"POST", "/v1/campaigns/none/preview", "", read},
		{"GET", "/v1/campaigns/none/deliveries", "", read},
		{"GET", "/v1/campaigns/none/events", "", read},
		{"GET", "/v1/campaigns/none/days", "", read},
		{"GET", "/v1/hooks", "", read},
		{"GET", "/v1/hooks/none", "", read},
		{"PUT", "/v1/hooks/none", "{}", admin},
		{"DELETE", "/v1/hooks/none", "", admin},
		{"POST", "/v1/hooks/none/replay", `{"since":"0"}`, admin},
		{"POST", "/v1/hooks/none/test", "", admin},
		{"GET", "/v1/audit", "", admin},
		{"GET", "/v1/sinks", "", read},
		{"GET", "/v1/sinks/none", "", read},
		{"PUT", "/v1/sinks/none", "{}", admin},
		{"DELETE", "/v1/sinks/none", "", admin},
		{"GET", "/v1/sources", "", read},
		{"GET", "/v1/sources/none", "", read},
		{"PUT", "/v1/sources/none", "{}", admin},
		{"DELETE", "/v1/sources/none", "", admin},
	} {
		r := request{method: c.method, path: c.path, body: c.body, header: map[string]string{}}
		switch {
		case strings.HasSuffix(c.path, "batch"):
			r.header["Content-Type"] = "application/x-ndjson"
		case strings.HasPrefix(c.path, "/v1/notify"):
			r.header["Content-Type"] = "text/plain"
		}
		for _, key := range []string{"-", "wrong"} {
			r.key = key
			a := w.do(r)
			a.problem(http.StatusUnauthorized, "unauthenticated", "")
			if got := a.header.Get("WWW-Authenticate"); got != `Bearer realm="godwit"` {
				t.Errorf("%s %s: WWW-Authenticate %q", c.method, c.path, got)
			}
		}
		for role := range map[string]bool{"publish": true, "read": true, "worker": true, "admin": true} {
			r.key = w.keys[role]
			a := w.do(r)
			if allowed := strings.Contains(strings.Join(c.may, " "), role); !allowed {
				a.problem(http.StatusForbidden, "forbidden", "")
			} else if a.status == http.StatusUnauthorized || a.status == http.StatusForbidden {
				t.Errorf("%s %s with role %s: %d", c.method, c.path, role, a.status)
			}
		}
	}
}

func TestKeyOfAnotherAppIsRefused(t *testing.T) {
	w := newWorld(t)
	w.get("/v1/recipients?app=shop").want(http.StatusOK)
	w.get("/v1/recipients?app=other").problem(http.StatusForbidden, "forbidden", "app")
	w.post("/v1/notifications?app=other", `{"to":"a","title":"Hi"}`).problem(http.StatusForbidden, "forbidden", "app")
	w.get("/v1/recipients?app=").problem(http.StatusBadRequest, "bad-input", "app")
	w.post("/v1/notifications?app", `{"to":"a","title":"Hi"}`).problem(http.StatusBadRequest, "bad-input", "app")
}

// TestNothingCrossesApps publishes the same id in two apps and reads it in both.
func TestNothingCrossesApps(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/notifications", `{"to":"a","id":"n","title":"mine"}`).want(http.StatusCreated)
	theirs := func(method, path string) answer {
		return w.do(request{method: method, path: path, key: w.keys["other"]})
	}
	theirs("GET", "/v1/notifications/n").problem(http.StatusNotFound, "not-found", "")
	theirs("DELETE", "/v1/notifications/n").problem(http.StatusNotFound, "not-found", "")
	theirs("DELETE", "/v1/recipients/a").problem(http.StatusNotFound, "not-found", "")
	w.do(request{method: "POST", path: "/v1/notifications", body: `{"to":"a","id":"n","title":"theirs"}`, key: w.keys["other"]}).want(http.StatusCreated)
	if s := decode[statusJSON](w.get("/v1/notifications/n?to=a")); s.Status != "stored" {
		t.Errorf("status %+v", s)
	}
}

func TestUnknownPathsAndMethodsAreProblems(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v1/nothing", "/v1/notifications/a/b", "/index.html", "/v2/notifications", "/v1/recipients/a/sessions/b"} {
		w.get(path).problem(http.StatusNotFound, "no-such-path", "")
	}
	for _, c := range []struct{ method, path, allow string }{
		{"PUT", "/v1/notifications", "GET, POST, HEAD"},
		{"PUT", "/v1/notifications/n", "GET, DELETE, HEAD"},
		{"PATCH", "/v1/recipients/a", "GET, DELETE, HEAD"},
		{"POST", "/v1/recipients/a/sessions", "DELETE"},
		{"DELETE", "/v1/keys", "GET, POST, HEAD"},
		{"OPTIONS", "/v1/stats", "GET, HEAD"},
		{"POST", "/healthz", "GET, HEAD"},
	} {
		a := w.do(request{method: c.method, path: c.path})
		a.problem(http.StatusMethodNotAllowed, "method-not-allowed", "")
		if got := a.header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, got, c.allow)
		}
	}
	w.get("/problems/none").problem(http.StatusNotFound, "not-found", "")
}

func TestAnswersCarrySecurityHeaders(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/healthz", "/v1/stats", "/v1/none", "/metrics", "/openapi.yaml"} {
		h := w.get(path).header
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" ||
			!strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
}

func TestOpenPathsNeedNoKey(t *testing.T) {
	w := newWorld(t)
	open := func(path string) answer {
		return w.do(request{method: "GET", path: path, key: "-"}).want(http.StatusOK)
	}
	open("/healthz")
	open("/readyz")
	if a := open("/openapi.yaml"); !strings.HasPrefix(a.body, "openapi: 3") {
		t.Errorf("document %.40s", a.body)
	}
	if a := open("/problems/mailbox-full"); !strings.Contains(a.body, "pending") {
		t.Errorf("explanation %s", a.body)
	}
	w.post("/v1/notifications", `{"to":"a","title":"Hi"}`).want(http.StatusCreated)
	w.post("/v1/notifications", `{}`).want(http.StatusBadRequest)
	a := open("/metrics")
	for _, line := range []string{
		`godwit_http_requests_total{code="2xx",route="POST /v1/notifications"} 1`,
		`godwit_http_requests_total{code="4xx",route="POST /v1/notifications"} 1`,
		`godwit_http_request_duration_seconds_count{route="POST /v1/notifications"} 2`,
		`godwit_build_info{version="test"} 1`, "process_resident_memory_bytes", "go_goroutines",
	} {
		if !strings.Contains(a.body, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
}

func TestReadyzSaysWhyNot(t *testing.T) {
	w := newWorld(t)
	w.mailbox.setFail(mailbox.ErrNoSpace)
	if p := w.do(request{method: "GET", path: "/readyz", key: "-"}).problem(http.StatusServiceUnavailable, "not-ready", ""); !strings.Contains(p.Detail, "disk space") {
		t.Errorf("detail %q", p.Detail)
	}
	w.get("/healthz").want(http.StatusOK)
}

func TestStatsCount(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/notifications", `{"to":"a","title":"Hi"}`).want(http.StatusCreated)
	s := decode[struct {
		Pending   int
		Delivered int            `json:"delivered_total"`
		Settled   map[string]int `json:"settled_total"`
		Version   string
		Store     struct {
			FreeBytes int `json:"free_bytes"`
		}
	}](w.get("/v1/stats").want(http.StatusOK))
	if s.Pending != 1 || s.Delivered != 7 || s.Settled["acked"] != 3 || s.Version != "test" || s.Store.FreeBytes != 1<<30 {
		t.Errorf("stats %+v", s)
	}
}

func TestStatsListTheSlowestOfTheKeysApp(t *testing.T) {
	w := newWorld(t, func(c *setup) {
		c.Figures = func() operator.Figures {
			return operator.Figures{Connections: 3, QueuedBytes: 99, PublishLatency: []latency.Bucket{{Most: 2 * time.Millisecond, Count: 5}}, Objects: operator.ObjectFigures{Registrations: 4, Frames: 6}}
		}
	})
	w.post("/v1/notifications", `{"to":"a","title":"Hi"}`).want(http.StatusCreated)
	w.presence.connect("shop", "a", session.Info{ID: "tablet", Device: "tablet", Gateway: "ws", Unacked: 1, ConnectedAt: time.Now()})
	w.presence.connect("shop", "idle", session.Info{ID: "~x", Gateway: "ws"})
	w.presence.connect("other", "b", session.Info{ID: "~y", Gateway: "ws", Unacked: 9})
	type answer struct {
		Connections int
		Objects     struct {
			Registrations int
			Frames        int `json:"frames_total"`
		}
		QueuedBytes int `json:"queued_bytes"`
		Latency     []struct {
			LeUS  int `json:"le_us"`
			Count int
		} `json:"publish_latency"`
		Slowest []struct {
			Recipient, Device string
			Unacked           int
			QueuedBytes       int       `json:"queued_bytes"`
			OldestAt          time.Time `json:"oldest_at"`
		}
	}
	if s := decode[answer](w.get("/v1/stats").want(http.StatusOK)); len(s.Slowest) != 0 {
		t.Errorf("nobody asked for %+v", s.Slowest)
	}
	s := decode[answer](w.get("/v1/stats?slowest=10&by=unacked").want(http.StatusOK))
	if s.Connections != 3 || s.QueuedBytes != 99 || len(s.Latency) != 1 || s.Latency[0].LeUS != 2000 || s.Latency[0].Count != 5 {
		t.Errorf("figures %+v", s)
	}
	if s.Objects.Registrations != 4 || s.Objects.Frames != 6 {
		t.Errorf("objects %+v", s.Objects)
	}
	if len(s.Slowest) != 1 || s.Slowest[0].Recipient != "a" || s.Slowest[0].Device != "tablet" || s.Slowest[0].QueuedBytes != 17 {
		t.Fatalf("slowest %+v, want a's tablet alone", s.Slowest)
	}
	if age := time.Since(s.Slowest[0].OldestAt); age < 0 || age > time.Minute {
		t.Errorf("its oldest waits for %s", age)
	}
	w.get("/v1/stats?slowest=101").problem(http.StatusBadRequest, "bad-input", "slowest")
	w.get("/v1/stats?slowest=5&by=name").problem(http.StatusBadRequest, "bad-input", "by")
}

// panicking is a publisher with a bug.
type panicking struct{}

func (panicking) Publish(context.Context, string, []*notification.Draft) []delivery.Result {
	panic("a bug with secret-detail")
}

func TestPanicIsA500AndTheServerLives(t *testing.T) {
	w := newWorld(t, func(c *setup) { c.Publisher = panicking{} })
	a := w.post("/v1/notifications", `{"to":"a","title":"Hi"}`)
	if a.problem(http.StatusInternalServerError, "internal", ""); strings.Contains(a.body, "secret-detail") {
		t.Errorf("the answer tells of the panic: %s", a.body)
	}
	if log := w.log.String(); !strings.Contains(log, "handler panicked") || !strings.Contains(log, "secret-detail") {
		t.Error("the log does not tell of the panic")
	}
	w.get("/healthz").want(http.StatusOK)
}

func TestMountedHandlerGetsTheBareConnection(t *testing.T) {
	hijack := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		conn, _, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\nraw "+r.URL.Path)
	})
	broken := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(errors.New("gateway bug")) })
	w := newWorld(t, func(c *setup) {
		c.Mount = map[string]http.Handler{"GET /v1/connect": hijack, "/v1/stream": broken}
	})
	if got := w.raw("GET /v1/connect HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasSuffix(got, "raw /v1/connect") {
		t.Errorf("answer %q", got)
	}
	if got := w.raw("GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n"); got != "" {
		t.Errorf("answer %q of a handler that panicked", got)
	}
	if !strings.Contains(w.log.String(), "gateway panicked") {
		t.Error("the log does not tell of the panic")
	}
}

// raw sends bytes over a new connection and returns everything received until its end.
func (w *world) raw(request string) string {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.srv.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		w.t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		w.t.Fatal(err)
	}
	got, _ := io.ReadAll(bufio.NewReader(conn)) // a reset ends the connection as well
	return string(got)
}

func TestBodyThatEndsEarlyIsRefused(t *testing.T) {
	w := newWorld(t)
	got := w.raw(fmt.Sprintf("POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{\"to\":", w.key))
	if !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "/problems/body-incomplete") {
		t.Errorf("answer %q", got)
	}
}

func TestHugeHeadersAreCutOff(t *testing.T) {
	w := newWorld(t)
	got := w.raw("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Big: " + strings.Repeat("x", 64<<10) + "\r\n\r\n")
	if got != "" && !strings.HasPrefix(got, "HTTP/1.1 431 ") {
		t.Errorf("answer %.60q", got)
	}
}
