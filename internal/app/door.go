package app

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
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
	opening func()
	turned  atomic.Int64  // entries of refused: nearly always none, and then no request takes the lock
	left    chan struct{} // has a token when one of fresh has gone on
	fresh   atomic.Int64  // entries of arrived
	mu      sync.Mutex
	arrived []arrival // oldest first
	open    int
	refused map[string]*problem.Problem // by the connection's remote address and port
}

func newDoor(l *limit.Addrs, most int, moved func() int, opening func(), inside http.Handler) *door {
	return &door{
		limit: l, most: most, moved: moved, opening: opening, inside: inside, left: make(chan struct{}, 1),
		refused: make(map[string]*problem.Problem),
	}
}

// state follows connections; it is the server's ConnState. A hijacked one has moved on.
func (d *door) state(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		d.opening()
		d.arrive(c)
		d.enter(c)
	case http.StateIdle:
		if d.fresh.Load() > 0 {
			d.goOn(c)
		}
	case http.StateHijacked, http.StateClosed:
		d.goOn(c)
		d.mu.Lock()
		d.open--
		delete(d.refused, c.RemoteAddr().String())
		d.turned.Store(int64(len(d.refused)))
		d.mu.Unlock()
	}
}

// Connections that have just come take some 25 KB each until their first request is answered, ten times what they need
// later. When thousands come at once they are let in as fast as that many are served; the system keeps the others
// meanwhile. One that says nothing, or is far away, stands in nobody's way for long.
const (
	mostFresh = 32
	freshFor  = 50 * time.Millisecond
)

// arrival is a connection whose first request has not been answered.
type arrival struct {
	conn net.Conn
	at   time.Time
}

// arrive waits, on the goroutine that accepts, until few others are fresh.
func (d *door) arrive(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for len(d.arrived) >= mostFresh && now.Sub(d.arrived[0].at) < freshFor {
		wait := time.NewTimer(freshFor - now.Sub(d.arrived[0].at))
		d.mu.Unlock()
		select {
		case <-d.left:
		case <-wait.C:
		}
		wait.Stop()
		d.mu.Lock()
		now = time.Now()
	}
	if len(d.arrived) >= mostFresh {
		d.arrived = slices.Delete(d.arrived, 0, 1)
	}
	d.arrived = append(d.arrived, arrival{c, now})
	d.fresh.Store(int64(len(d.arrived)))
}

// goOn notes that a connection is fresh no more, if it was.
func (d *door) goOn(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.arrived, func(a arrival) bool { return a.conn == c })
	if i < 0 {
		return
	}
	d.arrived = slices.Delete(d.arrived, i, i+1)
	d.fresh.Store(int64(len(d.arrived)))
	select {
	case d.left <- struct{}{}:
	default:
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
		d.refused[name] = problem.ConnectRate.With("this address opens connections faster than the server allows").After(max(d.limit.RetryAfter(addr.Addr()), time.Second))
	case d.open+d.moved() > d.most:
		d.refused[name] = problem.TooMany.New().After(fullRetry)
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
