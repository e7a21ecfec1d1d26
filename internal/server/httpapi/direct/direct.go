// Package direct answers publishes on connections that net/http has handed over. After the first POST /v1/notifications of a connection,
// most clients send more of them, and net/http spends more on reading and answering such a request than the store on storing it. A request
// that is not a plain publish goes back to net/http with all bytes read so far, before it has any effect; so only net/http judges and
// answers it.
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
	gone  chan struct{} // closed when the server is stopping and no connection is left

	queueMu sync.Mutex
	waiting []*Exchange
	bytes   int           // of their bodies
	called  bool          // a goroutine is about to take the queued exchanges
	resting chan struct{} // goroutines that have answered receive here while they wait for more
	rest    atomic.Int32  // how many they are
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
	return &Server{
		reactor: r, log: log, back: newBacklog(), conns: make(map[*conn]struct{}), gone: make(chan struct{}),
		resting: make(chan struct{}), free: sync.Pool{New: func() any { return new(Exchange) }},
	}
}

// AnswerWith sets the function that answers publishes. The server calls it on separate goroutines with the publishes that have arrived
// together; it must call Respond for each of them eventually.
func (s *Server) AnswerWith(serve func([]*Exchange)) { s.serve = serve }

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
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.TLS != nil || r.Close || r.Host == "" || r.ContentLength <= 0 || s.stopping.Load() || !s.reactor.CanRelease() {
		return false
	}
	n, _ := r.Context().Value(returnedKey{}).(*int) // no lock: the connection's requests arrive one after the other
	if n == nil {
		return true
	}
	*n++
	return *n > again
}

// TakeOver takes over the connection of a request whose answer was sent whole, with its length.
func (s *Server) TakeOver(w http.ResponseWriter, r *http.Request) {
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
	err = s.reactor.Adopt(nc, buffered, func(rc *reactor.Conn) reactor.Handler {
		c := &conn{s: s, rc: rc, host: host, last: time.Now()}
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

// mostResting limits the goroutines that wait for further publishes. A goroutine that has stored a publish has a large enough stack; a new
// one would have to grow its stack step by step.
const mostResting = 4

// submit queues an exchange. A goroutine takes all exchanges that are queued by then, and stores them together.
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

// work answers waiting publishes again and again, until enough other goroutines do so.
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

// restUntilCalled waits for more exchanges; false: the goroutine is not needed any more.
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

// take takes the waiting publishes; another goroutine takes later ones. The caller holds s.queueMu.
func (s *Server) take() []*Exchange {
	lot := s.waiting
	s.waiting, s.bytes, s.called = nil, 0, false
	return lot
}
