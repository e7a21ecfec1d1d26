package jetstream

import (
	"maps"
	"slices"
	"time"
)

// queues remember the messages whose mailbox is full. NATS delivers them again after a while. Until one is stored, later messages to the same
// recipient wait too, so that their order stays.
type queues struct {
	waiting map[uint64]*waiter  // by sequence
	of      map[string][]uint64 // sequences that wait, ascending, by recipient
}

type waiter struct {
	to   []string
	at   time.Time // when the stream got the message
	seen time.Time // when it was delivered last
}

func newQueues() *queues {
	return &queues{waiting: make(map[uint64]*waiter), of: make(map[string][]uint64)}
}

// behind reports whether an earlier message to one of the recipients waits that is not among those that are about to be stored.
func (q *queues) behind(seq uint64, to []string, storing map[uint64]bool) bool {
	for _, name := range to {
		for _, other := range q.of[name] {
			if other >= seq {
				break
			}
			if !storing[other] {
				return true
			}
		}
	}
	return false
}

// add makes a message wait.
func (q *queues) add(m *message, to []string, now time.Time) {
	if w := q.waiting[m.seq]; w != nil {
		w.seen = now
		return
	}
	q.waiting[m.seq] = &waiter{to: to, at: m.at, seen: now}
	for _, name := range to {
		i, there := slices.BinarySearch(q.of[name], m.seq)
		if !there {
			q.of[name] = slices.Insert(q.of[name], i, m.seq)
		}
	}
}

// remove ends the waiting of a message.
func (q *queues) remove(seq uint64) {
	w := q.waiting[seq]
	if w == nil {
		return
	}
	delete(q.waiting, seq)
	for _, name := range w.to {
		if i, there := slices.BinarySearch(q.of[name], seq); there {
			q.of[name] = slices.Delete(q.of[name], i, i+1)
		}
		if len(q.of[name]) == 0 {
			delete(q.of, name)
		}
	}
}

// forget removes messages that were not delivered again: the stream has deleted them.
func (q *queues) forget(before time.Time) {
	for seq, w := range maps.Clone(q.waiting) {
		if w.seen.Before(before) {
			q.remove(seq)
		}
	}
}

// later accounts for a time in which no message was taken.
func (q *queues) later(d time.Duration) {
	for _, w := range q.waiting {
		w.seen = w.seen.Add(d)
	}
}

// oldest returns when the stream got the oldest message that waits.
func (q *queues) oldest() (at time.Time) {
	for _, w := range q.waiting {
		if at.IsZero() || w.at.Before(at) {
			at = w.at
		}
	}
	return at
}
