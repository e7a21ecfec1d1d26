// Package direct answers publishes on connections that net/http has handed over: after the first POST /v1/notifications of a
// connection most have more of them, and reading and answering such a request costs net/http more than storing it. A request that is
// not a plain publish goes back to net/http with all bytes that were read, before it has any effect; so net/http alone judges it and
// answers the client.
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

// Times of a connection. Those for idle clients and for clients that do not read are the ones of the server beside it.
const (
	idleTime  = 2 * time.Minute
	writeTime = 60 * time.Second
	// wholeTime is how long a request may take to arrive completely. After that net/http reads it, which waits longer and
	// answers slow clients with an error.
	wholeTime = time.Second
)

// Bounds of the publishes that are stored together.
const (
	mostTogether  = 64
	bytesTogether = 1 << 20
)

// Line is how a request that is answered here begins.
const Line = "POST /v1/notifications HTTP/1.1"

// Exchange is one publish and its answer.
type Exchange struct {
	Body           []byte // its memory may be used for the answer's
	Authorization  string // the header's value
	IdempotencyKey string // the header's value; empty: there is none
	Trace          notification.Trace
	Begun          time.Time

	c *conn
}

// Server answers publishes on connections of a reactor.
type Server struct {
	reactor *reactor.Reactor
	log     *slog.Logger
	serve   func([]*Exchange)
	back    *backlog
	free    sync.Pool // *Exchange
	working sync.WaitGroup

	stopping                  atomic.Bool
	taken, returned, answered atomic.Uint64

	mu    sync.Mutex
	conns map[*conn]struct{}
	gone  chan struct{} // closed when it is stopping and no connection is left

	queueMu sync.Mutex
	waiting []*Exchange
	bytes   int           // of their bodies
	called  bool          // a goroutine is about to take them
	resting chan struct{} // goroutines that have answered and wait for more receive here
	rest    atomic.Int32  // how many they are
}

// Stats are counts since the start, and how many connections are here now.
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

// New makes a Server. Its connections do nothing until AnswerWith was called.
func New(r *reactor.Reactor, log *slog.Logger) *Server {
	return &Server{
		reactor: r, log: log, back: newBacklog(), conns: make(map[*conn]struct{}), gone: make(chan struct{}),
		resting: make(chan struct{}), free: sync.Pool{New: func() any { return new(Exchange) }},
	}
}

// AnswerWith sets the function that answers publishes. It is called on goroutines of its own with the publishes that have
// arrived together, and must call Respond for each of them at some time.
func (s *Server) AnswerWith(serve func([]*Exchange)) { s.serve = serve }

// Go runs f, which Shutdown waits for.
func (s *Server) Go(f func()) { s.working.Go(f) }

// again is how many publishes a connection that has gone back must have had there before it is taken over again. Going to and
// fro takes a dozen system calls and net/http's buffers anew, which a client that always alternates must not pay for each request.
const again = 32

type returnedKey struct{}

// ConnContext is for the http.Server: it counts the publishes of connections that have gone back.
func ConnContext(ctx context.Context, nc net.Conn) context.Context {
	if back, ok := nc.(*reactor.Released); ok {
		return context.WithValue(http1.WithJudge(ctx, &back.Judge), returnedKey{}, new(int))
	}
	return ctx
}

// Takes reports whether a connection may be taken over after this request. It is called once for each.
func (s *Server) Takes(r *http.Request) bool {
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.TLS != nil || r.Close || r.Host == "" || r.ContentLength <= 0 || s.stopping.Load() || !s.reactor.CanRelease() {
		return false
	}
	n, _ := r.Context().Value(returnedKey{}).(*int) // its requests come one after the other
	if n == nil {
		return true
	}
	*n++
	return *n > again
}

// TakeOver takes the connection of a request that was answered whole, with its length.
func (s *Server) TakeOver(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	if err := rc.Flush(); err != nil {
		return // net/http sees that it is broken
	}
	nc, rw, err := rc.Hijack()
	if err != nil {
		return // it stays where it is
	}
	buffered, _ := rw.Reader.Peek(rw.Reader.Buffered())
	host := unique.Make(r.Host)
	err = s.reactor.Adopt(nc, buffered, func(rc *reactor.Conn) reactor.Handler {
		c := &conn{s: s, rc: rc, host: host, last: time.Now()}
		s.enter(c)
		return c
	})
	if err != nil {
		s.log.Debug("connection of a publisher could not be taken over", "error", err)
	}
}

// Listener has the connections that go back.
func (s *Server) Listener() net.Listener { return s.back }

// enter counts a connection in. A connection that comes while the server stops is closed.
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

// checkGone informs Shutdown when all connections are closed. s.mu is held.
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

// Shutdown closes idle connections at once, and others after their answers. It returns when none is left; those left when ctx
// ends are closed then.
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
		s.working.Wait() // publishes whose client is gone may not be answered yet
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

// mostResting is how many goroutines wait for further publishes. A goroutine that has stored a publish has a large enough stack; a new
// one would have to grow its own, page by page.
const mostResting = 4

// submit queues an exchange. A goroutine takes it together with all others that are queued by then, and stores them in one go.
func (s *Server) submit(x *Exchange) {
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	s.waiting = append(s.waiting, x)
	s.bytes += len(x.Body)
	if !s.called {
		s.called = true
		select {
		case s.resting <- struct{}{}:
		default:
			s.working.Go(s.work)
		}
	}
	if len(s.waiting) >= mostTogether || s.bytes >= bytesTogether {
		lot := s.take()
		s.working.Go(func() { s.serve(lot) })
	}
}

// work answers waiting publishes, and repeats that unless enough other goroutines do.
func (s *Server) work() {
	for {
		s.queueMu.Lock()
		lot := s.take()
		s.queueMu.Unlock()
		if len(lot) > 0 {
			s.serve(lot)
		}
		if !s.restUntilCalled() {
			return
		}
	}
}

// restUntilCalled waits for more to answer; false: the goroutine is not needed any more.
func (s *Server) restUntilCalled() bool {
	defer s.rest.Add(-1)
	if s.rest.Add(1) > mostResting {
		return false
	}
	select {
	case <-s.resting:
		return true
	case <-s.gone:
		return false
	}
}

// take takes the waiting publishes; later ones are for another goroutine. s.queueMu is held.
func (s *Server) take() []*Exchange {
	lot := s.waiting
	s.waiting, s.bytes, s.called = nil, 0, false
	return lot
}
