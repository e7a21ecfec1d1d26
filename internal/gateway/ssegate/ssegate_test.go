package ssegate_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/ssegate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mount(s *gatetest.Server) *ssegate.Gateway {
	g := ssegate.New(ssegate.Config{Hub: s.Hub, Posting: s.Posting, Origins: s.Access, Reactor: s.Reactor, Log: s.Log})
	s.Mux.Handle("/v1/stream", g)
	return g
}

func start(t *testing.T) *gatetest.Server {
	return gatetest.Start(t, func(s *gatetest.Server) { mount(s) })
}

func TestGateway(t *testing.T) {
	gatetest.Run(t, gatetest.Gate{Mount: func(_ testing.TB, s *gatetest.Server) { mount(s) }, Dial: dial})
}

func TestObjectsInTheQuery(t *testing.T) {
	gatetest.RunByQuery(t, gatetest.Gate{Mount: func(_ testing.TB, s *gatetest.Server) { mount(s) }, Dial: dial})
}

func TestGatewayOverTLS(t *testing.T) {
	gatetest.Variant(t)
	gatetest.Run(t, gatetest.Gate{Dial: dial, Mount: func(_ testing.TB, s *gatetest.Server) {
		s.UseTLS(false)
		mount(s)
	}})
}

func TestGatewayOverHTTP2(t *testing.T) {
	gatetest.Variant(t)
	var gates sync.Map
	gatetest.Run(t, gatetest.Gate{
		Dial: dial,
		Mount: func(_ testing.TB, s *gatetest.Server) {
			s.UseTLS(true)
			gates.Store(s, mount(s))
		},
		Queued: func(s *gatetest.Server) int64 {
			g, _ := gates.Load(s)
			return g.(*ssegate.Gateway).Queued()
		},
	})
}

// client is a stream and the posts beside it.
type client struct {
	gatetest.Poster
	proto  string
	head   http.Header
	body   io.ReadCloser
	lines  *bufio.Reader
	cancel context.CancelFunc
}

func dial(t testing.TB, s *gatetest.Server, o gatetest.Options) (gatetest.Client, error) {
	return open(t, s, "", o)
}

func open(t testing.TB, s *gatetest.Server, more string, o gatetest.Options) (*client, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	q := o.Query()
	if more != "" {
		q.Set(more, "x")
	}
	resp, err := s.Get(ctx, "/v1/stream", q)
	if err != nil {
		cancel()
		return nil, err
	}
	return &client{
		Poster: gatetest.Poster{Server: s}, proto: resp.Proto, head: resp.Header, body: resp.Body,
		lines: bufio.NewReader(resp.Body), cancel: cancel,
	}, nil
}

func (c *client) Next(ctx context.Context) (string, error) {
	if f, ok := c.Kept(); ok {
		return f, nil
	}
	defer context.AfterFunc(ctx, c.cancel)()
	event, data := "", ""
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case field == "event":
			event = value
		case field == "data":
			data += value
		case line == "\n" && event != "":
			f := fmt.Sprintf(`{%q:%s}`, event, data)
			if event == "welcome" {
				var w struct{ Session string }
				if err := json.Unmarshal([]byte(data), &w); err != nil {
					return "", err
				}
				c.Session = w.Session
			}
			return f, nil
		case field == "id", strings.HasPrefix(line, ":"), line == "\n":
		default:
			return "", fmt.Errorf("unexpected line %q", line)
		}
	}
}

func (c *client) Close() {
	c.cancel()
	_ = c.body.Close()
}

func TestStreamHasTheHeadersOfEventStreams(t *testing.T) {
	s := start(t)
	c, err := open(t, s, "", gatetest.Options{Recipient: "driver-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
		if got := c.head.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestOriginsAreChecked(t *testing.T) {
	s := start(t)
	do := func(method, path, origin string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", origin)
		resp, err := s.HTTP.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp
	}
	const path = "/v1/stream?app=demo&recipient=driver-1"
	if resp := do(http.MethodGet, path, "https://evil.example"); resp.StatusCode != http.StatusForbidden || resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a foreign page gets %d", resp.StatusCode)
	}
	if resp := do(http.MethodGet, path, s.URL); resp.StatusCode != http.StatusOK || resp.Header.Get("Access-Control-Allow-Origin") != s.URL {
		t.Errorf("an own page gets %d, origin %q", resp.StatusCode, resp.Header.Get("Access-Control-Allow-Origin"))
	}
	for _, path := range []string{path, "/v1/frames"} {
		resp := do(http.MethodOptions, path, s.URL)
		if resp.StatusCode != http.StatusNoContent || !strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "Content-Type") {
			t.Errorf("a preflight of %s gets %d, %v", path, resp.StatusCode, resp.Header)
		}
	}
}

func TestBadQueryIsRefusedByName(t *testing.T) {
	s := start(t)
	for query, field := range map[string]string{"?recipient=a%2Fb": "recipient", "?window=0": "window", "?heartbeat=soon": "heartbeat"} {
		resp, err := s.HTTP.Client().Get(s.URL + "/v1/stream" + query)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s, want 400 of %s", query, resp.StatusCode, body, field)
		}
	}
}

func TestClosingTheStreamEndsTheSession(t *testing.T) {
	s := start(t)
	c, err := open(t, s, "", gatetest.Options{Recipient: "driver-1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	s.Gone(t)
	var refused *gatetest.Refused
	if err := c.Send(t.Context(), `{"ping":{}}`); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("posting to a session that is over gives %v, want 404", err)
	}
}

func TestAStreamOutlivesItsHeartbeats(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two heartbeats, which are 5 s at least")
	}
	t.Parallel()
	s := start(t)
	q := gatetest.Options{Recipient: "driver-1"}.Query()
	q.Set("heartbeat", "5s") // the shortest; silent for two the session would end
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	resp, err := s.Get(ctx, "/v1/stream", q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for comments := 0; comments < 2; { // by then a session that is not kept alive has ended
		if !lines.Scan() {
			t.Fatalf("the stream ended after %d comments: %v", comments, lines.Err())
		}
		if strings.HasPrefix(lines.Text(), "event: goodbye") {
			t.Fatal("the session was ended although its client is there")
		}
		if lines.Text() == ":" {
			comments++
		}
	}
}

func TestGatewayOnTwoNodes(t *testing.T) {
	gatetest.RunOnTwo(t, gatetest.Gate{Mount: func(_ testing.TB, s *gatetest.Server) { mount(s) }, Dial: dial})
}
