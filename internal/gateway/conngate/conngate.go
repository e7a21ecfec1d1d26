// Package conngate lets connections of the HTTP listener in: not more than the server carries, not more from one address
// than it may open, and not more at once than are soon served.
package conngate

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

// Config are what a gate asks and leads to.
type Config struct {
	Limit   *limit.Addrs // of connections an address opens
	Most    int          // connections in all
	Moved   func() int   // how many have left the gate for the event loops
	Opening func()       // told of each that opens
	Inside  http.Handler
}

// Gate turns away connections that are too many, from one address or in all. They are told so, in an answer to their
// first request, and closed.
type Gate struct {
	cfg     Config
	turned  atomic.Int64  // entries of refused: nearly always none, and then no request takes the lock
	left    chan struct{} // has a token when one of fresh has gone on
	fresh   atomic.Int64  // entries of arrived
	mu      sync.Mutex
	arrived []arrival // oldest first
	open    int
	refused map[string]*problem.Problem // by the connection's remote address and port
}

// New makes a gate. It has to be the server's Handler, and its State the server's ConnState.
func New(cfg Config) *Gate {
	return &Gate{cfg: cfg, left: make(chan struct{}, 1), refused: make(map[string]*problem.Problem)}
}

// State follows connections; it is the server's ConnState. A hijacked one has moved on.
func (g *Gate) State(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		g.cfg.Opening()
		g.arrive(c)
		g.enter(c)
	case http.StateIdle:
		if g.fresh.Load() > 0 {
			g.goOn(c)
		}
	case http.StateHijacked, http.StateClosed:
		g.goOn(c)
		g.mu.Lock()
		g.open--
		delete(g.refused, c.RemoteAddr().String())
		g.turned.Store(int64(len(g.refused)))
		g.mu.Unlock()
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
func (g *Gate) arrive(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for len(g.arrived) >= mostFresh && now.Sub(g.arrived[0].at) < freshFor {
		wait := time.NewTimer(freshFor - now.Sub(g.arrived[0].at))
		g.mu.Unlock()
		select {
		case <-g.left:
		case <-wait.C:
		}
		wait.Stop()
		g.mu.Lock()
		now = time.Now()
	}
	if len(g.arrived) >= mostFresh {
		g.arrived = slices.Delete(g.arrived, 0, 1)
	}
	g.arrived = append(g.arrived, arrival{c, now})
	g.fresh.Store(int64(len(g.arrived)))
}

// goOn notes that a connection is fresh no more, if it was.
func (g *Gate) goOn(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.arrived, func(a arrival) bool { return a.conn == c })
	if i < 0 {
		return
	}
	g.arrived = slices.Delete(g.arrived, i, i+1)
	g.fresh.Store(int64(len(g.arrived)))
	select {
	case g.left <- struct{}{}:
	default:
	}
}

func (g *Gate) enter(c net.Conn) {
	name := c.RemoteAddr().String()
	addr, err := netip.ParseAddrPort(name)
	allowed := err != nil || g.cfg.Limit.Allow(addr.Addr())
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open++
	switch {
	case !allowed:
		g.refused[name] = problem.ConnectRate.With("this address opens connections faster than the server allows").After(max(g.cfg.Limit.RetryAfter(addr.Addr()), time.Second))
	case g.open+g.cfg.Moved() > g.cfg.Most:
		g.refused[name] = problem.TooMany.New().After(fullRetry)
	}
	g.turned.Store(int64(len(g.refused)))
}

// fullRetry is when to come back to a server that is full.
const fullRetry = 5 * time.Second

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var p *problem.Problem
	if g.turned.Load() > 0 {
		g.mu.Lock()
		p = g.refused[r.RemoteAddr]
		g.mu.Unlock()
	}
	if p == nil {
		g.cfg.Inside.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Connection", "close")
	gateway.Fail(w, p)
}
