package pubsub

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// tallied is the pattern and queue by which sessions are counted; tally is the number of these sessions, and of the messages for them. The
// sessions of a queue share one tally.
type (
	tallied struct{ pattern, queue string }
	tally   struct {
		sessions int // guarded by fan.mu
		messages atomic.Uint64
	}
)

// tally returns the count of a pattern, and makes it if necessary. f.mu is held.
func (f *fan) tally(pattern, queue string) *tally {
	k := tallied{pattern, queue}
	t := f.counts[k]
	if t == nil {
		if f.counts == nil {
			f.counts = make(map[tallied]*tally)
		}
		t = new(tally)
		f.counts[k] = t
	}
	return t
}

// forget removes a count without sessions. f.mu is held.
func (f *fan) forget(of *feed) {
	if k := (tallied{of.pattern, of.queue}); of.tally.sessions == 0 && f.counts[k] == of.tally {
		delete(f.counts, k)
	}
}

// Subscription counts the sessions of this node that subscribe to a pattern, as members of a queue if one is named.
type Subscription struct {
	Pattern, Queue string
	Sessions       int
	Messages       uint64 // since the first of the present subscribers; the sessions of a queue share the count
}

// Subscriptions lists an app's subscriptions, those with the most sessions first, and returns how many there are.
func (s *Service) Subscriptions(app string, most int) (list []Subscription, all int) {
	s.mu.RLock()
	f := s.apps[app]
	s.mu.RUnlock()
	if f == nil {
		return nil, 0
	}
	f.mu.Lock()
	for k, t := range f.counts {
		list = append(list, Subscription{k.pattern, k.queue, t.sessions, t.messages.Load()})
	}
	f.mu.Unlock()
	slices.SortFunc(list, func(a, b Subscription) int {
		return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Queue, b.Queue))
	})
	return list[:min(len(list), most)], len(list)
}
