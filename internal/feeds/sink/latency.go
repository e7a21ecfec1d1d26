package sink

import (
	"hash/maphash"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

const (
	startedSets = 1 << 16 // of what latencies remember: 8 MB
	setSize     = 8       // notifications of a set
)

// latencies remember when notifications were stored, so that events after it can say how long they took. A new notification takes the place of
// the oldest of its set: some hundred thousand are remembered. For others, and for those stored before a start, the time is unknown.
type latencies struct{ sets []startedSet }

type startedSet [setSize]started

// started is when a notification was stored.
type started struct {
	key uint64
	at  int64 // Unix milliseconds; 0: nothing is here
}

var noteSeed, toSeed = maphash.MakeSeed(), maphash.MakeSeed()

func keyOf(e *event.Event) uint64 {
	return maphash.String(noteSeed, e.Note) ^ maphash.String(toSeed, e.To)
}

// fill says of each event how long after the storing it happened, where that is known.
func (l *latencies) fill(evs []event.Event) {
	if l.sets == nil {
		l.sets = make([]startedSet, startedSets)
	}
	for i := range evs {
		e := &evs[i]
		if e.Note == "" {
			continue
		}
		key := keyOf(e)
		set := &l.sets[key%startedSets]
		if e.Type == event.Stored {
			set.add(key, e.At)
		} else if at, ok := set.of(key); ok {
			e.Took, e.TookKnown = max(e.At.Sub(at), 0), true
		}
	}
}

func (s *startedSet) add(key uint64, at time.Time) {
	oldest := &s[0]
	for i := range s {
		if s[i].key == key {
			oldest = &s[i]
			break
		}
		if s[i].at < oldest.at {
			oldest = &s[i]
		}
	}
	*oldest = started{key, at.UnixMilli()}
}

func (s *startedSet) of(key uint64) (at time.Time, ok bool) {
	for i := range s {
		if s[i].key == key && s[i].at != 0 {
			return time.UnixMilli(s[i].at), true
		}
	}
	return time.Time{}, false
}
