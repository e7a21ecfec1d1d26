package session

import (
	"sync"

	"godwit.dev/godwit/internal/frame"
	"godwit.dev/godwit/internal/mailbox"
)

// catchUps is the queue of sessions that need a store read: after hello, after a gap or a full window, for
// redelivery, and now and then to compare. Whatever has queued is read together, so that a storm of reconnects
// becomes a few queries of hundreds of recipients each.
type catchUps struct {
	limit   int
	mu      sync.Mutex
	queue   []*Session
	running int
	wg      sync.WaitGroup
}

// catchUpLocked queues a session that is behind, unless something must happen first: an acknowledgement to make
// room, or the transport to drain. Both call it again.
func (s *Session) catchUpLocked() {
	if !s.behind || s.blocked || len(s.flight()) > 0 && s.room() < int(s.window+1)/2 {
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
	c := &s.hub.behind
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, s)
	if c.running < c.limit && (c.running == 0 || len(c.queue) >= readBatch) {
		c.running++
		c.wg.Go(s.hub.readBehind)
	}
}

// readBehind works the queue off in batches.
func (h *Hub) readBehind() {
	c := &h.behind
	for {
		c.mu.Lock()
		n := min(len(c.queue), readBatch)
		if n == 0 || h.ctx.Err() != nil {
			c.running--
			c.queue = nil
			c.mu.Unlock()
			return
		}
		batch := c.queue[:n:n]
		c.queue = c.queue[n:]
		c.mu.Unlock()
		h.catchUp(batch)
	}
}

// reading is what one session of a batch asks the store.
type reading struct {
	s       *Session
	query   int // index of its PendingQuery; -1: none
	refs    int // index of its first Ref
	nrefs   int
	compare bool // the refs are all that is in flight, to see what was settled
}

// catchUp reads for a batch of sessions and delivers what they miss.
func (h *Hub) catchUp(batch []*Session) {
	plan := make([]reading, 0, len(batch))
	qs := make([]mailbox.PendingQuery, 0, len(batch))
	var refs []mailbox.Ref
	for _, s := range batch {
		plan = s.plan(plan, &qs, &refs)
	}
	results, err := h.cfg.Mailbox.Pending(h.ctx, qs)
	var items []*mailbox.Item
	if err == nil && len(refs) > 0 {
		items, err = h.cfg.Mailbox.Items(h.ctx, refs)
	}
	if err != nil {
		// The timers of these sessions come back to it.
		if h.ctx.Err() == nil {
			h.log.WarnContext(h.ctx, "reading mailboxes failed, will try again", "sessions", len(plan), "error", err)
		}
		for _, r := range plan {
			r.s.retryRead()
		}
		return
	}
	sc := h.scratch.Get().(*scratch)
	for _, r := range plan {
		r.s.apply(r, results, items, refs, sc)
	}
	h.flush(sc)
	h.scratch.Put(sc)
}

// plan adds to the reads of a batch what s needs.
func (s *Session) plan(plan []reading, qs *[]mailbox.PendingQuery, refs *[]mailbox.Ref) []reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != live {
		s.queued = false
		return plan
	}
	r := reading{s: s, query: -1, refs: len(*refs)}
	now := s.hub.instant()
	if r.compare = s.rereadAt <= now; r.compare {
		s.rereadAt = now + ticks(s.hub.cfg.Reread)
		s.behind = true
		s.forgetAcked()
	}
	for _, f := range s.flight() {
		if f.again || r.compare {
			*refs = append(*refs, mailbox.Ref{App: s.app, Recipient: s.recipient, Pos: f.pos})
			r.nrefs++
		}
	}
	if room := s.room(); s.behind && !s.blocked && room > 0 {
		r.query = len(*qs)
		q := mailbox.PendingQuery{App: s.app, Recipient: s.recipient, Device: s.name(), Have: s.have(), Limit: min(room, maxWindow)}
		*qs = append(*qs, q)
	}
	return append(plan, r)
}

// apply delivers what a read brought. Redeliveries come first: they are older.
func (s *Session) apply(r reading, results []mailbox.PendingResult, items []*mailbox.Item, refs []mailbox.Ref, sc *scratch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued = false
	if s.state != live {
		return
	}
	if r.nrefs > 0 {
		s.redeliver(items[r.refs:r.refs+r.nrefs], refs[r.refs:r.refs+r.nrefs], sc)
	}
	if r.query < 0 {
		return
	}
	res := &results[r.query]
	for i := range res.Items {
		it := &res.Items[i]
		if s.peek && it.Seq <= s.last || s.inFlightPos(it.Pos) >= 0 {
			continue
		}
		if !s.deliver(it, sc) {
			s.catchUpLocked() // the window is full or the transport is: stays behind
			return
		}
	}
	if !res.More || s.peek { // an observer sees the first of a long backlog, then what is new
		s.last = max(s.last, res.LastSeq)
		s.behind = s.missed > s.last
	}
	s.catchUpLocked()
}

// redeliver writes again what waited too long for its acknowledgement, and drops what was settled meanwhile.
func (s *Session) redeliver(items []*mailbox.Item, refs []mailbox.Ref, sc *scratch) {
	now := s.hub.instant()
	for i, it := range items {
		k := s.inFlightPos(refs[i].Pos)
		if k < 0 {
			continue
		}
		f := &s.win.flight[k]
		if it == nil {
			id := f.id
			s.takeFlight(k, false)
			s.write(frame.ServerRecall, frame.AppendRecall(nil, s.t.Format(), []string{id}))
			continue
		}
		if !f.again {
			continue
		}
		f.again = false
		it.Attempts = max(it.Attempts, uint32(f.attempt))
		f.due = now + backoff(it.Attempts+1)
		if !s.blocked && s.send(it, it.Attempts+1, sc) {
			f.attempt++
			sc.mark(s, it)
			s.hub.counts.redelivered.Add(1)
		}
	}
	s.arm(s.nextWake(now))
}

// retryRead leaves a session whose read failed to its timer.
func (s *Session) retryRead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued = false
	if s.state == live {
		s.behind = true
		s.arm(s.hub.instant() + ticks(readRetry))
	}
}
