// Package notes is what stores of mailboxes keep of deliveries and sightings until they are written: each may be lost, so
// they wait in memory and many go into one commit.
package notes

import (
	"sync"
	"time"

	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/store/millis"
)

const (
	// Every is how long marks and sightings wait: long enough that a quick ack carries a mark along.
	Every = time.Second
	// Slice is how many go into one commit.
	Slice = 250
	// most bounds what waits: beyond it new marks and sightings are dropped, which their contract allows.
	most = 1 << 20
)

// Mark is a delivery that has not been written yet. Times are milliseconds of Unix time.
type Mark struct {
	mailbox.Address
	Pos         int64
	DeliveredAt int64 // 0: not known
	Attempts    uint32
	since       int64
}

// Sighting is when a recipient and its devices were seen last.
type Sighting struct {
	mailbox.Address
	At      int64
	Devices map[string]int64
}

// Notes are the marks and sightings that wait to be written. The zero value has none.
type Notes struct {
	mu    sync.Mutex
	marks map[int64]Mark // by position
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
		old, ok := n.marks[m.Pos]
		if !ok {
			if len(n.marks) >= most {
				continue
			}
			old = Mark{Address: mailbox.Address{App: m.App, Recipient: m.Recipient}, Pos: m.Pos, since: now}
		}
		old.Attempts = max(old.Attempts, m.Attempts)
		if old.DeliveredAt == 0 {
			old.DeliveredAt = millis.Of(m.DeliveredAt)
		}
		n.marks[m.Pos] = old
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

// TakeMark removes and returns what is noted of a copy that is about to be settled.
func (n *Notes) TakeMark(pos int64) Mark {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.marks[pos]
	delete(n.marks, pos)
	return m
}

// PeekMark returns what is noted of a copy.
func (n *Notes) PeekMark(pos int64) Mark {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.marks[pos]
}

// DevicesOf are devices seen since then that are not written yet.
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

// LastSeen is what is not written yet of when a recipient was seen; 0: nothing.
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

// ForgetMarks drops all marks: positions do not mean the same copies any more.
func (n *Notes) ForgetMarks() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.marks)
}

// Take removes and returns all sightings, and the marks that have waited for long enough.
func (n *Notes) Take(now int64) ([]Mark, []Sighting) { return n.take(now - Every.Milliseconds()/2) }

// TakeAll removes and returns all there is.
func (n *Notes) TakeAll() ([]Mark, []Sighting) { return n.take(1<<63 - 1) }

func (n *Notes) take(until int64) (marks []Mark, seen []Sighting) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for pos, m := range n.marks {
		if m.since <= until {
			marks = append(marks, m)
			delete(n.marks, pos)
		}
	}
	for _, s := range n.seen {
		seen = append(seen, *s)
	}
	n.seen = nil
	return marks, seen
}
