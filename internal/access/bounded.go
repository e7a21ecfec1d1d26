package access

import (
	"sync"
	"time"
)

// bounded is a map whose entries end and whose size has a limit.
type bounded[K comparable, V any] struct {
	mu    sync.Mutex
	limit int
	m     map[K]boundedEntry[V]
}

type boundedEntry[V any] struct {
	value V
	until time.Time
}

// evictProbes is how many entries, picked by Go's random map order, are compared to find one to drop.
const evictProbes = 8

func newBounded[K comparable, V any](limit int) *bounded[K, V] {
	return &bounded[K, V]{limit: limit, m: make(map[K]boundedEntry[V])}
}

func (b *bounded[K, V]) get(key K, now time.Time) (value V, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.m[key]
	if !ok || now.Before(e.until) {
		return e.value, ok
	}
	delete(b.m, key)
	return value, false
}

func (b *bounded[K, V]) put(key K, value V, until, now time.Time) {
	if !now.Before(until) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.m[key]; !ok && len(b.m) >= b.limit {
		b.evict()
	}
	b.m[key] = boundedEntry[V]{value, until}
}

// evict drops the entry that ends first among a few.
func (b *bounded[K, V]) evict() {
	var victim K
	var soonest time.Time
	probes := 0
	for k, e := range b.m {
		if probes == 0 || e.until.Before(soonest) {
			victim, soonest = k, e.until
		}
		if probes++; probes == evictProbes {
			break
		}
	}
	delete(b.m, victim)
}

func (b *bounded[K, V]) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.m)
}
