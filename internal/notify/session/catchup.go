package session

import (
	"slices"
	"sync"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// catchUps is the queue of sessions that need a store read: after hello, after a gap or a full window, for redelivery, and at intervals to
// compare. One read serves the queued sessions of one app together, so that a storm of reconnects becomes a few queries of hundreds of
// recipients each. Apps take turns, and no app can use all readers: an app with full mailboxes delays only itself.
type catchUps struct {
	limit   int
	mu      sync.Mutex
	apps    map[string]*appBehind
	turns   []*appBehind // apps with waiting sessions; the first is next
	running int
	closed  bool           // no reader starts any more
	wg      sync.WaitGroup // of readers
}

// appBehind holds the sessions of one app that wait for a read, and the number of its running reads.
type appBehind struct {
	app     string
	queue   []*Session
	running int
}

// add queues a session and reports whether another reader should start. That reader calls wg.Done when it ends.
func (c *catchUps) add(s *Session) (start bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.apps[s.app]
	if a == nil {
		if c.apps == nil {
			c.apps = make(map[string]*appBehind)
		}
		a = &appBehind{app: s.app}
		c.apps[s.app] = a
	}
	if a.queue = append(a.queue, s); len(a.queue) == 1 {
		c.turns = append(c.turns, a)
	}
	if start = !c.closed && c.running < c.limit && (a.running == 0 || len(a.queue) >= readBatch); start {
		c.running++
		c.wg.Add(1)
	}
	return start
}

// close waits for the readers. Other nodes may still request reads, which will not start.
func (c *catchUps) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.wg.Wait()
}

// next returns the next batch for a reader, and its app. done is the app of the batch that the reader has finished. Nil: no app has a batch
// for this reader.
func (c *catchUps) next(done *appBehind) (a *appBehind, batch []*Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done != nil {
		if done.running--; done.running == 0 && len(done.queue) == 0 {
			delete(c.apps, done.app)
		}
	}
	for range c.turns {
		a = c.turns[0]
		c.turns = c.turns[1:]
		if a.running >= c.limit-1 {
			c.turns = append(c.turns, a)
			continue
		}
		n := min(len(a.queue), readBatch)
		batch = a.queue[:n:n]
		if a.queue = a.queue[n:]; len(a.queue) > 0 {
			c.turns = append(c.turns, a)
		} else {
			a.queue = nil
		}
		a.running++
		return a, batch
	}
	c.running--
	return nil, nil
}

// catchUpLocked queues a session that is behind, unless an acknowledgement must first make room, or the transport must drain. Both call it
// again.
func (s *Session) catchUpLocked() {
	lacks := s.behind || s.win != nil && s.win.crowded
	if !lacks || s.blocked || s.room() < int(s.window+1)/2 {
		return
	}
	s.readSoon()
}

// readSoon queues the session for a store read.
func (s *Session) readSoon() {
	if s.queued || s.state != live {
		return
	}
	s.queued = true
	if s.hub.behind.add(s) {
		go s.hub.readBehind()
	}
}

// readBehind reads for the queued sessions, batch by batch.
func (h *Hub) readBehind() {
	defer h.behind.wg.Done()
	a, batch := h.behind.next(nil)
	for a != nil {
		if h.ctx.Err() == nil {
			h.catchUp(batch)
		}
		a, batch = h.behind.next(a)
	}
}

// reading is one session's part in a batch of reads.
type reading struct {
	s       *Session
	head    int  // index of its address in reads.of; -1: its head is not read
	query   int  // index of its PendingQuery; -1: none
	refs    int  // index of its first Ref
	nrefs   int  // number of its Refs: notifications due for redelivery or, in a comparison, all in flight
	nothing bool // the session lacks nothing, so there was no read
}

// reads holds the store's queries for a batch of sessions, and their results.
type reads struct {
	plan    []reading
	of      []mailbox.Address
	qs      []mailbox.PendingQuery
	results []mailbox.PendingResult
	refs    []mailbox.Ref
	items   []*mailbox.Item
	inboxes []*Session // whose counts are compared
	fresh   bool       // one of the sessions is new on this node
}

