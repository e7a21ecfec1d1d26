package sink

import (
	"hash/maphash"
	"time"

	"godwit.dev/godwit/internal/event"
)

// mostStarted bounds what is remembered of when notifications were stored: twice so many, 16 bytes each.
const mostStarted = 250_000

// latencies remember when notifications were stored, so that events after it can say how long they took. Of what was stored longer ago than
// some hundred thousand others, or before a start, it is not known.
type latencies struct{ young, old map[uint64]int64 }

var seed = maphash.MakeSeed()

func keyOf(e *event.Event) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(e.Note)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(e.To)
	return h.Sum64()
}

// fill says of each event how long after the storing it happened, where that is known.
func (l *latencies) fill(evs []event.Event) {
	for i := range evs {
		e := &evs[i]
		switch {
		case e.Note == "":
		case e.Type == event.Stored:
			l.add(keyOf(e), e.At)
		default:
			key := keyOf(e)
			at, ok := l.young[key]
			if !ok {
				at, ok = l.old[key]
			}
			if ok {
				e.Took, e.TookKnown = max(e.At.Sub(time.UnixMilli(at)), 0), true
			}
		}
	}
}

func (l *latencies) add(key uint64, at time.Time) {
	if l.young == nil || len(l.young) >= mostStarted {
		l.old, l.young = l.young, make(map[uint64]int64)
	}
	l.young[key] = at.UnixMilli()
}
