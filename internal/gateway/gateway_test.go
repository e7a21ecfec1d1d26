package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func welcomed(t *testing.T, s *gatetest.Server, f frame.Format, p *gateway.Pool) *gateway.PostingClient {
	t.Helper()
	return welcomedAs(t, s, &frame.Hello{App: gatetest.App, Recipient: "driver-1"}, f, p)
}

func welcomedAs(t *testing.T, s *gatetest.Server, hello *frame.Hello, f frame.Format, p *gateway.Pool) *gateway.PostingClient {
	t.Helper()
	l := gateway.Open(s.Hub, session.Peer{}, hello, "test", f, p)
	if bye, err := l.Await(t.Context()); bye != nil || err != nil {
		t.Fatalf("not welcomed: %v, %v", bye, err)
	}
	t.Cleanup(l.Hangup)
	return l
}

func start(t *testing.T) *gatetest.Server {
	return gatetest.Start(t, func(*gatetest.Server) {})
}

func TestNoMoreThanItsBoundWaitsForAPostingClient(t *testing.T) {
	s := start(t)
	b := gateway.NewPool(10, 1<<30)
	l := welcomed(t, s, frame.JSON, b)
	kb := make([]byte, 1<<10)
	n := 0
	for l.Write(frame.ServerNotification, kb, kb) {
		n++
	}
	if b.Used() > gateway.QueueBytes || n < 100 {
		t.Errorf("%d frames and %d bytes are queued, want about %d bytes", n, b.Used(), gateway.QueueBytes)
	}
	if items, _ := l.Take(); len(items) != n+1 || b.Used() != 0 {
		t.Errorf("took %d frames, %d bytes are left; want %d and 0", len(items), b.Used(), n+1)
	}
	if !l.Write(frame.ServerNotification, make([]byte, 1<<20), nil) {
		t.Error("an empty queue refused a big frame")
	}
	l.Hangup()
	if l.Write(frame.ServerNotification, kb, nil) || b.Used() != 0 {
		t.Errorf("a client that had hung up took a frame, or kept %d bytes", b.Used())
	}
}

func TestClientsOfAnAppShareWhatMayWait(t *testing.T) {
	s := start(t)
	b := gateway.NewPool(10, 16<<10)
	one, two := welcomed(t, s, frame.JSON, b), welcomed(t, s, frame.JSON, b)
	for one.Write(frame.ServerNotification, make([]byte, 1<<10), nil) {
		continue
	}
	if two.Write(frame.ServerNotification, make([]byte, 1<<10), nil) {
		t.Error("a client took a frame beyond what its app may have")
	}
	hello := &frame.Hello{App: "other", Recipient: "driver-1", Token: s.OtherApp(t, "other")}
	if other := welcomedAs(t, s, hello, frame.JSON, b); !other.Write(frame.ServerNotification, make([]byte, 1<<10), nil) {
		t.Error("the client of another app has no room")
	}
	one.Take()
	if !two.Write(frame.ServerNotification, make([]byte, 1<<10), nil) {
		t.Error("a client refused a frame although others made room")
	}
}

// outlet records what it gets.
type outlet struct {
	text   strings.Builder
	closed error
}

func (o *outlet) Write(head, tail []byte) bool {
	o.text.Write(head)
	o.text.Write(tail)
	return true
}
func (o *outlet) Queued() int               { return 0 }
func (o *outlet) Probe()                    {}
func (o *outlet) CloseAfterFlush(err error) { o.closed = err }

func TestAttachKeepsTheOrder(t *testing.T) {
	s := start(t)
	l := welcomed(t, s, frame.SSE, gateway.NewPool(10, 1<<20))
	l.Write(frame.ServerNotification, []byte("one "), []byte("two "))
	var o outlet
	l.Attach(&o, []byte("head "))
	l.Write(frame.ServerNotification, []byte("three "), nil)
	l.Close(frame.Goodbye{Reason: "test"})
	got := o.text.String()
	if !strings.HasPrefix(got, "head retry: ") || !strings.Contains(got, "\nevent: welcome\n") || !strings.HasSuffix(got, "\n\none two three ") || o.closed == nil {
		t.Errorf("the outlet got %q, closed %v", got, o.closed)
	}
}

func TestAPostWaitsWhileTheSessionIsPaused(t *testing.T) {
	s := start(t)
	l := welcomed(t, s, frame.JSON, gateway.NewPool(10, 1<<20))
	// The session resumes its transport some time after its welcome; a post that is answered shows that it has.
	if _, err := l.Post(t.Context(), []json.RawMessage{[]byte(`{"ping":{}}`)}); err != nil {
		t.Fatal(err)
	}
	l.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Post(ctx, []json.RawMessage{[]byte(`{"ping":{}}`)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a post to a paused session gives %v, want that it waits", err)
	}
	l.Resume()
	answers, err := l.Post(t.Context(), []json.RawMessage{[]byte(`{"ping":{}}`)})
	if err != nil || len(answers) != 1 || string(answers[0].Head) != `{"pong":{}}` {
		t.Errorf("the answers are %v, %v; want a pong", answers, err)
	}
}

func TestAnswersToPostsOfAnEventStreamAreJSON(t *testing.T) {
	s := start(t)
	l := welcomed(t, s, frame.SSE, gateway.NewPool(10, 1<<20))
	answers, err := l.Post(t.Context(), []json.RawMessage{[]byte(`{"ping":{}}`), []byte("{\"data: \\n\\nevent: y\":{}}")})
	if err != nil || len(answers) != 2 || string(answers[0].Head) != `{"pong":{}}` {
		t.Fatalf("the answers are %v, %v; want a pong and an error", answers, err)
	}
	var e struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(answers[1].Head, &e); err != nil || e.Error.Code != frame.CodeBadFrame || !strings.Contains(e.Error.Message, "data: ") {
		t.Errorf("the answer is %s, %v", answers[1].Head, err)
	}
}

func TestARefusalBecomesAnAnswer(t *testing.T) {
	for _, c := range []struct {
		bye    frame.Goodbye
		status int
		retry  string
	}{
		{frame.Goodbye{Reason: "unauthenticated", Refusal: true}, 401, ""},
		{frame.Goodbye{Reason: "forbidden", Refusal: true}, 403, ""},
		{frame.Goodbye{Reason: "unknown_app", Refusal: true}, 404, ""},
		{frame.Goodbye{Reason: "rate_limited", RetryAfter: 5 * time.Second}, 429, "5"},
		{frame.Goodbye{Reason: "auth_unavailable", RetryAfter: 5 * time.Second}, 503, "5"},
		{frame.Goodbye{Reason: "shutdown", RetryAfter: 1500 * time.Millisecond}, 503, "2"},
		{frame.Goodbye{Reason: "bad_field", Refusal: true}, 400, ""},
		{frame.Goodbye{Reason: "bad_hello", Refusal: true, Error: &frame.Error{Code: frame.CodeBadField, Field: "recipient"}}, 400, ""},
	} {
		w := httptest.NewRecorder()
		gateway.Fail(w, gateway.Refused(c.bye))
		if w.Code != c.status || w.Header().Get("Retry-After") != c.retry || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d, Retry-After %q; want %d, %q", c.bye.Reason, w.Code, w.Header().Get("Retry-After"), c.status, c.retry)
		}
	}
}
