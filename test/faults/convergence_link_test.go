package faults

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// weather is the quality of links. It changes during a run.
type weather struct {
	mu        sync.Mutex
	rand      *rand.Rand
	delay     time.Duration // most that a frame takes
	duplicate float64       // of frames
	reorder   float64
	swallow   float64 // share of versions that clients fail to handle, and of lost acknowledgements
	halfOpen  float64 // of connections that are cut
	room      int     // frames that may wait before writes are refused
}

func (w *weather) chance(p func(*weather) float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.Float64() < p(w)
}

func (w *weather) pause() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.delay == 0 {
		return 0
	}
	if w.rand.IntN(50) == 0 {
		return time.Duration(w.rand.Int64N(int64(20 * w.delay)))
	}
	return time.Duration(w.rand.Int64N(int64(w.delay)))
}

// pipe carries frames one way: late, sometimes twice, sometimes out of order.
type pipe struct {
	w      *weather
	mu     sync.Mutex
	more   *sync.Cond
	queue  []string
	paused bool
	cut    bool
}

func newPipe(w *weather) *pipe {
	p := &pipe{w: w}
	p.more = sync.NewCond(&p.mu)
	return p
}

// put adds a frame and returns how many are waiting; -1: the pipe is cut.
func (p *pipe) put(f string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return -1
	}
	p.queue = append(p.queue, f)
	p.more.Signal()
	return len(p.queue)
}

func (p *pipe) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)
}

func (p *pipe) pause(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = paused
	p.more.Broadcast()
}

func (p *pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.more.Broadcast()
}

// next removes and returns a frame; false: the pipe is cut, and its frames are lost.
func (p *pipe) next() (f string, ok bool) {
	p.mu.Lock()
	for (len(p.queue) == 0 || p.paused) && !p.cut {
		p.more.Wait()
	}
	p.mu.Unlock()
	if d := p.w.pause(); d > 0 {
		time.Sleep(d)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.paused && !p.cut {
		p.more.Wait()
	}
	if p.cut {
		return "", false
	}
	i := 0
	if len(p.queue) > 1 && movable(p.queue[0]) && movable(p.queue[1]) && !related(p.queue[0], p.queue[1]) && p.w.chance(func(w *weather) float64 { return w.reorder }) {
		i = 1
	}
	f = p.queue[i]
	if movable(f) && p.w.chance(func(w *weather) float64 { return w.duplicate }) {
		return f, true // it stays and comes again
	}
	p.queue = append(p.queue[:i], p.queue[i+1:]...)
	return f, true
}

// movable reports whether a frame may arrive twice or out of order: frames that open or end a session may not.
func movable(f string) bool {
	return !strings.HasPrefix(f, `{"hello"`) && !strings.HasPrefix(f, `{"welcome"`) && !strings.HasPrefix(f, `{"goodbye"`)
}

// related reports whether two frames carry versions of one object. A connection keeps these in order, since a client cannot otherwise tell
// an older from a newer "unknown".
func related(a, b string) bool {
	about := func(f string) string {
		if f, ok := strings.CutPrefix(f, `{"object":`); ok {
			name, _, _ := strings.Cut(f, `,"version"`)
			name, _, _ = strings.Cut(name, `,"unknown"`)
			return name
		}
		return f
	}
	return about(a) == about(b)
}

// link is a connection. Its server end is the session's transport.
type link struct {
	up, down *pipe
	sess     *session.Session
	w        *weather

	mu      sync.Mutex
	refused bool
	alive   bool // the server still lives
}

var _ session.Transport = (*link)(nil)

// connect opens a link to a hub. Its goroutine, one of running, ends when it is cut.
func connect(h *session.Hub, w *weather, running *sync.WaitGroup) *link {
	l := &link{up: newPipe(w), down: newPipe(w), w: w, alive: true}
	l.sess = h.Accept(l, session.Peer{})
	running.Go(l.serve)
	return l
}

// serve hands the client's frames to the session.
func (l *link) serve() {
	var c frame.Client
	for {
		text, ok := l.up.next()
		l.mu.Lock()
		alive := l.alive
		l.mu.Unlock()
		switch {
		case !alive:
			return
		case !ok:
			l.sess.Closed()
			return
		}
		if err := frame.DecodeJSON([]byte(text), &c); err != nil {
			panic(text + ": " + err.Error()) // cannot happen: the test's own client encoded it
		}
		if c.Kind == frame.KindObjectAck && l.w.chance(func(w *weather) float64 { return w.swallow }) {
			continue
		}
		l.sess.Frame(&c)
	}
}

// recv returns the client's next frame.
func (l *link) recv() (string, bool) {
	text, ok := l.down.next()
	l.mu.Lock()
	drained := l.refused && l.down.waiting() == 0 && l.alive && ok
	if drained {
		l.refused = false
	}
	l.mu.Unlock()
	if drained {
		l.sess.Drained()
	}
	return text, ok
}

// send sends a client's frame.
func (l *link) send(text string) { l.up.put(text) }

// cutOff ends the connection: frames under way are lost. Sometimes the server does not notice.
func (l *link) cutOff() {
	l.down.close()
	if !l.w.chance(func(w *weather) float64 { return w.halfOpen }) {
		l.up.close()
	}
}

// orphan cuts the connection of a killed server, whose session is not informed.
func (l *link) orphan() {
	l.mu.Lock()
	l.alive = false
	l.mu.Unlock()
	l.down.close()
	l.up.close()
}

// Write implements session.Transport.
func (l *link) Write(_ frame.ServerKind, head, tail []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w.mu.Lock()
	room := l.w.room
	l.w.mu.Unlock()
	if l.refused || l.down.waiting() >= room {
		l.refused = true
		return false
	}
	return l.down.put(string(head)+string(tail)) >= 0
}

// Close implements session.Transport.
func (l *link) Close(frame.Goodbye) {
	l.down.put(theEnd)
	l.up.close()
}

// theEnd is the frame that stands for the end of the connection after a goodbye.
const theEnd = `{"goodbye":{"reason":"the end"}}`

// Format implements session.Transport.
func (l *link) Format() frame.Format { return frame.JSON }

// Probe implements session.Transport.
func (l *link) Probe() {}

// Pause implements session.Transport.
func (l *link) Pause() { l.up.pause(true) }

// Resume implements session.Transport.
func (l *link) Resume() { l.up.pause(false) }

// Name implements session.Transport.
func (l *link) Name() string { return "sim" }
