package streams

import (
	"context"
	"sync"
)

// mostQueued is how many streams may wait to be read. Beyond that the queue only records that there are more, and a scan examines all
// streams again.
const mostQueued = 10_000

// queue holds the streams that may have new entries, each once.
type queue struct {
	some   chan struct{} // there is something to take
	free   chan struct{} // something was taken
	missed chan struct{} // other streams, which are not queued, may have new entries

	mu   sync.Mutex
	keys []string
	in   map[string]bool
}

func newQueue() *queue {
	return &queue{some: make(chan struct{}, 1), free: make(chan struct{}, 1), missed: make(chan struct{}, 1), in: make(map[string]bool)}
}

// add queues streams that are not queued already.
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

// miss records that streams which are not queued may have new entries.
func (q *queue) miss() { say(q.missed) }

// room waits until half of the queue is free for the streams that a scan finds.
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

// take removes up to n streams, the longest waiting first. It waits until there is one.
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
