// Package notes holds the deliveries and sightings of mailbox stores until they are written. Each may be lost, so they wait in memory and
// many share one commit.
package notes

import (
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/attempts"
	"godwit.dev/godwit/internal/store/millis"
)

const (
	// Every is the wait of marks and sightings: long enough that a quick acknowledgement is written together with its mark.
	Every = time.Second
	// Slice is the number of notes in one commit.
	Slice = 250
	// most limits the waiting notes: beyond it new marks and sightings are dropped, which their contract allows.
	most = 1 << 20
	// mostMore limits the attempts recorded for a copy after its first, and mostMoreAll those of all copies.
	mostMore    = 15
	mostMoreAll = 1 << 18
)

// Mark is a delivery that has not been written yet. Times are milliseconds of Unix time.
type Mark struct {
	mailbox.Address
	Pos         int64
	DeliveredAt int64 // 0: not known
	Attempts    uint32
	since       int64

	first attempts.Tried
	more  *[]attempts.Tried // nil for nearly all
}

// Tried returns the attempts that are not written yet, in the order in which they were recorded.
func (m *Mark) Tried() []attempts.Tried {
	if !m.first.Known() {
		return nil
	}
	list := []attempts.Tried{m.first}
	if m.more != nil {
		list = append(list, *m.more...)
	}
	return list
}

// Tell adds to a record the notes of its copy.
func (m *Mark) Tell(r *mailbox.Record) {
	for _, t := range m.Tried() {
		r.Tried = append(r.Tried, t.Attempt())
	}
	if m.DeliveredAt > 0 && r.Status == notification.Stored {
		r.Status, r.DeliveredAt = notification.Delivered, millis.Time(m.DeliveredAt)
	}
	if r.Status == notification.Delivered && !r.Status.Settled(r.Ack) {
		r.Attempts = max(r.Attempts, m.Attempts)
	}
}

// End returns the attempts to store for a copy that ends: only the connection, if the row has room for it and the only attempt used it,
// otherwise a list. q is the settle that ends the copy; nil: its expiry ends it, or another operation.
func (m *Mark) End(q *mailbox.Settle, as notification.Status, place bool) (via attempts.Via, list []attempts.Tried) {
	if q == nil {
		return via, m.Tried()
	}
	acked := as == notification.Acked || as == notification.Replied
	if place && (acked || as == notification.Delivered) && q.Over != (mailbox.Over{}) && !q.Over.Named() && max(m.Attempts, q.Attempts) <= 1 && m.more == nil && (!m.first.Known() || m.first.IsTo(q.Over)) {
		return q.Over, nil
	}
	list = m.Tried()
	switch {
	case acked && (q.Device != "" || len(list) > 0):
		list = append(list, attempts.Acked(q))
	case as == notification.Delivered && q.Over.Named():
		list = append(list, attempts.Of(&mailbox.Mark{Over: q.Over, DeliveredAt: q.At}))
	}
	return via, list
}

// Sighting holds the times when a recipient and its devices were last seen.
type Sighting struct {
	mailbox.Address
	At      int64
	Devices map[string]int64
}

// Notes holds the marks and sightings that wait to be written. The zero value is empty and ready.
type Notes struct {
	NoAttempts bool // attempts are not recorded

	mu    sync.Mutex
	more  int                       // attempts beside the first ones
	early [2]map[int64]mailbox.Over // copies that ended before their write to a connection was recorded; those of the current second, and of the previous one
	marks map[int64]Mark            // by position
	seen  map[mailbox.Address]*Sighting
}

// Mark notes deliveries.
func (n *Notes) Mark(batch []mailbox.Mark, now int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.marks == nil {
		n.marks = make(map[int64]Mark)
	}
	for i := range batch {
		m := &batch[i]
		if m.Told || n.overtaken(m) {
			continue
		}
		old, ok := n.marks[m.Pos]
		if !ok {
			if len(n.marks) >= most {
				continue
			}
			old = Mark{Address: mailbox.Address{App: m.App, Recipient: m.Recipient}, Pos: m.Pos, since: now}
		}
		old.Attempts = max(old.Attempts, m.Attempts)
		if old.DeliveredAt == 0 && m.What == mailbox.Written && !notification.Delivered.Settled(m.Ack) {
			old.DeliveredAt = millis.Of(m.DeliveredAt)
		}
		if !n.NoAttempts {
			n.tried(&old, attempts.Of(m))
		}
		n.marks[m.Pos] = old
	}
}

