package app

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/limit"
	"godwit.dev/godwit/internal/problem"
)

// door turns away connections of the HTTP listener that are too many, from one address or in all. They are told so,
// in an answer to their first request, and closed.
type door struct {
	limit   *limit.Addrs
	most    int
	moved   func() int // connections that have left the door for the event loops
	inside  http.Handler
	turned  atomic.Int64 // entries of refused: nearly always none, and then no request takes the lock
	mu      sync.Mutex
	open    int
	refused map[string]*problem.Problem // by the connection's remote address and port
}

func newDoor(l *limit.Addrs, most int, moved func() int, inside http.Handler) *door {
	return &door{limit: l, most: most, moved: moved, inside: inside, refused: make(map[string]*problem.Problem)}
}

// state follows connections; it is the server's ConnState. A hijacked one has moved on.
func (d *door) state(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		d.enter(c)
	case http.StateHijacked, http.StateClosed:
		d.mu.Lock()
		d.open--
		delete(d.refused, c.RemoteAddr().String())
		d.turned.Store(int64(len(d.refused)))
		d.mu.Unlock()
	}
}

func (d *door) enter(c net.Conn) {
	name := c.RemoteAddr().String()
	addr, err := netip.ParseAddrPort(name)
	allowed := err != nil || d.limit.Allow(addr.Addr())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open++
	switch {
	case !allowed:
		p := problem.New(http.StatusTooManyRequests, "rate-limited", "Too many connections", "this address opens connections faster than the server allows")
		p.RetryAfter = max(d.limit.RetryAfter(addr.Addr()), time.Second)
		d.refused[name] = p
	case d.open+d.moved() > d.most:
		p := problem.New(http.StatusServiceUnavailable, "too-many", "Too many connections", "the server has all the connections it can have")
		p.RetryAfter = fullRetry
		d.refused[name] = p
	}
	d.turned.Store(int64(len(d.refused)))
}

// fullRetry is when to come back to a server that is full.
const fullRetry = 5 * time.Second

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var p *problem.Problem
	if d.turned.Load() > 0 {
		d.mu.Lock()
		p = d.refused[r.RemoteAddr]
		d.mu.Unlock()
	}
	if p == nil {
		d.inside.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Connection", "close")
	gateway.Fail(w, p)
}
