package admission

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/http1"
	"godwit.dev/godwit/internal/server/problem"
)

// conn is a connection of the HTTP listener.
type conn struct {
	net.Conn
	ln      *listener
	line    *line
	refused *problem.Problem // the error response; nil: the connection was accepted
	due     *time.Timer      // closes the connection unless the first request arrives in time
	begun   atomic.Bool
	judge   http1.Judge // used only by the goroutine that reads

	mu    sync.Mutex
	leave func() // nil after the connection was closed or handed over

	at    time.Time // when net/http got the connection; guarded by ln.mu
	fresh bool      // guarded by ln.mu
	over  bool      // closed while it waited; guarded by ln.mu
}

var _ reactor.Counted = (*conn)(nil)

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.judge.Saw(b[:n])
	return n, err // the error of the wrapped net.Conn, unchanged
}

// begin stops the deadline: the first request has arrived.
func (c *conn) begin() {
	if !c.begun.Swap(true) {
		c.due.Stop()
		c.ln.spoken(c)
	}
}

// late closes a connection that has not sent a request in time.
func (c *conn) late() {
	if c.begun.Swap(true) {
		return
	}
	c.ln.spoken(c)
	if c.refused == nil {
		c.ln.gate.refuse(Unspoken)
	}
	_ = c.Close() // there is nobody to tell
}

// Close closes the connection and removes it from the counts. It may be called again.
func (c *conn) Close() error {
	c.begin()
	c.ln.goOn(c, true)
	if leave := c.Handover(); leave != nil {
		defer leave()
	}
	return c.Conn.Close()
}

// Handover implements reactor.Counted.
func (c *conn) Handover() (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leave, c.leave = c.leave, nil
	return leave
}

// SyscallConn gives access to the descriptor, so that the reactor can adopt the connection.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, syscall.EINVAL
	}
	return sc.SyscallConn()
}

type connKey struct{}

// withConn is a server's ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if ours := unwrap(c); ours != nil {
		return context.WithValue(http1.WithJudge(ctx, &ours.judge), connKey{}, ours)
	}
	return ctx
}

// state is a server's ConnState callback: a connection is fresh until it was answered or hijacked.
func state(c net.Conn, s http.ConnState) {
	if s != http.StateIdle && s != http.StateHijacked {
		return
	}
	if ours := unwrap(c); ours != nil {
		ours.ln.goOn(ours, false)
	}
}

// unwrap finds the gate's connection below TLS and below the wrapper that makes it adoptable.
func unwrap(c net.Conn) *conn {
	for c != nil {
		if ours, ok := c.(*conn); ok {
			return ours
		}
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = over.NetConn()
	}
	return nil
}