// catchUp reads for a batch of sessions and delivers the notifications that they lack.
func (h *Hub) catchUp(batch []*Session) {
	rd := &reads{plan: make([]reading, 0, len(batch))}
	h.lookForInboxes()
	for _, s := range batch {
		s.plan(rd)
	}
	if rd.fresh {
		h.flushPeers()
	}
	var err error
	if len(rd.of) > 0 {
		err = h.readHeads(rd)
	}
	if err == nil && len(rd.qs) > 0 {
		rd.results, err = h.cfg.Store.Pending(h.ctx, rd.qs)
	}
	if err == nil && len(rd.refs) > 0 {
		rd.items, err = h.cfg.Store.Items(h.ctx, rd.refs)
	}
	if err != nil {
		// Their timers will try again.
		if h.ctx.Err() == nil {
			h.log.WarnContext(h.ctx, "reading mailboxes failed, will try again", "sessions", len(rd.plan), "error", err)
		}
		h.blind.Store(true)
		sc := h.scratch.Get().(*scratch)
		for i := range rd.plan {
			rd.plan[i].s.retryRead(&rd.plan[i], sc)
		}
		h.flush(sc)
		h.scratch.Put(sc)
		return
	}
	h.blind.Store(false)
	sc := h.scratch.Get().(*scratch)
	for i := range rd.plan {
		rd.plan[i].s.apply(&rd.plan[i], rd, sc)
	}
	h.flush(sc)
	h.scratch.Put(sc)
	h.recount(rd.inboxes)
}

// flushPeers runs before a read for new sessions: notifications routed after the read's snapshot must reach this node. If other nodes
// cannot be reached, the read takes place all the same; notifications that they route meanwhile are found when they can be reached again.
func (h *Hub) flushPeers() {
	if err := h.peers.Flush(h.ctx); err != nil && h.ctx.Err() == nil {
		h.log.DebugContext(h.ctx, "sessions read their mailboxes while other nodes cannot be told of them", "error", err)
	}
}

// readHeads reads the heads of mailboxes before the rows, so that only sessions that may lack some query rows.
func (h *Hub) readHeads(rd *reads) error {
	heads, err := h.cfg.Store.Heads(h.ctx, rd.of)
	if err != nil {
		return err
	}
	for i := range rd.plan {
		if r := &rd.plan[i]; r.head >= 0 {
			r.s.compare(r, heads[r.head], rd)
		}
	}
	return nil
}

// plan adds the queries for s to a batch. If s is only compared, is up to date and has nothing in flight, the head of its mailbox is
// enough.
func (s *Session) plan(rd *reads) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != live {
		s.queued = false
		s.hub.kept.take(s)
		return
	}
	r := reading{s: s, head: -1, query: -1, refs: len(rd.refs)}
	now := s.hub.instant()
	rd.fresh = rd.fresh || s.fresh(now)
	compare := s.rereadAt <= now
	if compare {
		s.rereadAt = s.nextReread(now)
		if _, waits := s.hub.recounts.told(s); waits {
			rd.inboxes = append(rd.inboxes, s)
		}
		s.forgetAcked(now)
		if s.win == nil && !s.behind {
			r.head = len(rd.of)
			rd.of = append(rd.of, mailbox.Address{App: s.app, Recipient: s.recipient})
			rd.plan = append(rd.plan, r)
			return
		}
		s.behind = true
	}
	for _, f := range s.flight() {
		if f.is(again) || compare {
			rd.refs = append(rd.refs, mailbox.Ref{App: s.app, Recipient: s.recipient, Pos: f.pos})
			r.nrefs++
		}
	}
	if s.win != nil {
		s.win.crowded = false
		if compare {
			r.nrefs += s.askWritten(rd)
		}
	}
	s.ask(&r, rd)
	rd.plan = append(rd.plan, r)
}

// askWritten adds queries for notifications without acknowledgement that were written before the last comparison. It shows which of them
// are not settled yet.
func (s *Session) askWritten(rd *reads) (n int) {
	u := &s.win.written
	n = u.stale
	for _, pos := range u.at[:n] {
		rd.refs = append(rd.refs, mailbox.Ref{App: s.app, Recipient: s.recipient, Pos: pos})
	}
	u.stale = len(u.at)
	return n
}

// ask adds the queries for the rows that a session has room for.
func (s *Session) ask(r *reading, rd *reads) {
	if room := s.room(); s.behind && !s.blocked && room > 0 {
		r.query, s.missed = len(rd.qs), 0 // all notifications dropped so far were stored before this read
		q := mailbox.PendingQuery{App: s.app, Recipient: s.recipient, Device: s.name(), Limit: min(room, maxWindow), Bytes: readBytes}
		if s.win != nil {
			q.Have = s.win.have()
		}
		rd.qs = append(rd.qs, q)
	}
}

