package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/test/blackbox"
)

// stream has the topics of the messages that a subscriber gets; refused: the server did not accept the subscriber.
type stream struct {
	topics  chan string
	refused bool
}

// subscribers are the ways to subscribe. Each subscribes with a client's token until its test ends.
var subscribers = []struct {
	name      string
	subscribe func(w *rightsWorld, token string, patterns []string, queue string) *stream
}{{"WebSocket", webSocket}, {"gRPC", grpcStream}, {"SSE", serverSent}, {"poll", longPoll}, {"NATS", natsSubscriber}}

// topicPublishers are the ways to publish. They report whether the server permitted the publish.
var topicPublishers = []struct {
	name    string
	publish func(w *rightsWorld, secret, name string) bool
}{{"HTTP", httpPublish}, {"gRPC", rpcPublish}, {"NATS", natsPublish}}

// fences are topics to which everybody may subscribe: messages published before a fence's message arrive before it.
const fences = "fence"

var fenced atomic.Int64

// in returns the world for a subtest, with fences of its own.
func (w *rightsWorld) in(t *testing.T) *rightsWorld {
	x := *w
	x.T, x.number = t, fenced.Add(1)
	return &x
}

func (w *rightsWorld) fence(rest string) string {
	return fmt.Sprintf("%s.%d.%s", fences, w.number, rest)
}

// queue returns a queue name of this test alone, since members of the previous test may still be in theirs. An empty name stays empty.
func (w *rightsWorld) queue(name string) string {
	if name == "" {
		return ""
	}
	return w.fence(name)
}

// wait waits until a subscription is in effect.
func (w *rightsWorld) wait(s *stream) {
	w.Helper()
	if s.refused {
		return
	}
	ctx, cancel := w.patiently()
	defer cancel()
	for {
		w.publish(w.fence("ready"))
		select {
		case name := <-s.topics:
			if name == w.fence("ready") {
				return
			}
		case <-ctx.Done():
			w.Fatal("subscribed to nothing")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// until collects the messages that have arrived so far.
func (w *rightsWorld) until(s *stream) map[string]bool {
	w.Helper()
	got := make(map[string]bool)
	if s.refused {
		return got
	}
	w.publish(w.fence("end"))
	ctx, cancel := w.patiently()
	defer cancel()
	again := time.NewTicker(time.Second) // repeated: a subscriber that has not fetched a large message yet gets a gap instead of the last message
	defer again.Stop()
	for {
		select {
		case <-again.C:
			w.publish(w.fence("end"))
		case name := <-s.topics:
			if name == w.fence("end") {
				return got
			}
			got[name] = true
		case <-ctx.Done():
			w.Fatal("the last message did not come")
		}
	}
}

func newStream() *stream { return &stream{topics: make(chan string, 1000)} }

// heard records a JSON frame.
func (s *stream) heard(frame []byte) {
	var f struct{ Message struct{ Topic string } }
	if json.Unmarshal(frame, &f) == nil && f.Message.Topic != "" {
		s.topics <- f.Message.Topic
	}
}

func webSocket(w *rightsWorld, token string, patterns []string, queue string) *stream {
	ctx, cancel := context.WithCancel(w.Context())
	subscribe, _ := json.Marshal(map[string]any{"subscribe": map[string]any{"topics": patterns, "queue": queue}})
	ws := webSocketSession(ctx, w, token, string(subscribe))
	s, done := newStream(), make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, b, err := ws.Read(ctx)
			if err != nil {
				return
			}
			s.heard(b)
		}
	}()
	w.Cleanup(func() { cancel(); <-done; _ = ws.CloseNow() })
	return s
}

// webSocketSession connects, and sends a hello and one more frame.
func webSocketSession(ctx context.Context, w *rightsWorld, token, frame string) *websocket.Conn {
	ws, _, err := websocket.Dial(ctx, "ws://"+w.http+"/v1/connect", nil) // none on success
	if err != nil {
		w.Fatal(err)
	}
	ws.SetReadLimit(1 << 20) // messages of topics have up to 64 KB, and are longer in JSON
	for _, f := range []string{fmt.Sprintf(`{"hello":{"token":%q}}`, token), frame} {
		if err := ws.Write(ctx, websocket.MessageText, []byte(f)); err != nil {
			w.Fatal(err)
		}
	}
	return ws
}

// grpcSession connects, and sends a hello and one more frame.
func grpcSession(ctx context.Context, w *rightsWorld, token string, frame *godwitpb.ClientFrame) (*grpc.ClientConn, godwitpb.Client_ConnectClient) {
	cc, err := grpc.NewClient(w.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.Fatal(err)
	}
	st, err := godwitpb.NewClientClient(cc).Connect(ctx)
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range []*godwitpb.ClientFrame{{Frame: &godwitpb.ClientFrame_Hello{Hello: &godwitpb.Hello{Token: token}}}, frame} {
		if err := st.Send(f); err != nil {
			w.Fatal(err)
		}
	}
	return cc, st
}

func grpcStream(w *rightsWorld, token string, patterns []string, queue string) *stream {
	ctx, cancel := context.WithCancel(w.Context())
	cc, st := grpcSession(ctx, w, token, &godwitpb.ClientFrame{Frame: &godwitpb.ClientFrame_Subscribe{Subscribe: &godwitpb.Subscribe{Topics: patterns, Queue: queue}}})
	s, done := newStream(), make(chan struct{})
	go func() {
		defer close(done)
		for {
			f, err := st.Recv()
			if err != nil {
				return
			}
			if m := f.GetMessage(); m.GetTopic() != "" {
				s.topics <- m.GetTopic()
			}
		}
	}()
	w.Cleanup(func() { cancel(); <-done; _ = cc.Close() })
	return s
}

func topicQuery(token string, patterns []string, queue string) string {
	q := url.Values{"app": {"demo"}, "token": {token}}
	if len(patterns) > 0 {
		q.Set("topics", strings.Join(patterns, ","))
	}
	if queue != "" {
		q.Set("queue", queue)
	}
	return q.Encode()
}

func serverSent(w *rightsWorld, token string, patterns []string, queue string) *stream {
	ctx, cancel := context.WithCancel(w.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.http+"/v1/stream?"+topicQuery(token, patterns, queue), nil)
	if err != nil {
		w.Fatal(err)
	}
	resp, err := (&http.Client{Transport: w.client.Transport}).Do(req)
	if err != nil {
		w.Fatal(err)
	}
	s, done := newStream(), make(chan struct{})
	s.refused = resp.StatusCode != http.StatusOK
	go func() {
		defer close(done)
		lines, name := bufio.NewScanner(resp.Body), ""
		for lines.Buffer(nil, 1<<20); lines.Scan(); {
			if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = event
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				s.heard(fmt.Appendf(nil, "{%q:%s}", name, data))
			}
		}
	}()
	w.Cleanup(func() { cancel(); <-done; resp.Body.Close() })
	return s
}

