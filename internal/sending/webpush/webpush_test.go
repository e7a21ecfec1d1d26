package webpush_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/internal/sending/webpush"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newKey(t testing.TB) *webpush.Key {
	t.Helper()
	k, err := webpush.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// start starts a push service and a sender with its credentials.
func start(t testing.TB, change ...func(*webpush.Config)) (*pushserver.Server, *webpush.Sender) {
	t.Helper()
	key := newKey(t)
	server := pushserver.Start(pushserver.Options{Public: key.Public()})
	t.Cleanup(server.Close)
	client := server.Trust(provider.Client(urlguard.All))
	t.Cleanup(client.CloseIdleConnections)
	cfg := webpush.Config{Key: key, Subject: "mailto:ops@example.org", Targets: urlguard.All, Client: client}
	for _, f := range change {
		f(&cfg)
	}
	s, err := webpush.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return server, s
}

func TestConformance(t *testing.T) {
	behaviours := map[sendertest.Situation]pushserver.Behaviour{
		sendertest.Accepts: pushserver.Accepting, sendertest.Gone: pushserver.Gone,
		sendertest.TooMany:    {Status: http.StatusTooManyRequests, RetryAfter: 7 * time.Second},
		sendertest.Overloaded: pushserver.Unavailable, sendertest.Fails: pushserver.Failing,
		sendertest.Refuses: {Status: http.StatusUnsupportedMediaType}, sendertest.Denies: {Status: http.StatusForbidden, Body: "crypto-key header had invalid format"},
		sendertest.Redirects: {Status: http.StatusTemporaryRedirect}, sendertest.Babbles: {Status: http.StatusBadGateway, Body: "<html>bad gateway</html>"},
		sendertest.Hangs: pushserver.Hung, sendertest.Breaks: pushserver.Broken,
	}
	sendertest.Run(t, sendertest.Suite{Outcomes: map[sendertest.Situation]sendertest.Outcome{
		sendertest.TooMany: sendertest.RetryWho, sendertest.Overloaded: sendertest.RetryWho, sendertest.Denies: sendertest.Objects,
	}, New: func(t *testing.T) *sendertest.Bed {
		server, s := start(t)
		id, address := server.Subscribe(pushserver.Accepting)
		var sub struct {
			Endpoint string
			Keys     struct{ Auth string }
		}
		if err := json.Unmarshal(address, &sub); err != nil {
			t.Fatal(err)
		}
		return &sendertest.Bed{
			Sender: s, Scope: server.URL, Secrets: []string{"/push/" + id, sub.Keys.Auth, "vapid t="},
			Put: func(situation sendertest.Situation) bool {
				if situation == sendertest.Unreachable {
					server.Close()
					return true
				}
				b, ok := behaviours[situation]
				server.Behave(id, b)
				return ok
			},
			Request: func(id string) push.Request {
				return push.Request{ID: id, App: "shop", Address: address, Content: push.Content{Title: "Hi"}}
			},
			Took: func() int { return len(server.Received(id)) },
		}
	}})
}

// last returns the only or last message that an endpoint received, with its payload.
func last(t *testing.T, server *pushserver.Server, id string) (pushserver.Message, map[string]any) {
	t.Helper()
	got := server.Received(id)
	if len(got) == 0 {
		t.Fatal("no message came")
	}
	m := got[len(got)-1]
	plain, err := m.Payload()
	if err != nil {
		t.Fatal(err)
	}
	var p map[string]any
	if err := json.Unmarshal(plain, &p); err != nil {
		t.Fatalf("%s: %v", plain, err)
	}
	return m, p
}

