package foreign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/bench/redispub"
)

// former is a stand-in for the replaced service: it treats Redis and clients as that service is known to, including its faults. It has no
// metrics and no quotes.
type former struct {
	auth   string // URL
	key    string // of the auth endpoint
	shards int

	mu      sync.Mutex
	redis   *redispub.Publisher
	clients map[string]*formerClient
}

// formerClient is a client with an open stream.
type formerClient struct {
	cursor string              // all entries up to this one were read
	stream *formerStream       // the newest
	seen   map[string]struct{} // ids of notifications that were read; a second entry with the same id is skipped
}

// formerStream is one connection of a client.
type formerStream struct {
	sent map[string]formerEntry // unacknowledged entries, by the notification's id
	out  chan payload
	done chan struct{}
}

type formerEntry struct {
	entry   string
	payload payload
	expires time.Time
	at      time.Time // when it was last sent
}

const (
	formerPoll   = 30 * time.Millisecond // the real service polls every 500 ms
	formerResend = time.Minute           // the real service resends every second; here it is long, so that no test depends on how soon a client acknowledges
	formerBuffer = 4096
	formerTokens = 86400 // seconds
)

// startFormer serves until the test ends, or stop is called, and returns its address.
func startFormer(t testing.TB, seeds []string, shards int, auth *authServer) (addr string, stop func()) {
	t.Helper()
	f := &former{auth: auth.URL, key: authKey, shards: shards, redis: redispub.NewPublisher(seeds, shards), clients: make(map[string]*formerClient)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.UnknownServiceHandler(f.serve))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f.poll(ctx) })
	wg.Go(func() { _ = srv.Serve(ln) })
	stop = sync.OnceFunc(func() {
		srv.Stop()
		cancel()
		wg.Wait()
		f.mu.Lock() // acknowledgements may still be under way
		defer f.mu.Unlock()
		f.redis.Close()
	})
	t.Cleanup(stop)
	return ln.Addr().String(), stop
}

func (f *former) serve(_ any, stream grpc.ServerStream) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	token := strings.Join(md.Get("token"), "")
	if token == "" {
		return status.Error(codes.InvalidArgument, "token is missing")
	}
	client, err := f.authenticate(stream.Context(), token)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	method, _ := grpc.MethodFromServerStream(stream)
	if method != streamPayload && method != serverStreamPayload {
		return status.Error(codes.Unimplemented, method)
	}
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	s := f.join(client)
	defer f.leave(client, s)
	if method == streamPayload {
		go f.acks(client, s, stream)
	}
	for {
		select {
		case p := <-s.out:
			if err := stream.SendMsg(payloadMessage(p)); err != nil {
				return err
			}
		case <-s.done: // a newer connection
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (f *former) acks(client string, s *formerStream, stream grpc.ServerStream) {
	for {
		m := message("NotificationAck")
		if stream.RecvMsg(m) != nil {
			return
		}
		f.ack(client, s, text(m, "id"))
	}
}

// authenticate looks a token up in Redis, and then at the auth endpoint.
func (f *former) authenticate(ctx context.Context, token string) (client string, err error) {
	f.mu.Lock()
	known, err := f.redis.Do(ctx, "NS:"+token, "GET", "NS:"+token)
	f.mu.Unlock()
	if client, ok := known.(string); ok && err == nil {
		return client, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.auth, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("token", token)
	req.Header.Set("api-key", f.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		DriverID string `json:"driverId"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&answer) != nil || answer.DriverID == "" {
		return "", errors.New("the token is not known")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err = f.redis.Do(ctx, "NS:"+token, "SET", "NS:"+token, answer.DriverID, "EX", fmt.Sprint(formerTokens))
	return answer.DriverID, err
}

// join registers a stream. A client's second stream gets the cursor of the first, but not the entries that the first has already read.
func (f *former) join(client string) *formerStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &formerStream{sent: make(map[string]formerEntry), out: make(chan payload, formerBuffer), done: make(chan struct{})}
	c := f.clients[client]
	if c == nil {
		c = &formerClient{cursor: "0-0", seen: make(map[string]struct{})}
		f.clients[client] = c
	} else {
		close(c.stream.done)
	}
	c.stream = s
	return s
}

func (f *former) leave(client string, s *formerStream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.clients[client]; c != nil && c.stream == s {
		delete(f.clients, client)
	}
}

func (f *former) ack(client string, s *formerStream, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := s.sent[id]; ok {
		delete(s.sent, id)
		key := redispub.Key(client, f.shards)
		_, _ = f.redis.Do(context.Background(), key, "XDEL", key, e.entry) // it comes again
	}
}

func (f *former) poll(ctx context.Context) {
	tick := time.NewTicker(formerPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.mu.Lock()
		for client, c := range f.clients {
			f.read(ctx, client, c)
		}
		f.mu.Unlock()
	}
}

// read reads a client's new entries, and sends unacknowledged ones again.
func (f *former) read(ctx context.Context, client string, c *formerClient) {
	key := redispub.Key(client, f.shards)
	for id, e := range c.stream.sent {
		if time.Now().After(e.expires) {
			delete(c.stream.sent, id)
			_, _ = f.redis.Do(ctx, key, "XDEL", key, e.entry) // it comes again
			continue
		}
		if time.Since(e.at) > formerResend {
			e.at = time.Now()
			c.stream.sent[id] = e
			c.stream.send(e.payload)
		}
	}
	answer, err := f.redis.Do(ctx, key, "XREAD", "STREAMS", key, c.cursor)
	streams, _ := answer.([]any)
	if err != nil || len(streams) == 0 {
		return
	}
	entries, _ := streams[0].([]any)[1].([]any)
	for _, e := range entries {
		id, _ := e.([]any)[0].(string)
		p, expires, ok := formerParse(e.([]any)[1])
		if !ok {
			return // nothing else runs for this client now
		}
		c.cursor = id
		if _, twice := c.seen[p.id]; twice {
			continue
		}
		c.seen[p.id] = struct{}{}
		if time.Now().After(expires) {
			_, _ = f.redis.Do(ctx, key, "XDEL", key, id) // it comes again
			continue
		}
		c.stream.sent[p.id] = formerEntry{id, p, expires, time.Now()}
		c.stream.send(p)
	}
}

func (s *formerStream) send(p payload) {
	select {
	case s.out <- p:
	default: // it comes again
	}
}

func formerParse(list any) (p payload, expires time.Time, ok bool) {
	fields := make(map[string]string)
	flat, _ := list.([]any)
	for i := 0; i+1 < len(flat); i += 2 {
		fields[flat[i].(string)] = flat[i+1].(string)
	}
	for _, layout := range []string{"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999 UTC"} {
		if at, err := time.Parse(layout, fields["ttl"]); err == nil {
			expires = at
		}
	}
	return payload{
		fields["id"], fields["category"], fields["title"], fields["body"], fields["show"], fields["entity.id"], fields["entity.type"], fields["entity.data"],
	}, expires, !expires.IsZero()
}

func payloadMessage(p payload) any {
	m := message("NotificationPayload")
	for path, value := range map[string]string{
		"id": p.id, "category": p.category, "title": p.title, "body": p.body, "show": p.show,
		"entity.id": p.entityID, "entity.type": p.entityType, "entity.data": p.entity,
	} {
		set(m, path, value)
	}
	return m
}