func longPoll(w *rightsWorld, token string, patterns []string, queue string) *stream {
	ctx, cancel := context.WithCancel(w.Context())
	s, done, first := newStream(), make(chan struct{}), make(chan bool, 1)
	go func() {
		defer close(done)
		for session, told := "", false; ctx.Err() == nil; told = true {
			status, answer, err := w.ask(ctx, "/v1/poll?wait=5s&session="+session+"&"+topicQuery(token, patterns, queue))
			if !told {
				first <- err == nil && status == http.StatusOK
			}
			var polled struct {
				Session string
				Frames  []json.RawMessage
			}
			if err != nil || json.Unmarshal(answer, &polled) != nil || polled.Session == "" {
				return
			}
			session = polled.Session
			for _, f := range polled.Frames {
				s.heard(f)
			}
		}
	}()
	w.Cleanup(func() { cancel(); <-done })
	s.refused = !<-first
	return s
}

func natsSubscriber(w *rightsWorld, secret string, patterns []string, queue string) *stream {
	nc, err := nats.Connect("nats://"+w.nats, nats.Token(secret), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(nc.Close)
	s, done, came := newStream(), make(chan struct{}), make(chan *nats.Msg, cap(newStream().topics))
	for _, p := range patterns {
		if _, err := nc.ChanQueueSubscribe("godwit.demo.t."+p, queue, came); err != nil { // one channel: in order
			w.Fatal(err)
		}
	}
	go func() {
		for {
			select {
			case m := <-came:
				s.topics <- strings.TrimPrefix(m.Subject, "godwit.demo.t.")
			case <-done:
				return
			}
		}
	}()
	w.Cleanup(func() { close(done) })
	return s
}

func httpPublish(w *rightsWorld, secret, name string) bool {
	w.Helper()
	status, _ := w.do(w.Context(), "POST", "/v1/topics/"+name, secret, []byte("x"))
	return status == http.StatusAccepted
}

func rpcPublish(w *rightsWorld, secret, name string) bool {
	w.Helper()
	cc := w.dialRPC()
	defer cc.Close()
	_, err := godwitpb.NewPublisherClient(cc).PublishMessage(withKey(w.Context(), secret), &godwitpb.PublishMessageRequest{Topic: name, Data: []byte("x")})
	return err == nil
}

func (w *rightsWorld) dialRPC() *grpc.ClientConn {
	w.Helper()
	cc, err := grpc.NewClient(w.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.Fatal(err)
	}
	return cc
}

func natsPublish(w *rightsWorld, secret, name string) bool {
	w.Helper()
	nc, err := nats.Connect("nats://"+w.nats, nats.Token(secret), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		w.Fatal(err)
	}
	defer nc.Close()
	if nc.Publish("godwit.demo.t."+name, []byte("x")) != nil || nc.FlushTimeout(blackbox.Patience) != nil {
		return false
	}
	return nc.LastError() == nil
}
