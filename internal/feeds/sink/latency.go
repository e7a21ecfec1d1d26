package sink

import (
	"hash/maphash"
	"strings"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

const (
	startedSets = 1 << 16 // of what is remembered: 8 MB
	setSize     = 8       // notifications of a set
)

// begun remembers when notifications were stored, and their categories, so that later events can have their latency and the same category.
// A new notification takes the place of the oldest of its set: some hundred thousand are remembered. For others, and for
// those stored before a start, both are unknown.
type begun struct {
	sets       []startedSet
	categories []string       // by number
	numbers    map[string]int // of them
}

type startedSet [setSize]started

// started is the time at which a notification was stored, and its category.
type started struct {
	key uint64
	at  int64 // Unix milliseconds, and below them the number of the category; 0: nothing is here
}

const (
	categoryBits = 10
	// otherCategory takes the place of categories beyond: publishers choose their names, and each has rows of its own for each minute.
	otherCategory = "other"
	mostNames     = 1<<categoryBits - 2 // besides none and other
	mostName      = 64                  // bytes of a category that are kept, as in figures
)

var noteSeed, toSeed = maphash.MakeSeed(), maphash.MakeSeed()

func keyOf(e *event.Event) uint64 {
	return maphash.String(noteSeed, e.Note) ^ maphash.String(toSeed, e.To)
}

// fill says of each event how long after the storing it happened, and the category, where that is known.
func (l *begun) fill(evs []event.Event) {
	if l.sets == nil {
		l.sets = make([]startedSet, startedSets)
		l.categories, l.numbers = []string{"", otherCategory}, map[string]int{"": 0, otherCategory: 1}
	}
	for i := range evs {
		e := &evs[i]
		if e.Note == "" {
			continue
		}
		key := keyOf(e)
		set := &l.sets[key%startedSets]
		if e.Type == event.Stored {
			number := l.number(e.Category)
			e.Category = l.categories[number]
			set.add(key, e.At.UnixMilli()<<categoryBits|int64(number))
		} else if at, ok := set.of(key); ok {
			e.Took, e.TookKnown = max(e.At.Sub(time.UnixMilli(at>>categoryBits)), 0), true
			e.Category = l.categories[at&(1<<categoryBits-1)]
		}
	}
}

// number finds the number of a category, or gives it one.
func (l *begun) number(category string) int {
	if len(category) > mostName {
		category = strings.ToValidUTF8(category[:mostName], "")
	}
	n, known := l.numbers[category]
	switch {
	case known:
		return n
	case len(l.categories) >= mostNames+2:
		return l.numbers[otherCategory]
	}
	category = strings.Clone(category) // it may be a part of a chunk
	l.numbers[category] = len(l.categories)
	l.categories = append(l.categories, category)
	return len(l.categories) - 1
}

func (s *startedSet) add(key uint64, at int64) {
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
	*oldest = started{key, at}
}

func (s *startedSet) of(key uint64) (at int64, ok bool) {
	for i := range s {
		if s[i].key == key && s[i].at != 0 {
			return s[i].at, true
		}
	}
	return 0, false
}
