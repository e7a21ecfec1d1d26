package godwit

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// gatherer is an http.RoundTripper that wraps the connection of a WebSocket in a gathering, and stores it in conn.
type gatherer struct {
	http.RoundTripper // nil: the default
	conn              *gathering
}

// RoundTrip implements http.RoundTripper.
func (g *gatherer) RoundTrip(r *http.Request) (*http.Response, error) {
	next := g.RoundTripper
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if c, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		g.conn = &gathering{ReadWriteCloser: c}
		resp.Body = g.conn
	}
	return resp, nil
}

// gathering is a connection that writes several frames at once, and counts what it has received. The WebSocket library writes each frame separately, and a write costs more
// than the frame.
type gathering struct {
	io.ReadWriteCloser
	before   func()       // called before each read; nil: nothing
	received atomic.Int64 // bytes

	mu      sync.Mutex
	holding bool
	held    []byte
}

// Read implements io.Reader.
func (g *gathering) Read(b []byte) (int, error) {
	if g.before != nil {
		g.before()
	}
	n, err := g.ReadWriteCloser.Read(b)
	g.received.Add(int64(n))
	return n, err
}

// maxHeld is the maximum number of bytes held back.
const maxHeld = 64 << 10

// hold collects writes until release.
func (g *gathering) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holding = true
}

// Write implements io.Writer.
func (g *gathering) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.holding {
		return g.ReadWriteCloser.Write(b)
	}
	g.held = append(g.held, b...)
	if len(g.held) < maxHeld {
		return len(b), nil
	}
	return len(b), g.write()
}

// release writes what was held.
func (g *gathering) release() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holding = false
	return g.write()
}

func (g *gathering) write() error {
	if len(g.held) == 0 {
		return nil
	}
	_, err := g.ReadWriteCloser.Write(g.held)
	if g.held = g.held[:0]; cap(g.held) > 2*maxHeld {
		g.held = nil
	}
	return err
}
