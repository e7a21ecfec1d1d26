// Package admission limits the connections of all listeners together: in all to what the server can carry, per address in number and rate,
// and within net/http to as many as it can soon serve. Refusing a connection costs a system call or two.
package admission

import (
	"errors"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/server/problem"
)

// Patience is the time from a client's connection to its first complete request, over TLS or not, whatever the client sends meanwhile.
const Patience = 10 * time.Second

// Config holds the limits and callbacks of a gate.
type Config struct {
	Limit   *limit.Addrs // of connections an address opens
	Conns   *limit.Conns // of those that are open
	Opening func()       // called for each accepted connection
}

// Gate refuses connections beyond the limits of one address or of the server.
type Gate struct {
	cfg     Config
	telling atomic.Int64 // refused connections that are open for an error response
	told    *limit.Addrs
	refused [reasons]atomic.Uint64
}

// Reason is why a connection was refused.
type Reason int

// Reasons.
const (
	welcome  Reason = iota
	TooFast         // the address opens connections too fast
	TooMany         // the address has too many open connections
	Full            // the server has too many open connections
	NoFile          // the process has no descriptor left for the connection
	Unspoken        // the accepted connection sent no request in time
	reasons
)

var reasonNames = [reasons]string{TooFast: "rate", TooMany: "address", Full: "full", NoFile: "files", Unspoken: "silent"}

func (r Reason) String() string { return reasonNames[r] }

// Reasons lists them.
func Reasons() []Reason { return []Reason{TooFast, TooMany, Full, NoFile, Unspoken} }

// Turns reports whether somebody was turned away: browsers open connections in advance and leave them silent, which hurts nobody.
func (r Reason) Turns() bool { return r != Unspoken }

// Refused clients get the reason in an answer to their first request. Only a few do at a time, and each address only once in a while: a
// client that is a little too fast learns when to connect again, and a flood is closed without an answer.
const (
	mostTold  = 8 // refused connections kept open at a time; they need descriptors beyond the connection limit
	toldEvery = 1 // second, of one address
	toldFor   = 5 * time.Second
	fullRetry = 5 * time.Second // Retry-After of a full server
)

// New makes a gate.
func New(cfg Config) *Gate { return &Gate{cfg: cfg, told: limit.NewAddrs(toldEvery, true)} }

// Refused returns how many connections were refused for a reason since the start.
func (g *Gate) Refused(r Reason) uint64 { return g.refused[r].Load() }

// Admit decides whether a connection is accepted, before the connection uses resources. The caller calls leave when it closes the
// connection.
func (g *Gate) Admit(addr netip.Addr) (leave func(), ok bool) {
	leave, why := g.enter(addr)
	return leave, why == welcome
}

// NoFiles counts a connection that was closed because the process had no descriptor for it.
func (g *Gate) NoFiles() { g.refuse(NoFile) }

// enter checks the limits, those of the address first, so that a flood from one address uses up nothing that other addresses need.
func (g *Gate) enter(addr netip.Addr) (leave func(), why Reason) {
	if !g.cfg.Limit.Allow(addr) {
		return nil, g.refuse(TooFast)
	}
	leave, err := g.cfg.Conns.Enter(addr)
	switch {
	case errors.Is(err, limit.ErrAddrFull):
		return nil, g.refuse(TooMany)
	case err != nil:
		return nil, g.refuse(Full)
	}
	g.cfg.Opening()
	return leave, welcome
}

func (g *Gate) refuse(why Reason) Reason {
	g.refused[why].Add(1)
	return why
}

// tell reports whether a refused connection may stay open for an error response. If so, the caller calls done when it closes the
// connection.
func (g *Gate) tell(addr netip.Addr) (done func(), ok bool) {
	if g.telling.Add(1) > mostTold || !g.told.Allow(addr) {
		g.telling.Add(-1)
		return nil, false
	}
	return func() { g.telling.Add(-1) }, true
}

func (g *Gate) problem(why Reason, addr netip.Addr) *problem.Problem {
	switch why {
	case TooFast:
		return problem.ConnectRate.With("this address opens connections faster than the server allows").After(max(g.cfg.Limit.RetryAfter(addr), time.Second))
	case TooMany:
		return problem.TooManyOfOne.With("this address has as many connections open as the server allows").After(fullRetry)
	default:
		return problem.TooMany.New().After(fullRetry)
	}
}

// Guard follows srv's connections, which must come through Listen: the first request on a connection ends the gate's deadline, and refused
// connections get an error response.
func (g *Gate) Guard(srv *http.Server) {
	inside := srv.Handler
	srv.ConnState, srv.ConnContext = state, withConn
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		if c == nil {
			inside.ServeHTTP(w, r)
			return
		}
		if c.refused != nil {
			w.Header().Set("Connection", "close")
			c.refuse(w, r)
			return
		}
		c.begin()
		inside.ServeHTTP(w, r)
	})
}

// refuse answers a request on a refused connection with the reason.
func (c *conn) refuse(w http.ResponseWriter, r *http.Request) {
	if !gateway.WantsStream(r) {
		gateway.Fail(w, c.refused)
		return
	}
	bye := frame.Goodbye{Reason: frame.RateLimited, RetryAfter: c.refused.RetryAfter}
	if c.refused.Status == http.StatusServiceUnavailable {
		bye.Reason = frame.Full
	}
	gateway.RefuseStream(w, bye)
}
