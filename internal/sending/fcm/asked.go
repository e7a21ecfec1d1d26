package fcm

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// askAgain is the time after a check in which an endpoint's token is not checked again.
	askAgain = 24 * time.Hour
	// maxAsked limits the remembered tokens, and so the number of checks in a day.
	maxAsked = 20_000
)

// asked remembers the tokens that were checked with FCM.
type asked struct {
	mu   sync.Mutex
	when map[[sha256.Size]byte]time.Time
}

// may reports whether a token may be checked now, and records the check.
func (a *asked) may(token string, now time.Time) bool {
	key := sha256.Sum256([]byte(token))
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, known := a.when[key]; known && now.Sub(at) < askAgain {
		return false
	}
	if len(a.when) >= maxAsked {
		for k, at := range a.when {
			if now.Sub(at) >= askAgain {
				delete(a.when, k)
			}
		}
		if len(a.when) >= maxAsked {
			return false
		}
	}
	if a.when == nil {
		a.when = make(map[[sha256.Size]byte]time.Time)
	}
	a.when[key] = now
	return true
}

// forget allows another check of a token whose check got no answer.
func (a *asked) forget(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.when, sha256.Sum256([]byte(token)))
}
