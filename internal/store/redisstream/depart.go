package redisstream

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// departure lists entries to delete, with the settlement to report afterwards.
type departure struct {
	st     *stream
	why    reason
	ids    []EntryID // of one notification
	e      entry     // the one that sessions know
	settle mailbox.Settled
	poison *parsed
}

type reason uint8

const (
	acked    reason = iota
	expired         // its time is over
	surplus         // a twin; nobody is told
	poisoned        // it is set aside
)

// origins are the metric labels of entries whose deletion is postponed.
var origins = [...]string{acked: "ack", expired: "expired", surplus: "duplicate", poisoned: "poison"}

// deleteBatch is how many departures share a round trip to Redis.
const deleteBatch = 256

// SettleLater implements session.Store. Acknowledged entries are deleted soon; the deletion is repeated until
// Redis has confirmed it.
func (s *Store) SettleLater(batch []*mailbox.Settle) {
	for _, ack := range batch {
		if ack.Nack {
			continue // the entry is read again; rejections are not counted
		}
		st := s.online(ack.Recipient)
		if st == nil || ack.ID == "" {
			s.cfg.Observer.Acked(Unknown, time.Time{})
			continue
		}
		st.mu.Lock()
		e := st.byPos(ack.Pos)
		if e == nil || e.note != ack.ID {
			e = st.byNote(ack.ID)
		}
		if e == nil {
			st.mu.Unlock()
			s.cfg.Observer.Acked(Unknown, time.Time{})
			continue
		}
		if e.attempts == 0 && ack.Attempts > 0 { // the ack arrived before the report that the entry was sent
			s.sent(e, ack.Attempts, ack.At)
		}
		d := &departure{st: st, why: acked, e: *e, settle: s.settled(st, e, ack.As)}
		d.settle.Device = ack.Device
		d.ids = st.depart(ack.ID)
		st.mu.Unlock()
		s.recent.add(st.key, ack.ID)
		s.leaveLater(st, []*departure{d})
	}
}

func (s *Store) settled(st *stream, e *entry, as notification.Status) mailbox.Settled {
	return mailbox.Settled{App: s.cfg.App, Recipient: st.client, ID: e.note, Pos: e.pos, As: as, At: s.cfg.Now()}
}

// Delivered implements session.Mailbox.
func (s *Store) Delivered(marks []mailbox.Mark) {
	for i := range marks {
		m := &marks[i]
		st := s.online(m.Recipient)
		if st == nil {
			continue
		}
		st.mu.Lock()
		if e := st.hadPos(m.Pos, m.ID); e != nil && (e.state == waiting || e.attempts == 0) {
			s.sent(e, m.Attempts, m.DeliveredAt)
		}
		st.mu.Unlock()
	}
}

// sent notes that an entry of a stream, which is locked, was written to a connection.
func (s *Store) sent(e *entry, attempts uint32, at time.Time) {
	again, how := e.attempts > 0, Catchup
	switch {
	case again:
		how = Retry
	case e.fresh:
		how = Fresh
	}
	e.sent, e.attempts = at.UnixMilli(), max(e.attempts, attempts)
	s.cfg.Observer.Sent(e.category, time.UnixMilli(int64(e.id.Ms)), again, how)
}

// ended makes departures for expired entries. The caller holds the stream's lock.
func (s *Store) ended(st *stream, list []ended) (out []*departure) {
	for _, x := range list {
		d := &departure{st: st, why: surplus, ids: x.ids}
		if x.e.note != "" {
			d.why, d.e, d.settle = expired, x.e, s.settled(st, &x.e, notification.Expired)
		}
		out = append(out, d)
	}
	return out
}

// leaveLater queues departures of a stream.
func (s *Store) leaveLater(st *stream, list []*departure) {
	if len(list) == 0 {
		return
	}
	l := s.queueOf(st)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range list {
		if d.why == poisoned {
			l.spoiled = append(l.spoiled, d)
		} else {
			l.leaving = append(l.leaving, d)
		}
	}
	if len(l.spoiled) > 0 && !l.setting && s.ctx.Err() == nil {
		l.setting = true
		s.wg.Go(l.setAside)
	}
	if len(l.leaving) > 0 && !l.deleting && s.ctx.Err() == nil {
		l.deleting = true
		s.wg.Go(l.delete)
	}
}

