// Package admission admits connections of all listeners together: no more than the server carries, no more from one
// address than it may open and hold, and into net/http no more at once than are soon served. A refused connection costs
// a system call or two.
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

// Patience is how long a client may take from its connection to its first request, over TLS or not, whatever it sends
// meanwhile.
const Patience = 10 * time.Second

// Config holds the limits and callbacks of a gate.
type Config struct {
	Limit   *limit.Addrs // of connections an address opens
	Conns   *limit.Conns // of those that are open
	Opening func()       // called for each connection that is let in
}

// Gate turns away connections that are too many, of one address or in all.
type Gate struct {
	cfg     Config
	telling atomic.Int64 // refused connections that are kept open for an error response
	told    *limit.Addrs
	refused [reasons]atomic.Uint64
}

// Reason is why a connection is refused.
type Reason int

// Reasons.
const (
	welcome  Reason = iota
	TooFast         // its address opens connections too fast
	TooMany         // its address has too many open
	Full            // the server has too many open
	NoFile          // no descriptor is left for it
	Unspoken        // let in, it sent no request in time
	reasons
)

var reasonNames = [reasons]string{TooFast: "rate", TooMany: "address", Full: "full", NoFile: "files", Unspoken: "silent"}

func (r Reason) String() string { return reasonNames[r] }

// Reasons lists them.
func Reasons() []Reason { return []Reason{TooFast, TooMany, Full, NoFile, Unspoken} }

// Refused clients get the reason in an answer to their first request, as long as they are few, and each address only
// once in a while: a client that is a little too fast learns when to come again, and a flood is closed unheard.
const (
	mostTold  = 8 // refused connections kept open at a time; they need descriptors beyond those of the cap
	toldEvery = 1 // second, of one address
	toldFor   = 5 * time.Second
	fullRetry = 5 * time.Second // Retry-After of a server that is full
)

// New makes a gate.
func New(cfg Config) *Gate { return &Gate{cfg: cfg, told: limit.NewAddrs(toldEvery, true)} }

// Refused counts the connections refused for a reason since the start.
func (g *Gate) Refused(r Reason) uint64 { return g.refused[r].Load() }

// Admit decides whether a connection is let in, before it uses resources. leave is to be called when it is closed.
func (g *Gate) Admit(addr netip.Addr) (leave func(), ok bool) {
	leave, why := g.enter(addr)
	return leave, why == welcome
}

// NoFiles counts a connection that was closed because there was no descriptor for it.
func (g *Gate) NoFiles() { g.refuse(NoFile) }

// enter checks the limits, those of the address itself first, so that a flood from one address uses up nothing that
// others need.
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

// tell reports whether a refused connection may stay open for an error response; then done is called when it is closed.
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

// Guard follows srv's connections, which come through Listen: their first requests end the gate's deadline, and refused
// ones get an error response.
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
