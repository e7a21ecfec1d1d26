package reactor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for something that must happen; only a failing test takes that long.
const patience = 2 * time.Minute

func drivers() []string {
	if runtime.GOOS == "linux" {
		return []string{DriverEpoll, DriverGoroutine}
	}
	return []string{DriverGoroutine}
}

// eachDriver runs a test on every driver, plain and over TLS.
func eachDriver(t *testing.T, cfg Config, test func(t *testing.T, h *harness)) {
	for _, d := range drivers() {
		for _, secure := range []bool{false, true} {
			name := d + "/plain"
			if secure {
				name = d + "/tls"
			}
			t.Run(name, func(t *testing.T) {
				cfg := cfg
				cfg.Driver = d
				test(t, newHarness(t, cfg, secure))
			})
		}
	}
}

// harness is a reactor that serves on a loopback address.
type harness struct {
	t      *testing.T
	r      *Reactor
	secure bool
}

func newHarness(t *testing.T, cfg Config, secure bool) *harness {
	t.Helper()
	r, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if s := r.Stats(); s.Connections != 0 || s.Queued != 0 {
			t.Errorf("after Close %d connections and %d queued bytes are counted", s.Connections, s.Queued)
		}
	})
	return &harness{t: t, r: r, secure: secure}
}

// serve accepts until the returned stop is called (or the test ends); stop waits for Serve to return.
func (h *harness) serve(lim Limits, open func(*Conn) (Handler, error)) (addr string, stop func()) {
	h.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	var wg sync.WaitGroup
	var conf *tls.Config
	if h.secure {
		conf = serverTLS(h.t)
	}
	wg.Go(func() {
		if err := h.r.Serve(ctx, ln, conf, lim, open); err != nil {
			h.t.Errorf("Serve: %v", err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	h.t.Cleanup(stop)
	return ln.Addr().String(), stop
}

// handle serves connections with copies of one handler made by f.
func (h *harness) handle(f func(c *Conn) Handler) (addr string) {
	h.t.Helper()
	addr, _ = h.serve(Limits{Handshake: patience}, func(c *Conn) (Handler, error) { return f(c), nil })
	return addr
}

// smallWindow makes a client whose kernel takes little before it reads.
func smallWindow(c *net.TCPConn) { _ = c.SetReadBuffer(256 << 10) }

// dial connects a client that is closed with the test.
func (h *harness) dial(addr string, options ...func(*net.TCPConn)) net.Conn {
	h.t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, o := range options {
		o(c.(*net.TCPConn))
	}
	if h.secure {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	h.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	if s, ok := c.(*tls.Conn); ok {
		if err := s.HandshakeContext(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	}
	return c
}

var testCertificate = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	tmpl := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, &tmpl, &tmpl, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
})

func serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	cert, err := testCertificate()
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
}

// fake is a handler made of functions, any of which may be nil. It counts calls of Closed.
type fake struct {
	data    func(b []byte) (int, error)
	drained func()
	tick    func(now time.Time)
	closed  chan error
}

func newFake() *fake { return &fake{closed: make(chan error, 4)} }

func (f *fake) Data(b []byte) (int, error) {
	if f.data == nil {
		return len(b), nil
	}
	return f.data(b)
}

func (f *fake) Drained() {
	if f.drained != nil {
		f.drained()
	}
}

func (f *fake) Tick(now time.Time) {
	if f.tick != nil {
		f.tick(now)
	}
}

func (f *fake) Closed(err error) { f.closed <- err }

// wait receives from c, or fails the test.
func wait[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %s for %s", patience, what)
		panic("unreachable")
	}
}

func readFull(t *testing.T, r io.Reader, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatalf("read %d bytes: %v", n, err)
	}
	return b
}