// departing returns how many departures are queued or under way.
func (s *Store) departing() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.queues {
		l.mu.Lock()
		n += len(l.leaving)
		if l.deleting && len(l.leaving) == 0 {
			n++ // the last batch is under way
		}
		l.mu.Unlock()
	}
	return n
}

// delete deletes the departures' entries; those that fail are tried again.
func (l *masterQueue) delete() {
	for {
		l.mu.Lock()
		batch := take(&l.leaving, deleteBatch)
		if len(batch) == 0 || l.s.ctx.Err() != nil {
			l.deleting = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		failed := l.s.remove(batch)
		if len(failed) == 0 {
			continue
		}
		for _, d := range failed {
			l.s.cfg.Observer.CleanupSkipped(origins[d.why])
		}
		l.mu.Lock()
		l.leaving = append(failed, l.leaving...)
		l.mu.Unlock()
		pause.For(l.s.ctx, retryEvery)
	}
}

// remove deletes entries and reports the deletions. It returns the departures whose entries could not be
// deleted.
func (s *Store) remove(batch []*departure) (failed []*departure) {
	ctx, cancel := context.WithTimeout(s.ctx, callWithin)
	defer cancel()
	cmds := make([]rueidis.Completed, len(batch))
	for n, d := range batch {
		ids := make([]string, len(d.ids))
		for i, id := range d.ids {
			ids[i] = id.String()
		}
		cmds[n] = s.link.main.B().Xdel().Key(d.st.key).Id(ids...).Build()
	}
	var done []mailbox.Settled
	for i, res := range s.link.main.DoMulti(ctx, cmds...) {
		d := batch[i]
		if err := res.Error(); err != nil && !isWrongType(err) {
			failed = append(failed, d)
			continue
		}
		s.removed(d)
		switch d.why {
		case acked:
			s.cfg.Observer.Acked(d.e.category, sentAt(&d.e))
			done = append(done, d.settle)
		case expired:
			s.cfg.Observer.Expired(d.e.category, d.e.sent != 0)
			if d.e.pos != 0 {
				done = append(done, d.settle)
			}
		}
	}
	if len(done) > 0 {
		s.route().Settled(done)
	}
	return failed
}

func sentAt(e *entry) time.Time {
	if e.sent == 0 {
		return time.Time{}
	}
	return time.UnixMilli(e.sent)
}

// removed drops entries that Redis has deleted.
func (s *Store) removed(d *departure) {
	st := d.st
	st.mu.Lock()
	st.deleted(d.ids)
	if st.full && len(st.entries) < maxEntries/2 {
		st.full = false
		s.ask(st, true)
	}
	offline := st.sessions == 0
	st.mu.Unlock()
	if offline {
		s.release(st)
	}
}

// setAside moves poison into quarantine, one entry after the other, so that it delays nothing else.
func (l *masterQueue) setAside() {
	for {
		l.mu.Lock()
		batch := take(&l.spoiled, 1)
		if len(batch) == 0 || l.s.ctx.Err() != nil {
			l.setting = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		l.s.quarantine(batch[0])
	}
}

// quarantine sets an unreadable entry aside. It logs one line per key.
func (s *Store) quarantine(d *departure) {
	st := d.st
	if err := s.link.setAside(s.ctx, st.key, d.poison.raw, d.poison.err); err != nil {
		s.cfg.Observer.CleanupSkipped(origins[poisoned])
		if s.logged.first(st.key + " not set aside") {
			s.log.WarnContext(s.ctx, "an entry cannot be read nor set aside, will try again", "stream", st.key, "reason", d.poison.err, "error", err)
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		if i, ok := st.at(d.poison.id); ok {
			st.entries[i].state = stuck
		}
		return
	}
	s.cfg.Observer.Poisoned(st.key, d.poison.err)
	if s.logged.first(st.key) {
		s.log.WarnContext(s.ctx, "an entry cannot be read and was set aside", "stream", st.key, "error", d.poison.err)
	}
	s.removed(d)
}

// logged remembers what was logged, so that each text is logged once.
type logged struct {
	mu   sync.Mutex
	said map[string]bool
}

const loggedMost = 1000 // nothing more is logged beyond this number

func (l *logged) first(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said[what] || len(l.said) >= loggedMost {
		return false
	}
	if l.said == nil {
		l.said = make(map[string]bool)
	}
	l.said[what] = true
	return true
}
