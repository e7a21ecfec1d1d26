package limit

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	shards       = 64      // number of locks: more than cores, so that accepting loops rarely contend
	maxEntries   = 1 << 16 // maximum entries of one limiter: about 4 MB with addresses; an attacker with more addresses mostly evicts entries of its own
	shardEntries = maxEntries / shards
	evictProbes  = 8 // entries, picked by Go's random map order, from which one is evicted
)

// buckets are token buckets by key. Each is stored as the instant at which it will be full again (the generic cell rate algorithm). A full
// bucket need not be stored: an unknown key has a full bucket.
type buckets[K comparable] struct {
	cost  time.Duration // time in which a bucket regains one token
	depth time.Duration // of a whole bucket
	start time.Time
	seed  maphash.Seed
	shard [shards]shard[K]
}

type shard[K comparable] struct {
	mu   sync.Mutex
	full map[K]time.Duration // since start
}

func newBuckets[K comparable](perSecond float64, burst int) *buckets[K] {
	b := &buckets[K]{
		cost: max(time.Duration(float64(time.Second)/perSecond), 1), start: time.Now(), seed: maphash.MakeSeed(),
	}
	b.depth = b.cost * time.Duration(burst)
	for i := range b.shard {
		b.shard[i].full = make(map[K]time.Duration)
	}
	return b
}

// take takes n tokens and returns 0, or takes none and returns how long to wait. If n exceeds the bucket's size, a full bucket suffices,
// which then takes longer to refill: a large batch is delayed, not refused for ever.
func (b *buckets[K]) take(key K, n int) (wait time.Duration) {
	now := time.Since(b.start)
	price := b.cost * time.Duration(n)
	s := &b.shard[maphash.Comparable(b.seed, key)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	full, known := s.full[key]
	full = max(full, now)
	if over := full - now + min(price, b.depth) - b.depth; over > 0 {
		return over
	}
	if !known && len(s.full) >= shardEntries {
		s.evict(now)
	}
	s.full[key] = full + price
	return 0
}

// wait returns how long until n tokens can be taken.
func (b *buckets[K]) wait(key K, n int) time.Duration {
	now := time.Since(b.start)
	s := &b.shard[maphash.Comparable(b.seed, key)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(max(s.full[key], now)-now+min(b.cost*time.Duration(n), b.depth)-b.depth, 0)
}

// evict drops the full buckets among a few random ones. If none of these is full, it drops the one nearest to full.
func (s *shard[K]) evict(now time.Duration) {
	var nearest K
	var soonest time.Duration
	probes, dropped := 0, false
	for k, full := range s.full {
		if full <= now {
			delete(s.full, k)
			dropped = true
		} else if probes == 0 || soonest == 0 || full < soonest {
			nearest, soonest = k, full
		}
		if probes++; probes == evictProbes {
			break
		}
	}
	if !dropped {
		delete(s.full, nearest)
	}
}

func (b *buckets[K]) len() (n int) {
	for i := range b.shard {
		s := &b.shard[i]
		s.mu.Lock()
		n += len(s.full)
		s.mu.Unlock()
	}
	return n
}
