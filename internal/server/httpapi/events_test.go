package httpapi_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/server/metrics"
)

// feed is an open GET /v1/events.
type feed struct {
	t    testing.TB
	resp *http.Response
	r    *bufio.Reader
}

func (w *world) follow(query string, header map[string]string) *feed {
	w.t.Helper()
	req, _ := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.srv.URL+"/v1/events"+query, nil)
	req.Header.Set("Authorization", "Bearer "+w.key)
	for name, v := range header {
		req.Header.Set(name, v)
	}
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("status %d", resp.StatusCode)
	}
	return &feed{t: w.t, resp: resp, r: bufio.NewReader(resp.Body)}
}

func (f *feed) line() string {
	f.t.Helper()
	line, err := f.r.ReadString('\n')
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

type eventJSON struct {
	EventID      string `json:"event_id"`
	Type, ID, To string
	At           time.Time
}

func (f *feed) event() (e eventJSON) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.line()), &e); err != nil {
		f.t.Fatal(err)
	}
	return e
}

var someTime = time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)

func ev(app string, t event.Type, id string) event.Event {
	return event.Event{App: app, Type: t, At: someTime, Note: id, To: "a"}
}

func TestEventsFollowFromNow(t *testing.T) {
	w := newWorld(t)
	w.events.Emit([]event.Event{ev("shop", event.Stored, "before")})
	f := w.follow("", nil)
	if ct := f.resp.Header.Get("Content-Type"); ct != "application/x-ndjson" {
		t.Errorf("content type %q", ct)
	}
	w.events.Emit([]event.Event{ev("other", event.Stored, "not-mine"), ev("shop", event.Acked, "n1"), ev("shop", event.Online, "")})
	if got := f.line(); got != `{"event_id":"3","type":"acked","at":"2026-01-02T03:04:05.006Z","id":"n1","to":"a"}` {
		t.Errorf("line %s", got)
	}
	if got := f.line(); got != `{"event_id":"4","type":"online","at":"2026-01-02T03:04:05.006Z","to":"a"}` {
		t.Errorf("line %s", got)
	}
	w.events.Emit([]event.Event{ev("shop", event.Expired, "n2")})
	if e := f.event(); e.EventID != "5" {
		t.Errorf("event %+v, want the new one only", e)
	}
}

func TestEventsSinceIsExclusive(t *testing.T) {
	w := newWorld(t)
	w.events.Emit([]event.Event{ev("shop", event.Stored, "n1"), ev("shop", event.Stored, "n2"), ev("shop", event.Acked, "n1")})
	f := w.follow("?since=1", nil)
	if a, b := f.event(), f.event(); a.ID != "n2" || b.Type != "acked" {
		t.Errorf("events %+v, %+v", a, b)
	}
	if e := w.follow("?since=0&types=acked,expired", nil).event(); e.Type != "acked" || e.EventID != "3" {
		t.Errorf("event %+v, want the acked one only", e)
	}
}

func TestEventsAsServerSentEvents(t *testing.T) {
	w := newWorld(t)
	w.events.Emit([]event.Event{ev("shop", event.Stored, "n1"), ev("shop", event.Acked, "n1")})
	f := w.follow("", map[string]string{"Accept": "text/event-stream", "Last-Event-ID": "1"})
	if ct := f.resp.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("content type %q", ct)
	}
	for _, want := range []string{"id: 2", "event: acked", `data: {"event_id":"2","type":"acked","at":"2026-01-02T03:04:05.006Z","id":"n1","to":"a"}`, ""} {
		if got := f.line(); got != want {
			t.Errorf("line %q, want %q", got, want)
		}
	}
}

func TestEventsEndWhenTheServerDrains(t *testing.T) {
	w := newWorld(t)
	f := w.follow("", nil)
	close(w.draining)
	if _, err := f.r.ReadByte(); err == nil {
		t.Error("the feed goes on")
	}
	w.get("/readyz").problem(http.StatusServiceUnavailable, "not-ready", "")
}

func TestEventsLogThatCannotBeReadEndsTheFeed(t *testing.T) {
	w := newWorld(t)
	w.events.fail = errors.New("events broken")
	f := w.follow("", nil)
	if _, err := f.r.ReadByte(); err == nil {
		t.Error("the feed goes on")
	}
	w.srv.Close()
	if !strings.Contains(w.log.String(), "events broken") {
		t.Error("the log does not say why")
	}
}

func TestSilentFeedShowsSignsOfLife(t *testing.T) {
	for accept, want := range map[string]string{"": "\n\n", "text/event-stream": ": \n\n: \n\n"} {
		w := newWorld(t)
		synctest.Test(t, func(t *testing.T) {
			draining, cfg := make(chan struct{}), w.cfg // a channel of this synctest bubble, as the bubble requires of every channel that it waits for
			cfg.Draining, cfg.Registry = draining, metrics.New("test")
			w.events.more = make(chan struct{})
			rec := httptest.NewRecorder()
			req := httptest.NewRequest(http.MethodGet, "/v1/events", nil).WithContext(t.Context())
			req.Header.Set("Authorization", "Bearer "+w.key)
			req.Header.Set("Accept", accept)
			time.AfterFunc(2*backend.FeedHeartbeat+time.Second, func() { close(draining) })
			cfg.handler().ServeHTTP(rec, req)
			if got := rec.Body.String(); got != want {
				t.Errorf("Accept %q: %q, want %q", accept, got, want)
			}
		})
	}
}
