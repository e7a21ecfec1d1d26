package signal

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/engine/timerwheel"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// Client is a device, or a session without one, that has registrations. It outlives its session until all of its state is stored. Small
// types hold the parts of its state, each with rules of its own: phase, saves, progressPhase, pendingAnswers, reg. DESIGN.md has diagrams
// of them.
type Client struct {
	svc   *Service
	id    objectstore.ClientID
	timer timerwheel.Timer[*Client]

	mu       sync.Mutex
	phase    phase
	opened   int64         // when the last session joined, in Unix milliseconds
	progress progressPhase // of what is acknowledged
	queued   bool          // in the queue of clients with work to do
	behind   bool          // frames may have to be sent
	opening  int32         // number of sessions that are about to join
	wakeAt   second        // when the timer fires; 0: it is not set
	session  *liveSession  // the live session; nil: away
	regs     []reg         // registrations of the live session, sorted by id
	digest   object.Digest // of regs
	away     set           // replaces regs while there is no session
	saves    saves         // of the set
	pending  pendingAnswers
	reset    *reset // a reset that needs more frames; nil: none
}

// set is the form of regs on disk. It is also in memory while the client has no session, because one is about to join or the client is not
// completely stored.
type set struct {
	keys     []object.Key
	progress []objectstore.Progress
}

// liveSession connects one session with its client. It is the session's handle.
type liveSession struct {
	c       *Client
	peer    session.Sender
	who     session.Client // guarded by c.mu
	format  frame.Format
	over    atomic.Bool
	holds   atomic.Int32 // uses of its number: its own, and one for each object that lists the session
	id      sessionID
	started bool // the client was welcomed; guarded by c.mu like the fields below
	blocked bool // a write was refused, and the session has not drained since
}

var (
	_ session.Part     = (*liveSession)(nil)
	_ session.Digester = (*liveSession)(nil)
)

// lasting reports whether registrations outlive the session.
func (c *Client) lasting() bool { return c.id.Device != "" }

func (c *Client) find(id uint32) *reg {
	i, ok := slices.BinarySearchFunc(c.regs, id, func(r reg, id uint32) int { return cmp.Compare(r.id, id) })
	if !ok {
		return nil
	}
	return &c.regs[i]
}

// allowed reports whether the client may register for an object.
func (l *liveSession) allowed(k object.Key) bool {
	return (l.who.Only == "" || l.who.Only == k.Group) && (l.who.Rights.AllObjects() || object.Allowed(l.who.Rights.Objects, k))
}

// join adds an object to the set of a client with a session. The caller keeps regs sorted.
func (c *Client) join(k object.Key) (w *watched) {
	w, fresh := c.svc.index.acquire(name{c.id.App, k})
	if fresh {
		c.svc.unread.add(w)
	}
	w.add(c.session)
	c.digest += w.hash
	return w
}

func (c *Client) sortRegs() {
	slices.SortFunc(c.regs, func(a, b reg) int { return cmp.Compare(a.id, b.id) })
	if cap(c.regs) > len(c.regs)+len(c.regs)/4+2 {
		c.regs = slices.Clip(slices.Clone(c.regs)) // at 32 bytes each, spare capacity matters
	}
}

// restore gives the set to the session that has just joined, except the objects that the client's token no longer allows.
func (c *Client) restore() {
	keys, progress := c.away.keys, c.away.progress
	c.away = set{}
	have := make(map[object.Digest]objectstore.Progress, len(progress))
	for _, p := range progress {
		have[p.Object] = p
	}
	c.digest = 0
	c.regs = make([]reg, 0, len(keys))
	for _, k := range keys {
		if !c.session.allowed(k) {
			c.saves.change()
			continue
		}
		w := c.join(k)
		p := have[w.hash]
		c.regs = append(c.regs, reg{id: w.id, acked: p.Acked, sent: p.Sent})
	}
	c.sortRegs()
	c.behind = true
}

// keysTo appends the set.
func (c *Client) keysTo(dst []object.Key) []object.Key {
	if c.session == nil {
		return append(dst, c.away.keys...)
	}
	dst = slices.Grow(dst, len(c.regs))
	c.svc.index.each(c.regs, func(_ *reg, w *watched) { dst = append(dst, w.key) })
	return dst
}

// progressTo appends the client's progress for each object that was sent or acknowledged.
func (c *Client) progressTo(dst []objectstore.Progress) []objectstore.Progress {
	if c.session == nil {
		return append(dst, c.away.progress...)
	}
	c.svc.index.each(c.regs, func(r *reg, w *watched) {
		if r.acked != 0 || r.sent != 0 {
			dst = append(dst, objectstore.Progress{Object: w.hash, Acked: r.acked, Sent: r.sent})
		}
	})
	return dst
}

// detach ends the session's part: the session watches no objects any more. Changes that are not stored yet stay in c.away.
func (c *Client) detach() {
	l := c.session
	if l == nil {
		return
	}
	if c.lasting() && c.phase == loaded {
		c.away.keys, c.away.progress = c.keysTo(nil), c.progressTo(nil)
	}
	l.over.Store(true)
	x := &c.svc.index
	for i := range c.regs {
		w := x.get(c.regs[i].id)
		w.left(&x.sessions)
		x.release(w)
	}
	x.sessions.leave(l)
	c.session, c.regs, c.reset, c.pending = nil, nil, nil, pendingAnswers{}
	if c.saves.phase != saveFailed { // after a failed save, the timer stores the rest
		c.svc.wheel.Stop(&c.timer)
		c.wakeAt = 0
	}
}

// later queues the client for a goroutine that holds no locks.
func (c *Client) later() {
	if !c.queued {
		c.queued = true
		c.svc.work.add(c)
	}
}

// arm makes the timer fire at the time at, or earlier.
func (c *Client) arm(at second) {
	if c.wakeAt != 0 && c.wakeAt <= at {
		return
	}
	c.wakeAt = at
	c.svc.wheel.Set(&c.timer, c.svc.until(at))
}

// due runs when the timer fires.
func (c *Client) due() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wakeAt, c.behind = 0, true
	c.saves.retry()
	c.later()
}
