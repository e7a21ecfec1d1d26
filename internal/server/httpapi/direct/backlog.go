package direct

import (
	"net"
	"sync"
)

// backlog is a listener that returns connections given back to net/http.
type backlog struct {
	mu     sync.Mutex
	come   *sync.Cond
	conns  []net.Conn
	closed bool
}

func newBacklog() *backlog {
	b := new(backlog)
	b.come = sync.NewCond(&b.mu)
	return b
}

// put adds a connection. It does not wait.
func (b *backlog) put(nc net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = nc.Close() // a server, too, closes connections that arrive too late
		return
	}
	b.conns = append(b.conns, nc)
	b.come.Signal()
}

// Accept implements net.Listener.
func (b *backlog) Accept() (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.conns) == 0 {
		if b.closed {
			return nil, net.ErrClosed
		}
		b.come.Wait()
	}
	nc := b.conns[0]
	b.conns[0] = nil
	b.conns = b.conns[1:]
	return nc, nil
}

// Close implements net.Listener.
func (b *backlog) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, nc := range b.conns {
		_ = nc.Close() // as above
	}
	b.conns = nil
	b.come.Broadcast()
	return nil
}

// Addr implements net.Listener.
func (b *backlog) Addr() net.Addr { return &net.TCPAddr{} }
