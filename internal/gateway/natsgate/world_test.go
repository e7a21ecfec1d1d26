package natsgate_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/natsgate"
	"godwit.dev/godwit/internal/messaging/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long any step may take on a busy machine.
const patience = time.Minute

// people verifies the keys and clients in its maps.
type people struct {
	mu       sync.Mutex
	keys     map[string]access.Principal
	clients  map[string]access.Client
	revision uint64
}

func (p *people) Key(_ context.Context, secret string) (access.Principal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k, ok := p.keys[secret]; ok {
		return k, nil
	}
	return access.Principal{}, access.ErrUnauthenticated
}

func (p *people) Client(_ context.Context, c access.Claim) (access.Client, error) { return p.Known(c) }

func (p *people) Known(c access.Claim) (access.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if who, ok := p.clients[cmp.Or(c.Token, c.CertURI)]; ok && (c.App == "" || c.App == who.App) {
		return who, nil
	}
	return access.Client{}, access.ErrUnauthenticated
}

func (p *people) Revision() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revision
}

func (p *people) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	p.revision++
}

// world is a bus with a listener.
type world struct {
	people *people
	bus    *bus.Bus
	gate   *natsgate.Server
	url    string
}

func newWorld(t *testing.T, change ...func(*natsgate.Config)) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b, err := bus.Start(t.Context(), bus.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{bus: b, people: &people{
		keys: map[string]access.Principal{
			"publisher": {App: "a", Key: "1", Roles: access.Publish}, "reader": {App: "a", Key: "2", Roles: access.Read},
			"worker": {App: "a", Key: "3", Roles: access.Worker}, "both": {App: "a", Key: "4", Roles: access.Publish | access.Worker},
			"admin": {App: "a", Key: "5", Roles: access.Admin}, "admin.t": {App: "a.t", Key: "6", Roles: access.Admin},
			"both.t": {App: "a.t", Key: "7", Roles: access.Publish | access.Worker},
		},
		clients: map[string]access.Client{
			"stars": {App: "a", Recipient: "r", Topics: []string{"rides.*", "cars.x.>"}, Serve: []string{"orders.*"}},
			"none":  {App: "a", Recipient: "r"}, "godwit://a/g/r": {App: "a", Recipient: "r"},
		},
	}}
	cfg := natsgate.Config{
		Access: w.people, Open: b.Open, Admit: func(netip.Addr) (func(), bool) { return func() {}, true },
		Version: bus.Version, Refused: bus.Refused, MaxPayload: bus.MaxPayload, Log: log,
	}
	for _, f := range change {
		f(&cfg)
	}
	if w.gate, err = natsgate.New(cfg); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.url = "nats://" + ln.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.gate.Serve(context.Background(), ln) // says that ln is closed
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
		if err := errors.Join(w.gate.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// client is a connection of the stock client, with the errors that it reports.
type client struct {
	*nats.Conn
	errs   chan error
	closed chan struct{}
}

func (w *world) connect(t *testing.T, options ...nats.Option) *client {
	t.Helper()
	c := &client{errs: make(chan error, 100), closed: make(chan struct{})}
	nc, err := nats.Connect(w.url, append(options, nats.NoReconnect(), nats.Timeout(patience),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.errs <- err }),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c.Conn = nc
	return c
}

// refused reports whether the server has refused an operation since the last call.
func (c *client) refused(t *testing.T) bool {
	t.Helper()
	if err := c.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	// A goroutine of the library reports errors; a subscription made after them is handled after them.
	select {
	case err := <-c.errs:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Fatal(err)
		}
		return true
	case <-time.After(100 * time.Millisecond):
		return c.LastError() != nil
	}
}
