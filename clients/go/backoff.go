package godwit

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spreads retries with full jitter: each wait is random between zero and a limit that doubles, so that clients that lost the server
// together do not reconnect together.
type backoff struct {
	base, most time.Duration
	n          int
}

// How requests and connections are retried.
const (
	requestBase = 100 * time.Millisecond
	requestMost = 10 * time.Second
	connectBase = time.Second
	connectMost = 5 * time.Minute
)

func (b *backoff) next() time.Duration {
	bound := b.most
	if b.n < 30 && b.base<<b.n < b.most {
		bound = b.base << b.n
	}
	b.n++
	return rand.N(bound) + 1
}

// sleep waits unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
