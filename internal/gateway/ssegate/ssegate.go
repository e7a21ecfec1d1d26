// Package ssegate serves sessions as server-sent events: GET /v1/stream. Over HTTP/1.1 the connection moves to the
// reactor, where an idle one costs next to nothing; over HTTP/2 it stays a request of net/http, so these have a cap.
// What the client has to say comes by POST /v1/frames.
package ssegate

import (
	"log/slog"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/frame"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/problem"
	"godwit.dev/godwit/internal/reactor"
	"godwit.dev/godwit/internal/session"
)

const (
	maxKept  = 2000             // streams that stay in net/http, half of them of one app: each costs a goroutine and its buffers
	maxBytes = 128 << 20        // that wait for all of these together, likewise
	patience = 30 * time.Second // for a client of these to take a write
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

// ServeHTTP opens a stream. It answers with a problem, not with a stream, if the client is refused: browsers come
// back to a stream that ends, but not after an error.
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
	keep := !r.ProtoAtLeast(1, 1) || r.ProtoMajor > 1
	client := gateway.Open(g.cfg.Hub, peer, hello, "sse", frame.SSE, g.pool)
	bye, err := client.Await(r.Context())
	switch {
	case err != nil: // the client did not wait
		client.Hangup()
		return
	case bye != nil:
		gateway.Refuse(w, client, *bye)
		return
	case keep && !g.pool.Keep(client):
		client.Hangup()
		gateway.Fail(w, problem.TooMany.With("the app has as many HTTP/2 streams as this node has places for; HTTP/1.1 has no such limit"))
		return
	}
	if keep {
		defer g.pool.Leave(client)
	}
	g.cfg.Posting.Add(client)
	for _, f := range first {
		client.Session().Frame(f)
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // for nginx
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
	for {
		items, bye := client.Take()
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
		client.Session().Alive()
		if bye != nil {
			return
		}
		select {
		case <-client.Ready():
		case <-r.Context().Done():
			return
		}
	}
}
