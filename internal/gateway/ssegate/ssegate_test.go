package ssegate_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/ssegate"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/narrow"
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
	gatetest.RunCarried(t, gatetest.Gate{Dial: dial, Mount: func(_ testing.TB, s *gatetest.Server) {
		s.UseTLS(false)
		mount(s)
	}})
}

func TestGatewayOverHTTP2(t *testing.T) {
	var gates sync.Map
	gatetest.RunCarried(t, gatetest.Gate{
		Dial:    dial,
		Buffers: 4 << 20, // net/http's window of a stream
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

// client is a stream, and the posts of its client.
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
		case field == "id", field == "retry", strings.HasPrefix(line, ":"), line == "\n":
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
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"} {
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
	q.Set("heartbeat", "5s") // the shortest heartbeat; a session that is silent for two of them ends
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	resp, err := s.Get(ctx, "/v1/stream", q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for comments := 0; comments < 2; { // after two comments, a session that is not kept alive would have ended
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
	gatetest.RunAgainOnTwo(t, gatetest.Gate{Mount: func(_ testing.TB, s *gatetest.Server) { mount(s) }, Dial: dial})
}

// An EventSource never connects again after a status other than 200.
func TestRefusalsThatPassAreStreamsThatSayWhenToComeBack(t *testing.T) {
	s := start(t)
	s.Stop(t)
	resp, err := s.HTTP.Client().Get(s.URL + "/v1/stream?app=demo&recipient=driver-1")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("answered %d %s, %v; want a stream that ends", resp.StatusCode, resp.Header.Get("Content-Type"), err)
	}
	if text := string(body); !regexp.MustCompile(`(?m)^retry: \d+\nevent: goodbye\ndata: {"reason":"shutdown"`).MatchString(text) {
		t.Errorf("the stream is %q, want retry and a goodbye", text)
	}
	resp, err = s.HTTP.Client().Get(s.URL + "/v1/stream?app=demo&recipient=driver-1&window=0")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a request that will never do is answered %d, want 400", resp.StatusCode)
	}
}

func TestHTTP10StreamsAreServedOnTheReactor(t *testing.T) {
	s := start(t)
	nc, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, "GET /v1/stream?app=demo&recipient=driver-1 HTTP/1.0\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(nc)
	for lines.Scan() && lines.Text() != "event: welcome" {
	}
	if err := lines.Err(); err != nil || lines.Text() != "event: welcome" {
		t.Fatalf("the stream is %q, %v; want a welcome", lines.Text(), err)
	}
	if n := s.Reactor.Stats().Connections; n != 1 {
		t.Errorf("%d connections are on the reactor, want the stream's", n)
	}
}

// A peer with a full window acknowledges nothing more, just like one whose machine is gone: bytes in the kernel's buffer do not show that
// it is alive.
func TestAPeerThatTakesNothingIsNoticedWithinTwoHeartbeats(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two heartbeats, which are 5 s at least")
	}
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[http2], func(t *testing.T) {
			t.Parallel()
			s := gatetest.Start(t, func(s *gatetest.Server) {
				if http2 {
					s.UseTLS(true)
				}
				mount(s)
			})
			stands := make(chan struct{})
			tr := s.HTTP.Client().Transport.(*http.Transport).Clone()
			tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := narrow.Dialer().DialContext(ctx, network, addr)
				return &stoppable{Conn: nc, stands: stands, closed: make(chan struct{})}, err
			}
			defer tr.CloseIdleConnections()
			q := gatetest.Options{Recipient: "driver-1"}.Query()
			q.Set("heartbeat", "5s")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/v1/stream?"+q.Encode(), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "retry:") {
				t.Fatalf("the stream begins with %q, %v", line, err)
			}
			close(stands)
			s.Send(t, notification.Draft{To: []string{"driver-1"}, Content: notification.Content{Title: "large", Data: []byte(strconv.Quote(strings.Repeat("x", 24<<10))), ContentType: "application/json"}})
			s.Gone(t) // fails if it takes too long
		})
	}
}

// stoppable is a connection that nobody reads while its owner is suspended.
type stoppable struct {
	net.Conn
	stands, closed chan struct{}
	once           sync.Once
}

func (s *stoppable) Read(b []byte) (int, error) {
	select {
	case <-s.stands:
		<-s.closed
		return 0, net.ErrClosed
	default:
		return s.Conn.Read(b)
	}
}

func (s *stoppable) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

func TestLastEventIDAcknowledgesNothing(t *testing.T) {
	s := start(t)
	s.Send(t, notification.Draft{To: []string{"driver-1"}, ID: "ride-1", Content: notification.Content{Title: "x"}})
	for _, id := range []string{"1", "99", "no number"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/stream?app=demo&recipient=driver-1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Last-Event-ID", id)
		resp, err := s.HTTP.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() && !strings.Contains(lines.Text(), `"id":"ride-1"`) {
		}
		if !strings.Contains(lines.Text(), `"id":"ride-1"`) {
			t.Errorf("Last-Event-ID %s: the stream ended without the notification: %v", id, lines.Err())
		}
		_ = resp.Body.Close()
	}
}
