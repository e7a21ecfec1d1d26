package streams

import (
	"context"
	"sync"
)

// mostQueued is how many streams may wait to be read. Beyond that it is only known that there are more, and all are looked at again.
const mostQueued = 10_000

// queue is the streams that may hold something new, each once.
type queue struct {
	some   chan struct{} // there is something to take
	free   chan struct{} // something was taken
	missed chan struct{} // there may be streams that are not queued

	mu   sync.Mutex
	keys []string
	in   map[string]bool
}

func newQueue() *queue {
	return &queue{some: make(chan struct{}, 1), free: make(chan struct{}, 1), missed: make(chan struct{}, 1), in: make(map[string]bool)}
}

// add queues streams; one that is queued is not queued again.
func (q *queue) add(keys []string) {
	full := false
	q.mu.Lock()
	for _, k := range keys {
		switch {
		case q.in[k]:
		case len(q.keys) >= mostQueued:
			full = true
		default:
			q.in[k] = true
			q.keys = append(q.keys, k)
		}
	}
	q.mu.Unlock()
	say(q.some)
	if full {
		q.miss()
	}
}

// miss says that there may be others.
func (q *queue) miss() { say(q.missed) }

// room waits until the queue has room for what a scan finds.
func (q *queue) room(ctx context.Context) error {
	for {
		q.mu.Lock()
		n := len(q.keys)
		q.mu.Unlock()
		if n <= mostQueued/2 {
			return ctx.Err()
		}
		select {
		case <-q.free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take takes up to n streams, those that have waited longest, and waits until there is one.
func (q *queue) take(ctx context.Context, n int) ([]string, error) {
	for {
		q.mu.Lock()
		n := min(n, len(q.keys))
		keys := append([]string(nil), q.keys[:n]...)
		q.keys = q.keys[n:]
		for _, k := range keys {
			delete(q.in, k)
		}
		q.mu.Unlock()
		if n > 0 {
			say(q.free)
			return keys, ctx.Err()
		}
		select {
		case <-q.some:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func say(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
