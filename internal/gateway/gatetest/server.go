// Package gatetest is the test suite for all gateways: the same cases, over real connections, on a real store.
package gatetest

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
	"godwit.dev/godwit/internal/testkit/logbuffer"
)

// App is the app of the suite. Its clients need no token; a token that a client sends is checked.
const App = access.DevApp

// Patience is how long a test waits for an event that must come. Only a test that fails waits that long.
const Patience = time.Minute

// QueueBytes is the most that the reactor queues for one connection.
const QueueBytes = 256 << 10

// Server is everything behind a gateway, as the program wires it.
type Server struct {
	Hub     *session.Hub
	Access  *access.Registry
	Mailbox *mailbox.Mailbox
	Objects *signal.Service
	Topics  *pubsub.Service
	Asks    *request.Service
	Publish *delivery.Service
	Reactor *reactor.Reactor
	Posting *gateway.PostingClients
	Log     *slog.Logger

	// Mux routes to the HTTP gateways' handlers; they are served at URL and Addr once Start returns.
	Mux       *http.ServeMux
	URL, Addr string
	// HTTP is the server before it starts: a gateway's Mount may configure it (TLS, HTTP/2).
	HTTP *httptest.Server

	seen   *feed
	bus    *bus.Bus
	other  *Server // the second node; nil: there is none
	second bool    // of two
	nodes  *joined // nil: it is alone
	known  *cluster.Cluster
	turns  atomic.Int64

	shallow atomic.Bool // new connections have kernelBytes
}

// folder is a data folder with empty stores.
var folder = sqlitetest.Template(func(dir string) error {
	stores, err := store.Open(context.Background(), store.Config{Data: dir, MinFree: 1 << 20})
	if err != nil {
		return err
	}
	return stores.Close()
})

// Start starts a server. mount adds a gateway to it and may register cleanups: they run after the sessions have
// ended and before the parts below are closed.
func Start(t testing.TB, mount func(s *Server)) *Server {
	t.Helper()
	return StartOn(t, "", mount)
}

// StartOn is Start with a choice of the reactor's driver.
func StartOn(t testing.TB, driver string, mount func(s *Server)) *Server {
	t.Helper()
	return start(t, driver, mount, &Server{seen: newFeed()})
}

// shownIfFailed returns a buffer for log lines, and prints it if the test fails: after the test nothing may be logged any more.
func shownIfFailed(t testing.TB) io.Writer {
	kept := &logbuffer.Buffer{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server's log:\n%s", kept)
		}
	})
	return kept
}

func start(t testing.TB, driver string, mount func(s *Server), s *Server) *Server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	dir, log := t.TempDir(), slog.New(slog.NewTextHandler(shownIfFailed(t), nil))
	if s.nodes == nil {
		dir = folder(t)
	}
	s.Log, s.Mux = log, http.NewServeMux()

	stores, err := store.Open(ctx, s.nodes.store(store.Config{Data: dir, Log: log, MinFree: 1 << 20}, s.second))
	must(t, err)
	closing(t, stores.Close)
	s.Access, err = access.NewRegistry(ctx, stores.Access, access.Config{Dev: true}, log)
	must(t, err)
	t.Cleanup(s.Access.Close)

	now := s.nodes.now(stores)
	s.Mailbox = mailbox.New(mailbox.Config{Store: stores.Mailbox, Events: s.seen, Log: log})
	b, err := bus.Start(ctx, bus.Config{Cluster: s.nodes.bus(s.second), Log: log})
	must(t, err)
	closing(t, b.Close)
	s.bus = b
	s.Objects = signal.New(signal.Config{Store: stores.Objects, Now: now, Log: log})
	closing(t, s.Objects.Close)
	s.Topics = pubsub.New(pubsub.Config{Bus: b, Log: log})
	closing(t, s.Topics.Close)
	s.Asks = request.New(request.Config{Bus: b, Log: log})
	closing(t, s.Asks.Close)
	hub := session.Config{Store: stores.Mailbox, Mailbox: s.Mailbox, Verifier: s.Access, Events: s.seen, Capabilities: []session.Capability{s.Objects, s.Topics, s.Asks}, Log: log, Now: now}
	var join func()
	if s.nodes != nil {
		join = s.cluster(t, stores, &hub)
	}
	s.Hub = session.NewHub(hub)
	s.Asks.Find(s.Hub)
	s.Publish = delivery.New(stores.Mailbox, now)
	closing(t, s.Hub.Close)
	running.Go(func() { _ = s.Mailbox.Run(ctx) })

	s.Reactor, err = reactor.New(reactor.Config{QueueBytes: QueueBytes, Driver: driver}, log)
	must(t, err)
	closing(t, s.Reactor.Close)
	s.Posting = gateway.NewPostingClients(s.Access)
	if join != nil {
		join()
	}
	s.Mux.Handle("/v1/frames", s.Posting)

	s.HTTP = httptest.NewUnstartedServer(s.Mux)
	s.HTTP.Listener = reactor.Listener(shallow{s.HTTP.Listener, &s.shallow})
	s.HTTP.Config.ConnContext = reactor.ConnContext
	t.Cleanup(s.HTTP.Close)
	mount(s)
	t.Cleanup(func() { s.Stop(t) })
	if s.HTTP.TLS == nil {
		s.HTTP.Start()
	} else {
		s.HTTP.StartTLS()
	}
	s.URL, s.Addr = s.HTTP.URL, s.HTTP.Listener.Addr().String()
	return s
}

