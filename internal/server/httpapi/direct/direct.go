// Package direct answers publishes, and calls of the gateway to workers, on connections that net/http has handed over. After the first POST
// /v1/notifications of a connection, most clients send more of them, and net/http spends more on reading and answering such a request than
// the store on storing it. A request that is not a plain publish or call goes back to net/http with all bytes read so far, before it has any
// effect; so only net/http judges and answers it.
package direct

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/http1"
	"godwit.dev/godwit/internal/notify/notification"
)

// Time limits of a connection. The limits for idle clients and for clients that do not read equal those of the HTTP server.
const (
	idleTime  = 2 * time.Minute
	writeTime = 60 * time.Second
	// wholeTime limits the time for a request to arrive completely. After that net/http reads it, which waits longer and answers slow
	// clients with an error.
	wholeTime = time.Second
)

// Limits of the publishes that are stored together.
const (
	mostTogether  = 64
	bytesTogether = 1 << 20
)

// Kinds says which requests are answered on a connection. It follows from the origin that its Host names.
type Kinds struct{ Publishes, Calls bool }

// Line is the first line of the requests that are answered here.
const Line = "POST /v1/notifications HTTP/1.1"

// Exchange is one publish and its answer.
type Exchange struct {
	Body           []byte // the answer may reuse its memory
	Authorization  string // the header's value
	IdempotencyKey string // the header's value; empty: there is none
	Trace          notification.Trace
	Begun          time.Time

	c *conn
}

// Server answers publishes and calls on connections of a reactor.
type Server struct {
	reactor *reactor.Reactor
	log     *slog.Logger
	back    *backlog
	free    sync.Pool // *Exchange
	working sync.WaitGroup

	stopping                  atomic.Bool
	taken, returned, answered atomic.Uint64

	mu    sync.Mutex
	conns map[*conn]struct{}
	gone  chan struct{} // closed when the server is stopping and no connection is left

	publishes lots[*Exchange]
	calls     lots[*Call]
	observe   func(status int, took time.Duration) // counts calls
}

// Stats holds counts since the start, and the number of current connections.
type Stats struct {
	Connections                int
	Taken, Returned, Exchanges uint64
}

// Stats reads the counts.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Connections: len(s.conns), Taken: s.taken.Load(), Returned: s.returned.Load(), Exchanges: s.answered.Load()}
}

// New makes a Server. Its connections do nothing until AnswerWith is called.
func New(r *reactor.Reactor, log *slog.Logger) *Server {
	s := &Server{
		reactor: r, log: log, back: newBacklog(), conns: make(map[*conn]struct{}), gone: make(chan struct{}),
		free: sync.Pool{New: func() any { return new(Exchange) }},
	}
	s.publishes.begin(s)
	s.calls.begin(s)
	s.calls.later = func(x *Call, answer func()) bool { return x.c.rc.Later(answer) }
	return s
}

// AnswerWith sets the function that answers publishes. The server calls it on separate goroutines with the publishes that have arrived
// together; it must call Respond for each of them eventually.
func (s *Server) AnswerWith(serve func([]*Exchange)) { s.publishes.serve = serve }

// CallWith sets the function that answers calls of the gateway. The server calls it, on the loop of their connections, with the calls that
// have arrived together; it must not wait, and must call Done for each call eventually. observe gets the status and the duration of each. Without CallWith, calls go back to net/http.
func (s *Server) CallWith(serve func([]*Call), observe func(status int, took time.Duration)) {
	s.calls.serve, s.observe = serve, observe
}

// Go runs f, which Shutdown waits for.
func (s *Server) Go(f func()) { s.working.Go(f) }

// again is the number of publishes on a connection that was given back after which it is taken over again. Each change of hands takes a
// dozen system calls and new buffers of net/http, and a client that always alternates must not pay for that with each request.
const again = 32

type returnedKey struct{}

// ConnContext is for the http.Server: it adds a counter of publishes to connections that were given back.
func ConnContext(ctx context.Context, nc net.Conn) context.Context {
	if back, ok := nc.(*reactor.Released); ok {
		return context.WithValue(http1.WithJudge(ctx, &back.Judge), returnedKey{}, new(int))
	}
	return ctx
}

// Takes reports whether a connection may be taken over after this request. It must be called once for each request.
func (s *Server) Takes(r *http.Request) bool {
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.TLS != nil || r.Close || r.Host == "" || r.ContentLength < 0 || s.stopping.Load() || !s.reactor.CanRelease() {
		return false
	}
	n, _ := r.Context().Value(returnedKey{}).(*int) // no lock: the connection's requests arrive one after the other
	if n == nil {
		return true
	}
	*n++
	return *n > again
}

// TakeOver takes over the connection of a request that was read whole and whose answer was sent whole, with its length. may says what is
// answered on it.
func (s *Server) TakeOver(w http.ResponseWriter, r *http.Request, may Kinds) {
	rc := http.NewResponseController(w)
	if err := rc.Flush(); err != nil {
		return // net/http will notice that the connection is broken
	}
	nc, rw, err := rc.Hijack()
	if err != nil {
		return // it stays where it is
	}
	buffered, _ := rw.Reader.Peek(rw.Reader.Buffered())
	host := unique.Make(r.Host)
	var p *peer
	if may.Calls && s.calls.serve != nil {
		p = &peer{addr: r.RemoteAddr}
	}
	err = s.reactor.Adopt(nc, buffered, func(rc *reactor.Conn) reactor.Handler {
		c := &conn{s: s, rc: rc, host: host, last: time.Now(), publishes: may.Publishes, peer: p}
		s.enter(c)
		return c
	})
	if err != nil {
		s.log.Debug("connection of a publisher could not be taken over", "error", err)
	}
}

// Listener returns a listener with the connections that are given back.
func (s *Server) Listener() net.Listener { return s.back }

// enter counts a new connection. While the server stops, enter closes the connection instead.
func (s *Server) enter(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	s.taken.Add(1)
	if s.stopping.Load() {
		c.stop()
		return
	}
	c.rc.SetTimer(idleTime)
}

func (s *Server) left(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.checkGone()
}

// checkGone informs Shutdown when all connections are closed. The caller holds s.mu.
func (s *Server) checkGone() {
	if !s.stopping.Load() || len(s.conns) > 0 {
		return
	}
	select {
	case <-s.gone:
	default:
		close(s.gone)
	}
}

// Shutdown closes idle connections at once, and others after their answers. It returns when no connection is left; when ctx ends, it closes
// the rest.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping.Store(true)
	for c := range s.conns {
		c.stop()
	}
	s.checkGone()
	s.mu.Unlock()
	var err error
	select {
	case <-s.gone:
		s.working.Wait() // publishes whose client is gone may still be in progress
	case <-ctx.Done():
		s.mu.Lock()
		err = fmt.Errorf("answer %d publishers: %w", len(s.conns), context.Cause(ctx))
		for c := range s.conns {
			c.rc.Abort(errStopping)
		}
		s.mu.Unlock()
	}
	return errors.Join(err, s.back.Close())
}
