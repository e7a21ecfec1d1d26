package access

import (
	"sync"
	"time"
)

// bounded is a map whose entries expire and whose size is limited. Each entry belongs to an app: when the map is full, the app with the
// most entries loses one, so that no app displaces another's.
type bounded[K comparable, V any] struct {
	mu    sync.Mutex
	limit int
	n     int
	apps  map[string]map[K]boundedEntry[V]
}

type boundedEntry[V any] struct {
	value V
	until time.Time
}

// evictProbes is the number of entries, picked by Go's random map order, that are compared to find one to drop.
const evictProbes = 8

func newBounded[K comparable, V any](limit int) *bounded[K, V] {
	return &bounded[K, V]{limit: limit, apps: make(map[string]map[K]boundedEntry[V])}
}

func (b *bounded[K, V]) get(app string, key K, now time.Time) (value V, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.apps[app][key]
	if !ok || now.Before(e.until) {
		return e.value, ok
	}
	b.drop(app, key)
	return value, false
}

func (b *bounded[K, V]) put(app string, key K, value V, until, now time.Time) {
	if !now.Before(until) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.apps[app][key]; !ok {
		if b.n >= b.limit {
			b.evict()
		}
		if b.apps[app] == nil {
			b.apps[app] = make(map[K]boundedEntry[V])
		}
		b.n++
	}
	b.apps[app][key] = boundedEntry[V]{value, until}
}

// drop forgets one entry.
func (b *bounded[K, V]) drop(app string, key K) {
	of := b.apps[app]
	delete(of, key)
	b.n--
	if len(of) == 0 {
		delete(b.apps, app)
	}
}

// evict drops an entry of the app that has most: of a few random ones, the one that expires first.
func (b *bounded[K, V]) evict() {
	most := ""
	for app, of := range b.apps {
		if len(of) > len(b.apps[most]) {
			most = app
		}
	}
	var victim K
	var soonest time.Time
	probes := 0
	for k, e := range b.apps[most] {
		if probes == 0 || e.until.Before(soonest) {
			victim, soonest = k, e.until
		}
		if probes++; probes == evictProbes {
			break
		}
	}
	b.drop(most, victim)
}

func (b *bounded[K, V]) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}