// UseTLS makes the HTTP listener speak TLS, and HTTP/2 if asked. It is for Mount.
func (s *Server) UseTLS(http2 bool) {
	s.HTTP.TLS, s.HTTP.EnableHTTP2 = &tls.Config{MinVersion: tls.VersionTLS12}, http2
}

// Stop sends goodbye to all sessions of this node and waits until they are gone.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
	defer cancel()
	if err := s.Hub.Shutdown(ctx); err != nil {
		t.Errorf("sessions did not end: %v", err)
	}
}

// Send publishes a notification and checks that it is stored.
func (s *Server) Send(t testing.TB, d notification.Draft) {
	t.Helper()
	must(t, s.publish(d))
}

func (s *Server) publish(d notification.Draft) error {
	r := s.far().Publish.Publish(context.Background(), App, []*notification.Draft{&d})[0]
	errs := []error{r.Err}
	for _, c := range r.Copies {
		errs = append(errs, c.Err)
	}
	return errors.Join(errs...)
}

// Await waits for an event of a type about a notification.
func (s *Server) Await(t testing.TB, what event.Type, id string) {
	t.Helper()
	if !s.seen.wait(what, id) {
		t.Fatalf("notification %s was not %s within %s", id, what, Patience)
	}
}

// Gone waits until no session is live.
func (s *Server) Gone(t testing.TB) {
	t.Helper()
	if s.other == nil { // with several nodes, there is no Offline event if the recipient leaves before the nodes have decided which of them reports its arrival
		s.Await(t, event.Offline, "")
	}
	s.live(t, 0)
}

// Status returns the status of a recipient's copy.
func (s *Server) Status(t testing.TB, id, to string) notification.Status {
	t.Helper()
	rs, err := s.Mailbox.Lookup(t.Context(), App, id, to)
	must(t, err)
	if len(rs) != 1 {
		t.Fatalf("%s has %d copies of %s, want one", to, len(rs), id)
	}
	return rs[0].Status
}

// Token makes a client token.
func (s *Server) Token(t testing.TB, recipient string, ttl time.Duration) string {
	t.Helper()
	text, _, err := s.Access.MintToken(App, access.TokenRequest{Recipient: recipient, TTL: ttl})
	must(t, err)
	return text
}

// Listen opens a listener for a gateway that does not speak HTTP through Mux.
func (s *Server) Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	return shallow{ln, &s.shallow}
}

// kernelBytes is the send buffer of a connection whose client does not read: small, so that a test soon fills it.
const kernelBytes = 64 << 10

// unread is how much is sent to a client that does not read: several times what the kernel and the queue take.
func (g *Gate) unread() int { return 2<<20 + g.Buffers }

// unreading connects a client that does not read what it is sent for now.
func (g *Gate) unreading(t testing.TB, s *Server, o Options) *conn {
	t.Helper()
	for _, node := range s.each() {
		node.shallow.Store(true)
	}
	return g.welcomed(t, s, o)
}

// shallow is a listener whose connections have kernelBytes while it is on.
type shallow struct {
	net.Listener
	on *atomic.Bool
}

func (l shallow) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil || !l.on.Load() {
		return nc, err // the error of the wrapped net.Listener, unchanged
	}
	if err := nc.(*net.TCPConn).SetWriteBuffer(kernelBytes); err != nil {
		_ = nc.Close()
		return nil, err
	}
	return nc, nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func closing(t testing.TB, stop func() error) {
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// feed records events, so that tests wait for them instead of for time to pass.
type feed struct {
	mu    sync.Mutex
	seen  map[key]bool
	again chan struct{} // closed at every change
}

type key struct {
	what event.Type
	note string
}

func newFeed() *feed { return &feed{seen: make(map[key]bool), again: make(chan struct{})} }

// Emit implements mailbox.Emitter.
func (f *feed) Emit(evs []event.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range evs {
		f.seen[key{e.Type, e.Note}] = true
	}
	close(f.again)
	f.again = make(chan struct{})
}

func (f *feed) wait(what event.Type, note string) bool {
	late := time.After(Patience)
	for {
		f.mu.Lock()
		ok, again := f.seen[key{what, note}], f.again
		f.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-again:
		case <-late:
			return false
		}
	}
}

// OtherApp makes one more app and a token for its driver-1.
func (s *Server) OtherApp(t testing.TB, name string) (token string) {
	t.Helper()
	must(t, s.Access.CreateApp(t.Context(), name, access.AppChange{}))
	token, _, err := s.Access.MintToken(name, access.TokenRequest{Recipient: "driver-1", TTL: time.Hour})
	must(t, err)
	return token
}
