package call

import (
	"crypto/sha256"
	"sync"
	"time"

	"godwit.dev/godwit/internal/server/problem"
)

const (
	bodiesFor = 24 * time.Hour
	maxBodies = 10_000 // they take 1.5 MB; beyond this number the oldest key is dropped
)

// Bodies remembers the body that was used with each Idempotency-Key, for calls that may be repeated unchanged: it only has to refuse
// another body. The zero value is ready.
type Bodies struct {
	mu   sync.Mutex
	used map[[2]string]*usedBody // by app and key
	last []*usedBody             // in order of time
}

type usedBody struct {
	at   time.Time
	key  [2]string
	body [sha256.Size]byte
}

// Use records that an app uses an idempotency key with a body. It fails if the key was used with another body within 24 h. A call that
// fails calls undo, so that a corrected body may use the key.
func (b *Bodies) Use(app, key string, body []byte, now time.Time) (undo func(), err error) {
	sum := sha256.Sum256(body)
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.last) > 0 && (len(b.last) >= maxBodies || now.Sub(b.last[0].at) >= bodiesFor) {
		b.forget(b.last[0])
		b.last[0] = nil
		b.last = b.last[1:]
	}
	at := [2]string{app, key}
	if u := b.used[at]; u != nil {
		if u.body != sum {
			return nil, problem.IdempotencyMismatch.New()
		}
		return func() {}, nil
	}
	if b.used == nil {
		b.used = make(map[[2]string]*usedBody)
	}
	u := &usedBody{at: now, key: at, body: sum}
	b.used[at], b.last = u, append(b.last, u)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.forget(u)
	}, nil
}

func (b *Bodies) forget(u *usedBody) {
	if b.used[u.key] == u {
		delete(b.used, u.key)
	}
}
