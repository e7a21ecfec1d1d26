package reactor

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/engine/timerwheel"
)

// poller is the part that differs between the drivers: it reports to a loop which connections can be read or written.
type poller interface {
	// wait blocks until a connection is ready or wake was called, and handles the ready connections.
	wait(l *loop) error
	// wake makes wait return; it may be called from any goroutine.
	wake()
	// attach begins to watch c; its mutex is held.
	attach(c *Conn) error
	// update makes the poller watch for the events that c needs (wantsInput, wantsOutput); its mutex is held.
	update(c *Conn) error
	// detach stops watching c and closes its descriptor; its mutex is not held.
	detach(c *Conn)
	// release stops watching c and converts its descriptor to a connection of package net; its mutex is held.
	release(c *Conn) (net.Conn, error)
	close()
}

// Work for a connection that other goroutines request from its loop, as bits.
const (
	workOpen    uint32 = 1 << iota // create the handler and begin to watch
	workResume                     // pass on the bytes that were held back during a pause
	workFlushed                    // the queue became empty outside the loop
	workClose                      // the connection is dead: call the handler's Closed
)

// headroom is the space in front of a read for a kept incomplete frame, so that the handler gets both in one slice without a copy of the
// new bytes.
const headroom = 16 << 10

// readSize is the size of one read: the maximum that a busy connection gets before the next one has its turn.
const readSize = 64 << 10

// scratch holds the read buffers of a loop (or of one busy connection of the goroutine driver).
type scratch struct {
	raw   [headroom + readSize]byte
	plain []byte // for decrypted bytes; allocated with the first TLS connection
}

// decrypted returns the buffer for decrypted bytes: headroom, then space for one TLS record (RFC 8446 5.1: at most 16 KiB).
func (s *scratch) decrypted() []byte {
	if s.plain == nil {
		s.plain = make([]byte, headroom+16<<10)
	}
	return s.plain
}

// entry is an entry in a loop's table. gen grows each time the entry is reused, so that an event fetched before a connection ended never
// reaches its successor.
type entry struct {
	conn *Conn
	gen  int32
}

// loop runs the handlers of its connections.
type loop struct {
	r     *Reactor
	poll  poller
	wheel *timerwheel.Wheel[*Conn]
	buf   scratch

	// Only the loop itself uses these.
	later  []func() // calls that wait until no connection has input, or for mostRounds
	rounds int      // since the first of them came
	events int      // of the last wait

	parked  atomic.Bool // blocked in wait, or about to be: whoever adds work must wake the loop
	tickDue atomic.Bool

	mu       sync.Mutex // the fields below
	first    *Conn      // list of connections with work, linked by nextWork
	last     *Conn
	waiting  int
	stopping bool // take no new connections
	stopped  bool

	tableMu sync.Mutex // with epoll, only the loop itself locks it
	table   []entry
	free    []int32

	backlogMu sync.Mutex
	backlog   map[*Conn]struct{} // connections with queued bytes

	bytesIn, bytesOut atomic.Uint64
}

func newLoop(r *Reactor, p poller) *loop {
	l := &loop{r: r, poll: p, backlog: map[*Conn]struct{}{}}
	l.wheel = timerwheel.New(timerwheel.DefaultTick, l.timerFired)
	return l
}

// post requests work w from the loop for c; it returns false if the loop has ended. c's mutex may be held.
func (l *loop) post(c *Conn, w uint32) bool {
	l.mu.Lock()
	if l.stopped || l.stopping && w == workOpen {
		l.mu.Unlock()
		return false
	}
	if c.work == 0 {
		if l.last == nil {
			l.first = c
		} else {
			l.last.nextWork = c
		}
		l.last = c
		l.waiting++
	}
	c.work |= w
	l.mu.Unlock()
	l.wake()
	return true
}

// wake makes a parked loop continue. A running loop looks for work before it parks.
func (l *loop) wake() {
	if l.parked.Load() {
		l.poll.wake()
	}
}

// hasWork reports whether there is work other than connection events.
func (l *loop) hasWork() bool {
	if l.tickDue.Load() || len(l.later) > 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first != nil || l.stopping
}