func TestBrowserGetsWhatTheReferenceSays(t *testing.T) {
	server, s := start(t, func(c *webpush.Config) { c.Server = "https://godwit.example" })
	id, address := server.Subscribe(pushserver.Accepting)
	r := push.Request{
		ID: "d-1", GodwitID: "n-1", Address: address, Urgency: push.UrgencyHigh, ExpiresAt: time.Now().Add(time.Hour), Track: "signed", AckToken: "ack", Settle: "shown",
		Content: push.Content{
			Title: "<Hi> & bye", Body: "b", Icon: "https://i", Image: "https://p", URL: "https://u", Category: "c", Data: json.RawMessage(`{"a":1}`),
			WebPush: push.WebPushContent{RequireInteraction: true, Actions: []push.Action{{Action: "go", Title: "Go", URL: "https://g"}}},
		},
	}
	if _, err := s.Send(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	m, p := last(t, server, id)
	want := map[string]any{
		"id": "d-1", "godwit_id": "n-1", "title": "<Hi> & bye", "body": "b", "icon": "https://i", "image": "https://p", "url": "https://u",
		"category": "c", "data": map[string]any{"a": 1.0}, "actions": []any{map[string]any{"action": "go", "title": "Go", "url": "https://g"}},
		"require_interaction": true, "tag": "n-1", "track": "signed", "godwit_ack": "ack", "godwit_settle": "shown", "server": "https://godwit.example",
		"extra": map[string]any{"url_to_open": "https://u"},
	}
	if fmt.Sprint(p) != fmt.Sprint(want) {
		t.Errorf("payload\n%v, want\n%v", p, want)
	}
	if m.Urgency != "high" || m.TTL != "3600" && m.TTL != "3599" || m.Proto != 2 {
		t.Errorf("urgency %s, TTL %s, HTTP/%d", m.Urgency, m.TTL, m.Proto)
	}
}

// UnifiedPush gives an app a subscription whose endpoint has a query, like https://ntfy.sh/upAbC123?up=1.
func TestAnEndpointOfUnifiedPushIsAnEndpoint(t *testing.T) {
	server, s := start(t)
	id, address := server.Subscribe(pushserver.Accepting)
	address = json.RawMessage(strings.Replace(string(address), "/push/"+id, "/push/"+id+"?up=1&x=a%2Fb", 1))
	normal, err := audience.NormalAddress(push.WebPush, address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Send(t.Context(), push.Request{ID: "d", Address: normal, Content: push.Content{Title: "Hi"}}); err != nil {
		t.Fatal(err)
	}
	m, p := last(t, server, id)
	if m.URI != "/push/"+id+"?up=1&x=a%2Fb" || p["title"] != "Hi" {
		t.Errorf("%s got %v", m.URI, p)
	}
	if got := s.Pace(normal).Scope; got != server.URL {
		t.Errorf("paced in %s", got)
	}
}

func TestRecallReplacesAndClosesTheSameTag(t *testing.T) {
	server, s := start(t)
	id, address := server.Subscribe(pushserver.Accepting)
	r := push.Request{ID: "d-1", Address: address, Content: push.Content{Title: "secret"}, ExpiresAt: time.Now().Add(time.Minute)}
	if _, err := s.Send(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	sent, shown := last(t, server, id)
	if errs := s.Recall(t.Context(), []push.Sent{{Request: r}}); len(errs) != 1 || errs[0] != nil {
		t.Fatal(errs)
	}
	m, p := last(t, server, id)
	if m.Topic != sent.Topic || p["tag"] != shown["tag"] || p["recall"] != true || p["title"] != "" {
		t.Errorf("topic %q then %q, payload %v", sent.Topic, m.Topic, p)
	}
	if m.TTL == sent.TTL {
		t.Errorf("the recall lives only %s s: it may miss a device that saw the message", m.TTL)
	}
	server.Behave(id, pushserver.Gone)
	var gone *push.GoneError
	if errs := s.Recall(t.Context(), []push.Sent{{Request: r}}); !errors.As(errs[0], &gone) {
		t.Errorf("recall at an ended subscription: %v", errs)
	}
}

func TestTopicFollowsTheCollapseKey(t *testing.T) {
	server, s := start(t)
	id, address := server.Subscribe(pushserver.Accepting)
	topics := map[string]string{}
	for _, c := range []struct{ id, collapse string }{{"a", ""}, {"a", ""}, {"b", ""}, {"c", "k"}, {"d", "k"}, {"e", strings.Repeat("long/", 50)}} {
		if _, err := s.Send(t.Context(), push.Request{ID: c.id, Collapse: c.collapse, Address: address}); err != nil {
			t.Fatal(err)
		}
		m, _ := last(t, server, id)
		if before := topics[c.id+c.collapse]; before != "" && before != m.Topic {
			t.Errorf("%v had topic %s, now %s", c, before, m.Topic)
		}
		topics[c.id+c.collapse] = m.Topic
	}
	if topics["ck"] != topics["dk"] || topics["a"] == topics["b"] || topics["a"] == "" {
		t.Errorf("topics %v", topics)
	}
}

func TestLengthIsHiddenAndBounded(t *testing.T) {
	server, s := start(t)
	id, address := server.Subscribe(pushserver.Accepting)
	sizes := map[int]bool{}
	send := func(n int) error {
		_, err := s.Send(t.Context(), push.Request{ID: "x", Address: address, Content: push.Content{Body: strings.Repeat("b", n)}})
		return err
	}
	for _, n := range []int{0, 1, 100, 500, 1000, 2000, 3000, 3800} {
		if err := send(n); err != nil {
			t.Fatal(err)
		}
		m, p := last(t, server, id)
		sizes[len(m.Body)] = true
		if got := len(p["body"].(string)); got != n {
			t.Errorf("body of %d bytes, sent %d", got, n)
		}
	}
	if len(sizes) != 7 || !sizes[256] || !sizes[2048] || !sizes[3052] {
		t.Errorf("bodies of %v bytes", sizes)
	}
	for fits := 3800; send(fits+1) == nil; fits++ {
	}
	m, _ := last(t, server, id)
	plain, err := m.Payload()
	if err != nil || len(plain) != 3993 {
		t.Errorf("the longest payload has %d bytes, want 3993: %v", len(plain), err)
	}
	var permanent *push.PermanentError
	if err := send(4000); !errors.As(err, &permanent) || !strings.Contains(err.Error(), "3993") {
		t.Errorf("too long: %v", err)
	}
}

func TestTokenIsReusedForHoursAndAConnectionForAll(t *testing.T) {
	now := time.Now()
	server, s := start(t, func(c *webpush.Config) { c.Now = func() time.Time { return now } })
	id, address := server.Subscribe(pushserver.Accepting)
	var wg sync.WaitGroup
	send := func() {
		if _, err := s.Send(t.Context(), push.Request{ID: "x", Address: address}); err != nil {
			t.Error(err)
		}
	}
	send()
	for range 50 {
		wg.Go(send)
	}
	wg.Wait()
	now = now.Add(7 * time.Hour)
	send()
	if n := server.Tokens(); n != 1 {
		t.Errorf("%d tokens within 7 hours", n)
	}
	now = now.Add(2 * time.Hour)
	send()
	if n := server.Tokens(); n != 2 {
		t.Errorf("%d tokens after 9 hours, want a second", n)
	}
	if n := server.Connections(); n > 2 {
		t.Errorf("%d connections", n)
	}
	if n := len(server.Received(id)); n != 53 {
		t.Errorf("%d messages", n)
	}
}

func TestPrivateAddressesAreNotSentTo(t *testing.T) {
	server, _ := start(t)
	_, address := server.Subscribe(pushserver.Accepting)
	client := server.Trust(provider.Client(urlguard.Targets{}))
	defer client.CloseIdleConnections()
	s, err := webpush.New(webpush.Config{Key: newKey(t), Client: client})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{
		string(address), strings.Replace(string(address), "127.0.0.1", "localhost", 1), strings.Replace(string(address), "https", "http", 1),
		strings.Replace(string(address), "127.0.0.1", "[::ffff:127.0.0.1]", 1),
	} {
		_, err := s.Send(t.Context(), push.Request{ID: "x", Address: json.RawMessage(a)})
		var permanent *push.PermanentError
		if !errors.As(err, &permanent) {
			t.Errorf("%s: %v", a, err)
		}
	}
	if n := server.Requests(); n != 0 {
		t.Errorf("%d requests reached it", n)
	}
}

func TestRetryAfterAsDateAndNonsense(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, " 5 ": 5 * time.Second, "-5": 0, "soon": 0, "99999999": 24 * time.Hour, "1e3": 0,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sun, 01 Mar 2026 11:00:00 GMT": 0,
	} {
		if got := provider.RetryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

// The fast server for measurements checks messages as strictly as the other one.
func TestAPushServiceForLoadChecksAsEver(t *testing.T) {
	key := newKey(t)
	for public, accepts := range map[string]bool{key.Public(): true, newKey(t).Public(): false} {
		server := pushserver.Start(pushserver.Options{Quick: true, Public: public})
		defer server.Close()
		client := server.Trust(provider.Client(urlguard.All))
		defer client.CloseIdleConnections()
		s, err := webpush.New(webpush.Config{Key: key, Targets: urlguard.All, Client: client})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		id, address := server.Subscribe(pushserver.Accepting)
		_, err = s.Send(t.Context(), push.Request{ID: "x", Address: address})
		if (err == nil) != accepts || (server.AcceptedBy(id) == 1) != accepts || (server.Accepted() == 1) != accepts {
			t.Errorf("accepted %d, %v; want accepted %t", server.Accepted(), err, accepts)
		}
		_, address = server.Subscribe(pushserver.Gone)
		var gone *push.GoneError
		if _, err := s.Send(t.Context(), push.Request{ID: "x", Address: address}); !errors.As(err, &gone) {
			t.Errorf("gone: %v", err)
		}
	}
}
