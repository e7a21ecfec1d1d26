package sink

import (
	"hash/maphash"
	"strings"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

const (
	startedSets = 1 << 16 // sets in the table of remembered notifications, which takes 8 MB; a power of two
	setSize     = 8       // notifications of a set
)

// begun remembers when notifications were stored, and their categories, to fill in the latency and category of later events. A new
// notification replaces the oldest one of its set; some hundred thousand are remembered. For others, and for those stored before the server
// started, latency and category are unknown.
type begun struct {
	sets       []startedSet
	categories []string       // by number
	numbers    map[string]int // of them
}

type startedSet [setSize]started

// started is the time at which a notification was stored, and its category.
type started struct {
	key uint64
	at  int64 // Unix milliseconds, with the number of the category in the lower bits; 0: empty entry
}

const (
	categoryBits = 10
	// otherCategory replaces all categories beyond the first mostNames: publishers choose the names, and each category has rows of its own
	// for each minute.
	otherCategory = "other"
	mostNames     = 1<<categoryBits - 2 // besides none and other
	mostName      = 64                  // most bytes kept of a category, as in the metrics
)

var noteSeed, toSeed = maphash.MakeSeed(), maphash.MakeSeed()

func keyOf(e *event.Event) uint64 {
	return maphash.String(noteSeed, e.Note) ^ maphash.String(toSeed, e.To)
}

// fill sets the latency and category of each event, where they are known.
func (l *begun) fill(evs []event.Event) {
	if l.sets == nil {
		l.sets = make([]startedSet, startedSets)
	}
	if l.categories == nil {
		l.categories, l.numbers = []string{"", otherCategory}, map[string]int{"": 0, otherCategory: 1}
	}
	for i := range evs {
		e := &evs[i]
		if e.Note == "" {
			continue
		}
		key := keyOf(e)
		set := &l.sets[key&uint64(len(l.sets)-1)]
		if e.Type == event.Stored {
			number := l.number(e.Category)
			e.Category = l.categories[number]
			set.add(key, e.At.UnixMilli()<<categoryBits|int64(number))
		} else if at, ok := set.of(key); ok {
			e.Took, e.TookKnown = max(e.At.Sub(time.UnixMilli(at>>categoryBits)), 0), true
			e.Category = l.categories[at&(1<<categoryBits-1)]
		} else { // what people do in an inbox names the category, however old the notification is
			e.Category = l.categories[l.number(e.Category)]
		}
	}
}

// number returns the number of a category, and assigns one to a new category.
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
	category = strings.Clone(category) // the string may be a part of a larger chunk of memory
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
