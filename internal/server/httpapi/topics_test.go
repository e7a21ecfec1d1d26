package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/messaging/topic"
)

// topics is a bus that records what is published.
type topics struct {
	mu   sync.Mutex
	got  []topic.Message
	apps []string
	down bool
}

func (b *topics) Publish(_ context.Context, app string, m topic.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return topic.ErrUnavailable
	}
	b.got, b.apps = append(b.got, m), append(b.apps, app)
	return nil
}

func (b *topics) Subscribe(string, string, string, func(topic.Message), func(int)) (func(), error) {
	return func() {}, nil
}

// withTopics starts an API whose topics use a bus that the test can read.
func withTopics(t *testing.T, change ...func(*setup)) (*world, *topics) {
	bus := &topics{}
	svc := pubsub.New(pubsub.Config{Bus: bus})
	t.Cleanup(func() { _ = svc.Close() })
	change = append(change, func(c *setup) { c.Topics = svc })
	return newWorld(t, change...), bus
}

func TestAMessageIsPublishedAsItIs(t *testing.T) {
	w, bus := withTopics(t)
	body := "\x00\xff\r\n" + strings.Repeat("x", topic.MaxData-4)
	a := w.do(request{method: "POST", path: "/v1/topics/rides.oslo", body: body, header: map[string]string{
		"Content-Type": "image/x; a=b", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}}).want(http.StatusAccepted)
	if a.body != "" {
		t.Errorf("answered with %q, want nothing", a.body)
	}
	w.do(request{method: "POST", path: "/v1/topics/users.anna%252Esmith", key: w.keys["publish"]}).want(http.StatusAccepted)
	if len(bus.got) != 2 {
		t.Fatalf("%d messages, want 2", len(bus.got))
	}
	m := bus.got[0]
	if bus.apps[0] != "shop" || m.Subject != "t.rides.oslo" || string(m.Data) != body || m.Header.Get("Content-Type") != "image/x; a=b" ||
		!strings.HasPrefix(m.Header.Get("traceparent"), "00-0af") {
		t.Errorf("published %s of %s with %v, %d bytes", m.Subject, bus.apps[0], m.Header, len(m.Data))
	}
	if m := bus.got[1]; m.Subject != "t.users.anna%2Esmith" || len(m.Data) != 0 || len(m.Header) != 0 {
		t.Errorf("published %+v", m)
	}
}

func TestBadMessagesAreRefused(t *testing.T) {
	w, bus := withTopics(t)
	post := func(path string) answer { return w.do(request{method: "POST", path: path, body: "x"}) }
	for path, says := range map[string]string{
		"/v1/topics/a..b": "empty token", "/v1/topics/.a": "empty token", "/v1/topics/a.*": "allowed", "/v1/topics/a.%3E": "allowed",
		"/v1/topics/*x": "allowed", "/v1/topics/a%01": "allowed", "/v1/topics/a%0D%0APUB%20x": "allowed", "/v1/topics/a%20b": "allowed",
		"/v1/topics/" + strings.Repeat("a.", 16) + "a": "16 tokens", "/v1/topics/" + strings.Repeat("a", 256): "255",
	} {
		if a := post(path).problem(http.StatusBadRequest, "bad-input", "topic"); !strings.Contains(a.Detail, says) {
			t.Errorf("%s is refused with %s, want %q", path, a.Detail, says)
		}
	}
	w.do(request{method: "POST", path: "/v1/topics/a", header: map[string]string{"Content-Type": strings.Repeat("x", 129)}}).
		problem(http.StatusBadRequest, "bad-input", "content_type")
	w.do(request{method: "POST", path: "/v1/topics/a", body: strings.Repeat("x", topic.MaxData+1)}).problem(http.StatusRequestEntityTooLarge, "too-large", "")
	w.do(request{method: "POST", path: "/v1/topics/a?queue=x", body: "x"}).problem(http.StatusBadRequest, "bad-input", "queue")
	w.do(request{method: "POST", path: "/v1/topics/a", body: "x", key: w.keys["read"]}).problem(http.StatusForbidden, "forbidden", "")
	w.do(request{method: "POST", path: "/v1/topics/a", body: "x", key: w.keys["worker"]}).problem(http.StatusForbidden, "forbidden", "")
	w.do(request{method: "POST", path: "/v1/topics/a", body: "x", key: "-"}).problem(http.StatusUnauthorized, "unauthenticated", "")
	w.do(request{method: "GET", path: "/v1/topics/a"}).problem(http.StatusMethodNotAllowed, "method-not-allowed", "")
	bus.down = true
	post("/v1/topics/a").problem(http.StatusServiceUnavailable, "bus-unavailable", "")
	if len(bus.got) > 0 {
		t.Errorf("%d messages were published all the same", len(bus.got))
	}
}

func TestMessagesCountAgainstTheKeysBudget(t *testing.T) {
	w, bus := withTopics(t, func(c *setup) {
		c.PublishLimit = func(string, int) time.Duration { return time.Second }
	})
	w.do(request{method: "POST", path: "/v1/topics/a", body: "x"}).problem(http.StatusTooManyRequests, "rate-limited", "")
	if len(bus.got) > 0 {
		t.Error("it was published all the same")
	}
}