// compare checks the head of the session's mailbox. Waiting notifications may have been routed meanwhile, or not be for this device: the
// rows will show that. An observer needs no notification that is not newer than the last one it was sent, whether settled or not.
func (s *Session) compare(r *reading, head mailbox.Head, rd *reads) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == live && (s.behind || head.Waits && (!s.peek || head.LastSeq > s.last)) {
		s.behind = true
		s.ask(r, rd)
		return
	}
	r.nothing, s.queued = true, false
	s.hub.kept.take(s)
	s.last = max(s.last, head.LastSeq)
}

// apply delivers the result of a read. Redeliveries come first: they are older.
func (s *Session) apply(r *reading, rd *reads, sc *scratch) {
	if r.nothing {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued = false
	s.hub.kept.take(s)
	if s.state != live {
		return
	}
	s.cork()
	defer s.uncork()
	if r.nrefs > 0 {
		s.redeliver(rd.items[r.refs:r.refs+r.nrefs], rd.refs[r.refs:r.refs+r.nrefs], sc)
	}
	if r.query < 0 {
		s.catchUpLocked() // room that came during the read found the session queued
		return
	}
	res := &rd.results[r.query]
	if s.peek && res.LastSeq < s.last {
		s.last = 0 // the store was restored to an earlier state: its items may be new
	}
	for i := range res.Items {
		it := &res.Items[i]
		if s.peek && it.Seq <= s.last || s.inFlightPos(it.Pos) >= 0 {
			continue
		}
		if !s.deliver(it, sc) {
			s.catchUpLocked() // the window or the transport is full: the session stays behind
			return
		}
	}
	if !res.More || s.peek { // of many waiting notifications an observer gets only the first, then new ones
		s.last = res.LastSeq // smaller than before if the store was restored to an earlier state; during a read, no other code changes it
		s.behind = s.missed > s.last
	}
	s.catchUpLocked()
}

// redeliver writes notifications again whose acknowledgement is overdue, and drops those settled meanwhile.
func (s *Session) redeliver(items []*mailbox.Item, refs []mailbox.Ref, sc *scratch) {
	now := s.hub.instant()
	for i, it := range items {
		k := s.inFlightPos(refs[i].Pos)
		if k < 0 {
			s.settleWritten(refs[i].Pos, it, sc)
			continue
		}
		f := &s.win.flight[k]
		if it == nil {
			id := f.id
			s.takeFlight(k, false)
			s.write(frame.ServerRecall, frame.AppendRecall(nil, s.t.Format(), []string{id}))
			continue
		}
		if !f.is(again) {
			continue
		}
		if f.is(off) && s.room() <= 0 {
			s.win.crowded = true // read again once acknowledgements have made room
			continue
		}
		f.step &^= again
		it.Attempts = max(it.Attempts, uint32(f.attempt))
		f.due = s.dueAgain(it.Attempts + 1)
		if !s.blocked && s.send(it, it.Attempts+1, sc) {
			s.win.putBack(f)
			f.attempt++
			sc.mark(s, it)
			s.hub.counts.redelivered.Add(1)
		}
	}
	s.arm(s.nextWake(now))
}

// settleWritten settles a copy again that the store still lists as pending: the copy is not written twice to the same connection.
func (s *Session) settleWritten(pos int64, it *mailbox.Item, sc *scratch) {
	switch {
	case s.win == nil || !slices.Contains(s.win.written.at, pos):
	case it == nil:
		s.settledAck(pos)
	case s.ways.is(once): // it is meant to stay
	default:
		sc.settles = append(sc.settles, s.settleDelivered(it))
	}
}

// retryRead schedules another read for a session whose read failed, and delivers the notifications that the bus carried meanwhile.
func (s *Session) retryRead(r *reading, sc *scratch) {
	if r.nothing {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued = false
	items := s.hub.kept.take(s)
	if s.state != live {
		return
	}
	again := s.hub.instant() + ticks(readRetry)
	if r.head >= 0 && !s.behind {
		s.rereadAt = again // the session still needs only a comparison
	} else {
		s.behind = true
	}
	for i := range items {
		s.deliverBeside(&items[i], sc)
	}
	s.arm(again)
}