// next removes the first connection from the list of those with work.
func (l *loop) next() (*Conn, uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.first
	if c == nil {
		return nil, 0
	}
	l.first, c.nextWork = c.nextWork, nil
	if l.first == nil {
		l.last = nil
	}
	l.waiting--
	w := c.work
	c.work = 0
	return c, w
}

// close tells the loop to close its connections and end.
func (l *loop) close() {
	l.mu.Lock()
	l.stopping = true
	l.mu.Unlock()
	l.poll.wake()
}

func (l *loop) run() {
	for {
		l.parked.Store(true)
		err := l.poll.wait(l)
		l.parked.Store(false)
		if err != nil {
			l.r.log.Error("waiting for connection events failed", "error", err)
		}
		if l.tickDue.Swap(false) {
			l.wheel.Advance(time.Now())
		}
		l.mu.Lock()
		n, stopping := l.waiting, l.stopping
		l.mu.Unlock()
		for range n { // work posted meanwhile is done in the next round, after the connections' events
			l.work(l.next())
		}
		l.callLater()
		if stopping || err != nil {
			l.shutdown()
			return
		}
	}
}

// mostRounds limits how long calls wait while connections have input again and again.
const mostRounds = 4

// callLater makes the calls that have waited.
func (l *loop) callLater() {
	if len(l.later) == 0 {
		return
	}
	if l.rounds++; l.events > 0 && l.rounds < mostRounds {
		return
	}
	l.rounds = 0
	for _, f := range l.later {
		f()
	}
	clear(l.later)
	l.later = l.later[:0]
}

// shutdown closes all connections of the loop. No more can be added.
func (l *loop) shutdown() {
	l.mu.Lock()
	l.stopping = true
	l.mu.Unlock()
	l.tableMu.Lock()
	all := make([]*Conn, 0, len(l.table)-len(l.free))
	for _, e := range l.table {
		if e.conn != nil {
			all = append(all, e.conn)
		}
	}
	l.tableMu.Unlock()
	for _, c := range all {
		c.enter()
		c.finish(ErrReactorClosed)
		c.leave()
	}
	for c, _ := l.next(); c != nil; c, _ = l.next() { // connections that were added too late, or are already finished
		c.enter()
		c.finish(ErrReactorClosed)
		c.leave()
	}
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.poll.close()
}

// work does the work that was posted for c.
func (l *loop) work(c *Conn, w uint32) {
	if c == nil {
		return
	}
	c.enter()
	defer c.leave()
	if w&workOpen != 0 {
		c.begin()
	}
	if w&workClose != 0 {
		c.finish(nil)
		return
	}
	if w&workFlushed != 0 {
		c.flushed()
	}
	if w&workResume != 0 {
		c.resume(&l.buf)
	}
}

// timerFired determines which of a connection's two deadlines has passed.
func (l *loop) timerFired(t *timerwheel.Timer[*Conn], now time.Time) {
	c := t.Owner
	c.enter()
	defer c.leave()
	c.deadline(now)
}

// add gives c an entry in the table.
func (l *loop) add(c *Conn) {
	l.tableMu.Lock()
	defer l.tableMu.Unlock()
	if n := len(l.free); n > 0 {
		c.slot = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		c.slot = int32(len(l.table)) // fits: descriptors are int32 as well, and there cannot be more connections
		l.table = append(l.table, entry{})
	}
	l.table[c.slot].conn = c
	c.gen = l.table[c.slot].gen
}

// remove frees c's place.
func (l *loop) remove(c *Conn) {
	l.tableMu.Lock()
	defer l.tableMu.Unlock()
	e := &l.table[c.slot]
	e.conn = nil
	e.gen++
	l.free = append(l.free, c.slot)
}

// lookup returns the connection of an event; nil if it is gone. It runs on the loop only.
func (l *loop) lookup(slot, gen int32) *Conn {
	if slot < 0 || int(slot) >= len(l.table) || l.table[slot].gen != gen {
		return nil
	}
	return l.table[slot].conn
}