// tried notes an attempt.
func (n *Notes) tried(m *Mark, t attempts.Tried) {
	switch {
	case !m.first.Known():
		m.first = t
	case n.more >= mostMoreAll:
	case m.more == nil:
		m.more = &[]attempts.Tried{t}
		n.more++
	case len(*m.more) < mostMore:
		more := append(slices.Clip(*m.more), t) // others may be reading the old list
		m.more = &more
		n.more++
	}
}

// overtaken reports whether a mark belongs to a write that was acknowledged before it could be noted: the copy's outcome names that write.
func (n *Notes) overtaken(m *mailbox.Mark) bool {
	for _, early := range n.early {
		if over, ok := early[m.Pos]; ok && over == m.Over && m.What == mailbox.Written {
			delete(early, m.Pos)
			return true
		}
	}
	return false
}

// taken records that a mark was removed.
func (n *Notes) taken(m *Mark) {
	if m.more != nil {
		n.more -= len(*m.more)
	}
}

// Seen notes who was connected.
func (n *Notes) Seen(batch []mailbox.Seen) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil {
		n.seen = make(map[mailbox.Address]*Sighting)
	}
	for _, m := range batch {
		key := mailbox.Address{App: m.App, Recipient: m.Recipient}
		old := n.seen[key]
		if old == nil {
			if len(n.seen) >= most {
				continue
			}
			old = &Sighting{Address: key}
			n.seen[key] = old
		}
		at := millis.Of(m.At)
		old.At = max(old.At, at)
		if m.Device != "" {
			if old.Devices == nil {
				old.Devices = make(map[string]int64)
			}
			old.Devices[m.Device] = max(old.Devices[m.Device], at)
		}
	}
}

// TakeMark removes and returns the notes of a copy that is about to be settled.
func (n *Notes) TakeMark(pos int64) Mark {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.marks[pos]
	delete(n.marks, pos)
	n.taken(&m)
	return m
}

// TakeMarkOf is TakeMark for a settle. If a session acknowledges a copy whose write is not recorded, either the client was quick and the
// record is still to come, or the write was long ago and no record will come. If the write itself settles the copy, the write was recorded
// before, or only the copy's outcome shows it.
func (n *Notes) TakeMarkOf(q *mailbox.Settle, pos int64) Mark {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.marks[pos]
	delete(n.marks, pos)
	n.taken(&m)
	if q.Over != (mailbox.Over{}) && !q.Over.Named() && m.since == 0 && q.As != notification.Delivered && len(n.early[0]) < most {
		if n.early[0] == nil {
			n.early[0] = make(map[int64]mailbox.Over)
		}
		n.early[0][pos] = q.Over
	}
	return m
}

// PeekMark returns the notes of a copy.
func (n *Notes) PeekMark(pos int64) Mark {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.marks[pos]
}

// DevicesOf returns devices seen since a time, whose sightings are not written yet.
func (n *Notes) DevicesOf(app, recipient string, since int64) (devices []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.seen[mailbox.Address{App: app, Recipient: recipient}]; s != nil {
		for name, at := range s.Devices {
			if at >= since {
				devices = append(devices, name)
			}
		}
	}
	return devices
}

// LastSeen returns the time of a recipient's last sighting that is not written yet; 0: there is none.
func (n *Notes) LastSeen(app, recipient string) (at int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.seen[mailbox.Address{App: app, Recipient: recipient}]; s != nil {
		at = s.At
	}
	return at
}

// Forget drops sightings of a recipient.
func (n *Notes) Forget(app, recipient string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.seen, mailbox.Address{App: app, Recipient: recipient})
}

// ForgetMarks drops all marks, after a change of the copies' positions.
func (n *Notes) ForgetMarks() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.marks)
	n.more, n.early = 0, [2]map[int64]mailbox.Over{}
}

// Take removes and returns all sightings, and the marks that have waited long enough.
func (n *Notes) Take(now int64) ([]Mark, []Sighting) { return n.take(now - Every.Milliseconds()) }

// TakeAll removes and returns all marks and sightings.
func (n *Notes) TakeAll() ([]Mark, []Sighting) { return n.take(1<<63 - 1) }

func (n *Notes) take(until int64) (marks []Mark, seen []Sighting) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for pos, m := range n.marks {
		if m.since <= until {
			marks = append(marks, m)
			delete(n.marks, pos)
			n.taken(&m)
		}
	}
	for _, s := range n.seen {
		seen = append(seen, *s)
	}
	n.seen = nil
	n.early[1], n.early[0] = n.early[0], nil
	return marks, seen
}
