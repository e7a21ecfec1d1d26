package redisstream

import (
	"hash/maphash"
	"sync"
	"time"
)

// recent remembers acknowledged notifications for a while: further entries of such a notification are not sent.
type recent struct {
	mu       sync.Mutex
	seed     maphash.Seed
	now, old map[uint64]struct{}
	turned   time.Time
}

const (
	recentFor  = 2 * time.Minute // the minimum; the maximum is twice as long
	recentMost = 100_000         // limit of each half
)

func (r *recent) add(key, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn(); len(r.now) < recentMost {
		r.now[r.hash(key, note)] = struct{}{}
	}
}

func (r *recent) has(key, note string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	h := r.hash(key, note)
	_, now := r.now[h]
	_, old := r.old[h]
	return now || old
}

func (r *recent) turn() {
	switch passed := time.Since(r.turned); {
	case r.now == nil:
		r.seed = maphash.MakeSeed()
		fallthrough
	case passed >= 2*recentFor:
		r.now, r.old, r.turned = make(map[uint64]struct{}), nil, time.Now()
	case passed >= recentFor:
		r.now, r.old, r.turned = make(map[uint64]struct{}), r.now, time.Now()
	}
}

func (r *recent) hash(key, note string) uint64 {
	return maphash.Comparable(r.seed, [2]string{key, note})
}
