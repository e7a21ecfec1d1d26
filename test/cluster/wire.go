package cluster

import (
	"io"
	"net"
	"sync"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// side is the address of both ends of wires. Nodes do not listen there: they tell each other the address of third nodes, and would bypass
// the wire if a node answered at that address.
const side = "127.0.0.2"

// Wire forwards connections to an address until it is cut. Cutting it is like cutting a cable: no data arrives any more, on either side,
// and neither side is notified. Data sent meanwhile arrives when the wire is healed.
type Wire struct {
	relay
	network string

	mu   sync.Mutex
	to   string
	open chan struct{} // closed while nothing is cut
}

// NewWire returns a wire to an address. It ends with the test.
func NewWire(t testing.TB, network, to string) *Wire {
	t.Helper()
	w := &Wire{network: network, to: to, open: make(chan struct{})}
	close(w.open)
	w.serve(t, side+":0", w.dial, w.wait)
	return w
}

// Cut cuts the wire.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.open:
		w.open = make(chan struct{})
	default: // it is
	}
}

// Heal ends a cut.
func (w *Wire) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.open:
	default:
		close(w.open)
	}
}

// Lead connects the wire to another address from now on, and closes its connections, as if another server had taken over.
func (w *Wire) Lead(to string) {
	w.mu.Lock()
	w.to = to
	w.mu.Unlock()
	w.drop()
}

// wait waits while the wire is cut.
func (w *Wire) wait() {
	w.mu.Lock()
	open := w.open
	w.mu.Unlock()
	select {
	case <-open:
	case <-w.ended:
	}
}

func (w *Wire) dial() (net.Conn, error) {
	w.wait()
	d := net.Dialer{Timeout: blackbox.Patience}
	if w.network == "tcp" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(side)}
	}
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	return d.Dial(w.network, to)
}

// relay listens, and forwards connections to the address that dial connects to.
type relay struct {
	ln    net.Listener
	ended chan struct{}
	busy  sync.WaitGroup

	connsMu sync.Mutex
	conns   map[net.Conn]bool
}

// Addr is where it listens.
func (r *relay) Addr() string { return r.ln.Addr().String() }

// serve accepts connections until the test ends. pass is called before data is forwarded, and may wait.
func (r *relay) serve(t testing.TB, addr string, dial func() (net.Conn, error), pass func()) {
	t.Helper()
	var err error
	if r.ln, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	r.ended, r.conns = make(chan struct{}), map[net.Conn]bool{}
	r.busy.Go(func() {
		for {
			in, err := r.ln.Accept()
			if err != nil {
				return
			}
			r.busy.Go(func() { r.carry(in, dial, pass) })
		}
	})
	t.Cleanup(func() {
		close(r.ended)
		r.ln.Close()
		r.drop()
		r.busy.Wait()
	})
}

// drop ends all connections.
func (r *relay) drop() {
	r.connsMu.Lock()
	defer r.connsMu.Unlock()
	for conn := range r.conns {
		conn.Close()
	}
}

// keep registers a connection to be closed at the end, or closes it if the end has passed.
func (r *relay) keep(conn net.Conn) {
	r.connsMu.Lock()
	defer r.connsMu.Unlock()
	r.conns[conn] = true
	select {
	case <-r.ended:
		conn.Close()
	default:
	}
}

func (r *relay) forget(conn net.Conn) {
	conn.Close()
	r.connsMu.Lock()
	defer r.connsMu.Unlock()
	delete(r.conns, conn)
}

func (r *relay) carry(in net.Conn, dial func() (net.Conn, error), pass func()) {
	r.keep(in)
	defer r.forget(in)
	out, err := dial()
	if err != nil {
		return
	}
	r.keep(out)
	defer r.forget(out)
	back := make(chan struct{})
	go func() {
		defer close(back)
		pump(in, out, pass)
	}()
	pump(out, in, pass)
	<-back
}

// pump copies one connection's bytes, and then its end, to the other. A broken connection breaks the other.
func pump(to, from net.Conn, pass func()) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		pass()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err == io.EOF { //nolint:errorlint // of a connection
			if c, ok := to.(interface{ CloseWrite() error }); ok {
				_ = c.CloseWrite()
				return
			}
		}
		if err != nil {
			to.Close()
			return
		}
	}
}
