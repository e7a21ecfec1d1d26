package signal

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/frame"
	"godwit.dev/godwit/internal/object"
	"godwit.dev/godwit/internal/session"
	"godwit.dev/godwit/internal/timerwheel"
)

// reg is one registration of a client with a live session: 32 bytes, and 4 in the object's list of sessions.
type reg struct {
	acked, sent object.Version
	id          uint32 // of the watched object
	due         second // of the next redelivery; 0: none
	attempt     uint8
	told        bool // something was sent on this session: sent, or unknown
	unknown     bool // what was sent last said unknown
	wanted      bool // asked for by a register frame: to be sent whatever was acknowledged or who made it
}

// Client is a device, or a session without one, that has registrations. It outlives its session for as long as
// something of it is not stored.
type Client struct {
	svc   *Service
	id    ClientID
	timer timerwheel.Timer[*Client]

	mu      sync.Mutex
	link    *link // the live session; nil: away
	opening int   // sessions that are about to join
	regs    []reg // sorted by id
	keys    parked
	digest  object.Digest // of regs
	stored  object.Digest // of what is on disk: what the client is told
	count   int           // of what is on disk
	staged  *staged
	answers []answer
	ops     uint32        // changes of the set so far
	saving  uint32        // the change up to which a save is under way; 0: none
	saved   uint32        // the change up to which the set is on disk
	written chan struct{} // closed when the save under way has ended; nil: nobody waits
	wakeAt  second

	loaded  bool // the stored registrations were read
	reading bool // they are being read again after a failure
	failed  bool // a save failed; the timer tries again
	queued  bool // to be attended to
	behind  bool // something may have to be sent
	touched bool // what is acknowledged differs from what is stored
	noted   bool // in the flusher's list
	noting  bool // the flusher is writing it down: a save would be overtaken by what is older
	removed bool // not in the roster any more: whoever still finds it looks again
	tell    bool // the digest is to be sent
}

// parked are the registrations of a client that has no session: its next one is about to join, or it is not wholly
// written down.
type parked struct {
	keys     []object.Key
	progress []Progress
}

// staged collects a reset that comes in several frames.
type staged struct {
	keys    []object.Key
	answers []answer
}

// answer is what one register frame is told once its change is on disk.
type answer struct {
	op      uint32
	group   string
	objects []string // empty: the digest alone
	lost    bool     // the change could not be stored
}

// link ties one session to its client. It is the session's handle.
type link struct {
	c       *Client
	peer    session.Sender
	who     session.Client // guarded by c.mu
	format  frame.Format
	over    atomic.Bool
	holds   atomic.Int32 // on its number: its own, and one for each object that lists it
	id      linkID
	started bool // welcomed; guarded by c.mu like what follows
	blocked bool // a write was refused and there was no room since
}

var (
	_ session.Part     = (*link)(nil)
	_ session.Digester = (*link)(nil)
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
func (l *link) allowed(k object.Key) bool {
	return (l.who.Only == "" || l.who.Only == k.Group) && object.Allowed(l.who.Patterns, k)
}

// join adds an object to the set of a client that has a session. The caller keeps regs sorted.
func (c *Client) join(k object.Key) (w *watched) {
	w, fresh := c.svc.index.acquire(name{c.id.App, k})
	if fresh {
		c.svc.unread.add(w)
	}
	w.add(c.link)
	c.digest += w.hash
	return w
}

func (c *Client) sortRegs() {
	slices.SortFunc(c.regs, func(a, b reg) int { return cmp.Compare(a.id, b.id) })
	if cap(c.regs) > len(c.regs)+len(c.regs)/4+2 {
		c.regs = slices.Clip(slices.Clone(c.regs)) // at 32 bytes each, slack counts
	}
}

// restore gives the set to the session that has just joined, leaving out what the client's token no longer allows.
func (c *Client) restore() {
	keys, progress := c.keys.keys, c.keys.progress
	c.keys = parked{}
	have := make(map[object.Digest]Progress, len(progress))
	for _, p := range progress {
		have[p.Object] = p
	}
	c.digest = 0
	c.regs = make([]reg, 0, len(keys))
	for _, k := range keys {
		if !c.link.allowed(k) {
			c.ops++
			continue
		}
		w := c.join(k)
		p := have[w.hash]
		c.regs = append(c.regs, reg{id: w.id, acked: p.Acked, sent: p.Sent})
	}
	c.sortRegs()
	c.behind = true
	if !c.lasting() {
		c.stored, c.count = c.digest, len(c.regs)
	}
}

// keysTo appends the set.
func (c *Client) keysTo(dst []object.Key) []object.Key {
	if c.link == nil {
		return append(dst, c.keys.keys...)
	}
	dst = slices.Grow(dst, len(c.regs))
	c.svc.index.each(c.regs, func(_ *reg, w *watched) { dst = append(dst, w.key) })
	return dst
}

// progressTo appends what the client has of its objects, leaving out those of which it has nothing.
func (c *Client) progressTo(dst []Progress) []Progress {
	if c.link == nil {
		return append(dst, c.keys.progress...)
	}
	c.svc.index.each(c.regs, func(r *reg, w *watched) {
		if r.acked != 0 || r.sent != 0 {
			dst = append(dst, Progress{Object: w.hash, Acked: r.acked, Sent: r.sent})
		}
	})
	return dst
}

// park ends the session's part: nothing is watched any more, and what is not stored waits to be.
func (c *Client) park() {
	l := c.link
	if l == nil {
		return
	}
	if c.lasting() && c.loaded {
		c.keys.keys, c.keys.progress = c.keysTo(nil), c.progressTo(nil)
	}
	l.over.Store(true)
	x := &c.svc.index
	for i := range c.regs {
		w := x.get(c.regs[i].id)
		w.left(&x.links)
		x.release(w)
	}
	x.links.leave(l)
	c.link, c.regs, c.staged, c.answers = nil, nil, nil, nil
	c.tell = false
	if !c.failed { // else the timer will try again to store what is not
		c.svc.wheel.Stop(&c.timer)
		c.wakeAt = 0
	}
}

// later asks for the client to be attended to.
func (c *Client) later() {
	if !c.queued {
		c.queued = true
		c.svc.work.add(c)
	}
}

// arm sets the timer to fire at a time unless it does so before.
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
	c.wakeAt, c.failed, c.behind = 0, false, true
	c.later()
}
