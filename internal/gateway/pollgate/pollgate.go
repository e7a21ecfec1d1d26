// Package pollgate serves sessions to clients that can only make requests: GET /v1/poll returns waiting frames, or waits for some. The
// client sends its frames with POST /v1/frames.
package pollgate

import (
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/problem"
)

const (
	defaultWait = 30 * time.Second
	maxWait     = 50 * time.Second // shorter than the limits of proxies and of our own heartbeat
	// heartbeat: a session that is not polled for two of them, 60 s, ends.
	heartbeat = 30 * time.Second
	// sweepEvery is the interval of sweeps. They drop ended sessions that were not polled again, one to two intervals after the end.
	sweepEvery = 30 * time.Second
	maxPolls   = 100_000   // most sessions of one node, half of them of one app
	maxBytes   = 128 << 20 // most bytes that wait for all sessions together; one app may have half of them
)

// Config are the parts of a Gateway.
type Config struct {
	Hub     *session.Hub
	Posting *gateway.PostingClients
	Origins gateway.Origins
	Log     *slog.Logger
}

// Gateway serves GET /v1/poll.
type Gateway struct {
	cfg  Config
	pool *gateway.Pool
	stop chan struct{}
	wg   sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*polled
}

// New makes a Gateway. Close must be called.
func New(cfg Config) *Gateway {
	g := &Gateway{cfg: cfg, stop: make(chan struct{}), sessions: make(map[string]*polled), pool: gateway.NewPool(maxPolls, maxBytes)}
	g.wg.Go(g.sweepLoop)
	return g
}

// Close stops the gateway's goroutine. Polls end with their sessions.
func (g *Gateway) Close() error {
	close(g.stop)
	g.wg.Wait()
	return nil
}

// Queued is how many bytes wait for the clients of all polled sessions.
func (g *Gateway) Queued() int64 { return g.pool.Used() }

// ServeHTTP answers one poll.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !gateway.Admit(w, r, g.cfg.Origins, http.MethodGet) {
		return
	}
	ctl := http.NewResponseController(w)
	_ = ctl.SetReadDeadline(time.Time{}) // a poll takes longer than a request; servers without deadlines return an error, which does not matter
	_ = ctl.SetWriteDeadline(time.Now().Add(maxWait + time.Minute))
	wait, err := waitOf(r)
	if err != nil {
		gateway.Fail(w, err)
		return
	}
	if id := r.URL.Query().Get("session"); id != "" {
		g.poll(w, r, id, wait)
		return
	}
	g.open(w, r)
}

// open makes a session and immediately answers with its first frames.
func (g *Gateway) open(w http.ResponseWriter, r *http.Request) {
	peer := gateway.Peer(r)
	hello, err := gateway.Hello(r, peer.Claim)
	if err != nil {
		gateway.Fail(w, err)
		return
	}
	hello.Heartbeat = heartbeat
	first, err := gateway.First(r)
	if err != nil {
		gateway.Fail(w, err)
		return
	}
	client := gateway.Open(g.cfg.Hub, peer, hello, "poll", frame.JSON, g.pool)
	bye, err := client.Await(r.Context())
	switch {
	case err != nil: // the client did not wait
		client.Hangup()
		gateway.FailGone(w)
		return
	case bye != nil:
		gateway.Refuse(w, client, *bye)
		return
	case !g.pool.Keep(client):
		client.Hangup()
		gateway.Fail(w, problem.TooMany.With("the app has as many polling sessions as this node has places for"))
		return
	}
	id := client.Session().ID()
	g.mu.Lock()
	g.sessions[id] = &polled{client: client, number: 1}
	g.mu.Unlock()
	g.cfg.Posting.Add(client)
	for _, f := range first {
		client.Session().Frame(f)
	}
	items, _ := client.Take() // the next poll fetches a goodbye that is already there
	_ = gateway.ReplyPoll(w, id, 1, items)
}

// poll returns the waiting frames, or waits for some. An answer that the client does not confirm is sent again.
func (g *Gateway) poll(w http.ResponseWriter, r *http.Request, id string, wait time.Duration) {
	had, named, err := hadOf(r)
	if err != nil {
		gateway.Fail(w, err)
		return
	}
	g.mu.Lock()
	c := g.sessions[id]
	g.mu.Unlock()
	if c == nil {
		if !g.cfg.Posting.Forward(w, r, id, nil) {
			gateway.Fail(w, gateway.NoSession())
		}
		return
	}
	c.client.Session().Alive()
	turn := c.take()
	switch again, ended := c.settle(r, named, had); {
	case ended:
		g.forget(id, c)
		gateway.Fail(w, gateway.NoSession())
		return
	case again != nil:
		c.answer(w, r, id, again)
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for waiting := wait > 0; ; {
		if a := c.next(r, turn, !waiting); a != nil {
			c.answer(w, r, id, a)
			return
		}
		select {
		case <-c.client.Ready():
		case <-timer.C:
			waiting = false
		case <-turn: // only the newest poll gets frames
			waiting = false
		case <-r.Context().Done():
			gateway.FailGone(w)
			return
		}
	}
}

// hadOf reads the number of the last answer that the client has received.
func hadOf(r *http.Request) (number uint64, named bool, err error) {
	v := r.URL.Query().Get("answer")
	if v == "" {
		return 0, false, nil
	}
	if number, err = strconv.ParseUint(v, 10, 64); err != nil {
		return 0, false, notification.BadField("answer", "%q is not the number of an answer", notification.Clip(v))
	}
	return number, true, nil
}

func waitOf(r *http.Request) (time.Duration, error) {
	v := r.URL.Query().Get("wait")
	if v == "" {
		return defaultWait, nil
	}
	d, err := notification.ParseDuration(v)
	if err != nil {
		return 0, notification.BadField("wait", "%q is not a time to wait, like 30s", notification.Clip(v))
	}
	return min(d, maxWait), nil
}

// forget may be called twice.
func (g *Gateway) forget(id string, c *polled) {
	g.mu.Lock()
	known := g.sessions[id] == c
	delete(g.sessions, id)
	g.mu.Unlock()
	if !known {
		return
	}
	c.drop()
	g.pool.Leave(c.client)
	g.cfg.Posting.Remove(c.client)
	c.client.Hangup()
}

func (g *Gateway) sweepLoop() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-tick.C:
			g.sweep()
		}
	}
}

// sweep drops sessions that the sweep before found ended: their clients had time to fetch the goodbye.
func (g *Gateway) sweep() {
	gone := make(map[string]*polled)
	g.mu.Lock()
	for id, c := range g.sessions {
		if c.ended {
			gone[id] = c
		}
		c.ended = c.client.Ended()
	}
	g.mu.Unlock()
	for id, c := range gone {
		g.forget(id, c)
	}
	if len(gone) > 0 {
		g.cfg.Log.Debug("polling sessions forgotten", "sessions", len(gone))
	}
}
