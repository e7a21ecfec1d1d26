package mailbox

import (
	"slices"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

// Committed implements Observer: it routes before the publishers are answered.
func (m *Mailbox) Committed(b *Batch) {
	m.metrics.count(b)
	if m.tracer != nil {
		m.tracer.Committed(b)
	}
	// Events come before routing, so that followers see that a notification was stored before they see that it was delivered.
	m.emitCommit(b)
	if len(b.Inboxes) > 0 && len(b.Stored)+len(b.Due) > 0 {
		defer m.above.Load().Hold(b.Inboxes)()
	}
	if len(b.Stored) > 0 {
		m.above.Load().Route(deliverable(b.Stored))
		m.wake.at(firstDeadline(b.Stored))
	}
	if len(b.Due) > 0 {
		m.above.Load().Route(b.Due)
	}
	if e := m.steps.Load(); e != nil {
		tellSteps(*e, b)
	}
	// Settled copies come after routing: a commit may contain a notification and the newer one that replaced it.
	if len(b.Settled) > 0 {
		m.above.Load().Settled(b.Settled)
	}
	if len(b.Inboxes) > 0 {
		m.emitInboxes(b.Inboxes)
		m.above.Load().Inboxes(b.Inboxes)
		if all := m.marked.Load(); all != nil {
			for _, f := range *all {
				f(b.Inboxes)
			}
		}
	}
}

// tellSteps reports copies with steps beyond live to e, if there are any.
func tellSteps(e Escalations, b *Batch) {
	for _, items := range [][]Item{b.Stored, b.Due} {
		if slices.ContainsFunc(items, func(it Item) bool { return it.Escalates }) {
			e.Stored(items)
		}
	}
	if slices.ContainsFunc(b.Settled, func(s Settled) bool { return s.Escalates }) {
		e.Settled(b.Settled)
	}
}

// deliverable removes scheduled items, in place: the caller does not need them any more.
func deliverable(items []Item) []Item {
	for i := range items {
		if items[i].Seq == 0 {
			out := append([]Item(nil), items[:i]...)
			for _, it := range items[i:] {
				if it.Seq != 0 {
					out = append(out, it)
				}
			}
			return out
		}
	}
	return items
}

func firstDeadline(items []Item) time.Time {
	var first time.Time
	for i := range items {
		t := items[i].N.ExpiresAt
		if items[i].Seq == 0 {
			t = items[i].N.SendAt
		}
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}

// emitCommit emits the events of a commit.
func (m *Mailbox) emitCommit(b *Batch) {
	m.emit(len(b.Stored), func(i int) (event.Event, bool) {
		it := &b.Stored[i]
		return event.Event{App: it.N.App, Type: event.Stored, At: it.N.CreatedAt, Note: it.N.ID, To: it.Recipient, Category: it.N.Content.Category}, true
	})
	now := m.now()
	m.emit(len(b.Settled), func(i int) (event.Event, bool) {
		s := &b.Settled[i]
		at := s.At
		if at.IsZero() {
			at = now
		}
		return event.Event{App: s.App, Type: event.Type(s.As.String()), At: at, Note: s.ID, To: s.Recipient}, true
	})
}

// emitAtOnce is the most events in one call of the log. The log copies them: a longer list would only take memory.
const emitAtOnce = 256

// emit emits the events that of makes for 0 to n-1, except where of returns false.
func (m *Mailbox) emit(n int, of func(i int) (event.Event, bool)) {
	if n == 0 {
		return
	}
	lent := m.lists.Get().(*[]event.Event)
	evs := *lent
	for i := range n {
		if e, some := of(i); some {
			evs = append(evs, e)
		}
		if len(evs) == emitAtOnce || i == n-1 && len(evs) > 0 {
			m.events.Emit(evs)
			clear(evs)
			evs = evs[:0]
		}
	}
	*lent = evs
	m.lists.Put(lent)
}
