package pubsub

import (
	"slices"
	"strings"
	"sync"
)

// feed is a subscription of the bus and the sessions that share it.
type feed struct {
	fan            *fan
	pattern, queue string
	wild           bool   // the pattern may match more than one topic
	stop           func() // ends the subscription; set before the first session joins
	tally          *tally
	missed         int // messages dropped for lack of room and not reported yet; guarded by fan.waiting.mu

	mu      sync.Mutex
	members []*subscriber // some may be over
	live    int           // members that are not
}

func isWild(pattern string) bool { return strings.ContainsAny(pattern, "*>") }

func (f *feed) add(s *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = append(f.members, s)
	f.live++
}

// remove removes a session and returns how many remain. A session that is over is only subtracted from the count: when many end together,
// none of them searches a long list for its place.
func (f *feed) remove(s *subscriber, over bool) (left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live--
	if !over {
		i, last := slices.Index(f.members, s), len(f.members)-1
		f.members[i], f.members[last] = f.members[last], nil
		f.members = f.members[:last]
	}
	if f.live*2 < len(f.members) {
		f.members = slices.DeleteFunc(f.members, func(m *subscriber) bool { return m.over.Load() })
		if cap(f.members) > 4*len(f.members)+8 {
			f.members = slices.Clip(slices.Clone(f.members))
		}
	}
	return f.live
}

// count returns how many sessions the feed has.
func (f *feed) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live
}

// listed appends the feed's sessions to dst; some may be over.
func (f *feed) listed(dst []*subscriber) []*subscriber {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(dst, f.members...)
}
