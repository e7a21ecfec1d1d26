package session

import (
	"math"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// scratch holds buffers that routing and catching up reuse from one batch to the next.
type scratch struct {
	sessions []*Session
	head     []byte
	marks    []mailbox.Mark
	settles  []*mailbox.Settle
	chain    chain
	alone    bool // the session that receives the items is its recipient's only one
}

// flushMarks is how many deliveries are collected before they are passed on, so that the first ones of a large batch need not wait for the
// last.
const flushMarks = 512

// flush passes the marks and settles that delivery has collected to the store.
func (h *Hub) flush(sc *scratch) {
	if len(sc.marks) > 0 {
		h.cfg.Mailbox.Delivered(sc.marks)
		h.counts.delivered.Add(uint64(len(sc.marks)))
	}
	if len(sc.settles) > 0 {
		h.cfg.Store.SettleLater(sc.settles)
	}
	clear(sc.sessions)
	clear(sc.marks)
	sc.sessions, sc.marks, sc.settles = sc.sessions[:0], sc.marks[:0], nil
}

// Route implements mailbox.Router. Items go to the sessions of their recipients that are up to date; the other sessions read them from the
// store when they have room. All items of a batch for one recipient are sent in one piece.
func (h *Hub) Route(items []mailbox.Item) {
	sc := h.scratch.Get().(*scratch)
	sc.chain.link(items)
	for i := range items {
		if sc.chain.follows(i) {
			continue // went with an earlier one
		}
		it := &items[i]
		sc.sessions = h.reg.find(address{it.N.App, it.Recipient}, sc.sessions[:0])
		sc.alone = len(sc.sessions) == 1 && !h.several
		for _, s := range sc.sessions {
			s.offer(items, i, sc)
		}
		if len(sc.marks) >= flushMarks {
			h.flush(sc)
		}
	}
	h.flush(sc)
	sc.alone = false
	h.scratch.Put(sc)
}

// offer gives a session those items of a batch, from the i-th on, that are for its recipient.
func (s *Session) offer(items []mailbox.Item, i int, sc *scratch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := sc.chain.next(i)
	if k < 0 {
		s.take(&items[i], sc)
		return
	}
	s.cork()
	for s.take(&items[i], sc); k >= 0; k = sc.chain.next(k) {
		s.take(&items[k], sc)
	}
	s.uncork()
}

// take delivers a routed item if it is the session's next one and the session is up to date and has room; otherwise a store read delivers
// it. A read also handles an item that is not newer and that the session does not have: the store may have gone back, to a replica that
// lacks the last commits.
func (s *Session) take(it *mailbox.Item, sc *scratch) {
	if s.state != live || it.Seq <= s.last && s.has(it) {
		return // the session has ended, or a store read was faster
	}
	if s.behind {
		s.missed = max(s.missed, it.Seq)
		s.beside(it, sc)
		return
	}
	if it.Seq == s.last+1 && s.deliver(it, sc) {
		s.last = it.Seq
		return
	}
	s.behind, s.missed = true, max(s.missed, it.Seq)
	s.catchUpLocked()
	s.beside(it, sc)
}

// room is how many more notifications fit into the window.
func (s *Session) room() int {
	if s.peek {
		return math.MaxInt16 // no acknowledgement is expected; the transport's queue is the limit
	}
	room := int(s.window)
	if s.win != nil {
		room -= len(s.win.flight) - s.win.off
	}
	return room
}

// deliver writes an item for the first time on this session. False: it was not written.
func (s *Session) deliver(it *mailbox.Item, sc *scratch) bool {
	if s.room() <= 0 || !s.send(it, it.Attempts+1, sc) {
		return false
	}
	if s.peek {
		return true
	}
	sc.mark(s, it)
	if it.N.Ack == notification.AckNone || s.ways.is(once) {
		if !s.ways.is(once) {
			sc.settles = append(sc.settles, s.settleDelivered(it))
			sc.marks[len(sc.marks)-1].Told = sc.alone
		}
		w := s.busy()
		w.written.at = append(w.written.at, it.Pos)
		return true
	}
	due := s.dueAgain(it.Attempts + 1)
	s.addFlight(inflight{
		pos: it.Pos, id: it.N.ID, due: due, attempt: uint16(min(it.Attempts+1, math.MaxUint16)), all: it.N.Ack == notification.AckAll,
		since: s.hub.millis(it.N.Due()),
	})
	if due < s.wakeAt {
		s.arm(due)
	}
	return true
}

// dueAgain is when an attempt is repeated that gets no answer on this connection.
func (s *Session) dueAgain(attempt uint32) instant {
	if s.ways.is(quiet) {
		return never
	}
	return s.hub.instant() + s.hub.backoff(attempt)
}

// settleDelivered makes the settle of a copy that needs no acknowledgement.
func (s *Session) settleDelivered(it *mailbox.Item) *mailbox.Settle {
	now := s.hub.cfg.Now()
	return &mailbox.Settle{
		App: s.app, Recipient: s.recipient, ID: it.N.ID, Pos: it.Pos,
		As: notification.Delivered, At: now, DeliveredAt: now, Attempts: it.Attempts + 1, Over: mailbox.OverOf(s.t.Name(), s.device),
	}
}

// send writes an item's frame: a small head, and the tail that all receivers share.
func (s *Session) send(it *mailbox.Item, attempt uint32, sc *scratch) bool {
	f := s.t.Format()
	tail := frame.NotificationTail(it.N, f)
	sc.head = frame.AppendNotificationHead(sc.head[:0], f, it.Seq, attempt, len(tail))
	if !s.t.Write(frame.ServerNotification, sc.head, tail) {
		s.blocked = true
		return false
	}
	return true
}

func (sc *scratch) mark(s *Session, it *mailbox.Item) {
	now := s.hub.cfg.Now()
	if it.Attempts == 0 {
		s.hub.counts.took.delivered.Observe(max(now.Sub(it.N.Due()), 0).Seconds())
	}
	sc.marks = append(sc.marks, mailbox.Mark{
		App: s.app, Recipient: s.recipient, ID: it.N.ID, Pos: it.Pos, Attempts: it.Attempts + 1, DeliveredAt: now, Ack: it.N.Ack,
		Device: s.device, Over: mailbox.OverOf(s.t.Name(), s.device), Category: it.N.Content.Category,
	})
}

// backoff is how long an attempt waits for its acknowledgement: 10 s unless set otherwise, doubling up to 5 minutes.
func (h *Hub) backoff(attempt uint32) instant {
	d := h.cfg.Redeliver << min(attempt-1, 8)
	return ticks(min(d, max(h.cfg.Redeliver, redeliverMost)))
}

// Settled implements mailbox.Router. Notifications that were settled elsewhere leave the windows, and clients that may show them get a
// recall.
func (h *Hub) Settled(done []mailbox.Settled) {
	var found [4]*Session
	for i := range done {
		d := &done[i]
		sessions := h.reg.find(address{d.App, d.Recipient}, found[:0])
		only := len(sessions) == 1 && len(h.peers.Online(d.App, d.Recipient)) == 0
		for _, s := range sessions {
			s.settled(d, only)
		}
	}
}

func (s *Session) settled(d *mailbox.Settled, only bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != live {
		return
	}
	s.settledAck(d.Pos)
	held := s.drop(d.Pos)
	switch d.As {
	case notification.Recalled, notification.Replaced:
	case notification.Acked, notification.Replied:
		// An acknowledgement over HTTP names no device. If the recipient has only one session, that session counts as its sender.
		if !held || d.Device == s.name() || d.Device == "" && only {
			return
		}
	default:
		return // expired, failed or settled by its delivery: no recall is needed
	}
	s.write(frame.ServerRecall, frame.AppendRecall(nil, s.t.Format(), []string{d.ID}))
}

// drop removes a notification from the window and reports whether it was there.
func (s *Session) drop(pos int64) bool {
	i := s.inFlightPos(pos)
	if i >= 0 {
		s.takeFlight(i, false)
	}
	return i >= 0
}
