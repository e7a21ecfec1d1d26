// Package ssegate serves sessions as server-sent events: GET /v1/stream. Over HTTP/1.1 the connection moves to the reactor, where an idle
// one costs next to nothing; over HTTP/2 it stays a request of net/http, and the number of these is limited. The client sends its frames
// with POST /v1/frames.
package ssegate

import (
	"log/slog"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

const (
	maxKept  = 2000             // most streams in net/http, half of them of one app: each costs a goroutine and its buffers
	maxBytes = 128 << 20        // most bytes that wait for these streams together, half of them of one app
	patience = 30 * time.Second // time limit for one write to such a stream
	fullFor  = 30 * time.Second // time after which a client that found no place may reconnect
)

// Config are the parts of a Gateway.
type Config struct {
	Hub     *session.Hub
	Posting *gateway.PostingClients
	Origins gateway.Origins
	Reactor *reactor.Reactor
	Log     *slog.Logger
}

// Gateway serves GET /v1/stream.
type Gateway struct {
	cfg  Config
	pool *gateway.Pool
}

// New makes a Gateway.
func New(cfg Config) *Gateway {
	return &Gateway{cfg: cfg, pool: gateway.NewPool(maxKept, maxBytes)}
}

// ServeHTTP opens a stream. A client that is refused for good gets a problem document: a browser's EventSource gives up after any status
// except 200 (HTML, section 9.2.3). A client that may come back therefore gets a stream that ends at once and states the time to reconnect.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !gateway.Admit(w, r, g.cfg.Origins, http.MethodGet) {
		return
	}
	peer := gateway.Peer(r)
	hello, err := gateway.Hello(r, peer.Claim)
	if err != nil {
		gateway.Fail(w, err)
		return
	}
	first, err := gateway.First(r)
	if err != nil {
		gateway.Fail(w, err)
		return
	}
	keep := r.ProtoMajor > 1
	client := gateway.Open(g.cfg.Hub, peer, hello, "sse", frame.SSE, g.pool)
	bye, err := client.Await(r.Context())
	switch {
	case err != nil: // the client did not wait
		client.Hangup()
		return
	case bye != nil:
		client.Hangup()
		gateway.RefuseStream(w, *bye)
		return
	case keep && !g.pool.Keep(client):
		client.Hangup()
		gateway.RefuseStream(w, frame.Goodbye{Reason: frame.Full, RetryAfter: fullFor})
		return
	}
	if keep {
		defer g.pool.Leave(client)
	}
	g.cfg.Posting.Add(client)
	for _, f := range first {
		client.Session().Frame(f)
	}
	gateway.BeginStream(w)
	if keep {
		g.serve(w, r, client)
		return
	}
	g.move(w, client)
}

// Queued is how many bytes wait for the clients of streams in net/http.
func (g *Gateway) Queued() int64 { return g.pool.Used() }

// serve writes a stream within net/http.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, client *gateway.PostingClient) {
	defer client.Hangup()
	defer g.cfg.Posting.Remove(client)
	ctl := http.NewResponseController(w)
	_ = ctl.SetReadDeadline(time.Time{}) // not every connection has deadlines
	life := newLife(r)
	defer life.stop()
	for {
		items, bye := client.Take()
		life.writing()
		_ = ctl.SetWriteDeadline(time.Now().Add(patience))
		for _, it := range items {
			_, err := w.Write(it.Head)
			if err == nil && len(it.Tail) > 0 {
				_, err = w.Write(it.Tail)
			}
			if err != nil {
				return
			}
		}
		if ctl.Flush() != nil {
			return
		}
		_ = ctl.SetWriteDeadline(time.Time{})
		if bye != nil {
			return
		}
		for waiting := true; waiting; {
			select {
			case <-client.Ready():
				waiting = false
			case <-life.look.C:
				if life.seen() {
					client.Session().Alive()
				}
			case <-r.Context().Done():
				return
			}
		}
	}
}

// life checks whether the peer of a net/http connection is alive: only acknowledged bytes are a sign of life, written bytes are not.
type life struct {
	line  *reactor.Line // nil: the system does not count acknowledgements, so written bytes count
	look  *time.Timer
	acked uint32 // count before the first unchecked write
	due   bool   // look will fire
}

func newLife(r *http.Request) *life {
	l := &life{line: reactor.LineOf(r.Context()), look: time.NewTimer(answerAfter)}
	l.look.Stop()
	return l
}

func (l *life) stop() { l.look.Stop() }

// writing comes before a write.
func (l *life) writing() {
	if l.due {
		return
	}
	if l.line != nil {
		l.acked, _, _ = l.line.Acked()
	}
	l.due = true
	l.look.Reset(answerAfter)
}

// seen reports whether the peer has acknowledged bytes since the first unchecked write. If not, it schedules another check.
func (l *life) seen() bool {
	l.due = false
	if l.line == nil {
		return true
	}
	if count, all, ok := l.line.Acked(); ok && (all || count != l.acked) {
		return true
	}
	l.due = true
	l.look.Reset(lookAgain)
	return false
}
