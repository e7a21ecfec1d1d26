package postgres

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/objects/object"
)

// item is a part of the log.
type item struct {
	entries []source.Entry
	at      time.Time      // when they were committed
	unknown string         // a group of objects that were deleted after the entries; empty: none
	below   object.Version // of that
	end     LSN            // when it is stored, so is the log up to here; 0: a commit goes on
}

func (it *item) bytes() (n int) {
	for i := range it.entries {
		n += len(it.entries[i].Body) + len(it.entries[i].Text)
	}
	return n
}

// queue holds what has been read and waits to be stored. It is bounded.
type queue struct {
	mu      sync.Mutex
	items   []item
	entries int
	bytes   int
	come    chan struct{} // has room for one
	gone    chan struct{}
}

func newQueue() *queue {
	return &queue{come: make(chan struct{}, 1), gone: make(chan struct{}, 1)}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// full reports whether the next put waits.
func (q *queue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.entries >= queueEntries || q.bytes >= queueBytes
}

// put adds an item, and waits before while there are too many.
func (q *queue) put(ctx context.Context, it item) error {
	for q.full() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-q.gone:
		}
	}
	q.mu.Lock()
	q.items = append(q.items, it)
	q.entries += len(it.entries)
	q.bytes += it.bytes()
	q.mu.Unlock()
	wake(q.come)
	return nil
}

// oldest returns when the oldest entry that waits was committed; zero: none waits.
func (q *queue) oldest() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.items {
		if len(q.items[i].entries) > 0 {
			return q.items[i].at
		}
	}
	return time.Time{}
}

// take waits for items and joins those that can be stored together. It returns when the oldest of them was committed.
func (q *queue) take(ctx context.Context) (it item, oldest time.Time, err error) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			break
		}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return it, oldest, context.Cause(ctx)
		case <-q.come:
		}
	}
	defer q.mu.Unlock()
	n := 0
	for n < len(q.items) && (n == 0 || len(it.entries)+len(q.items[n].entries) <= mostEntries && it.unknown == "") {
		next := &q.items[n]
		if len(next.entries) > 0 && oldest.IsZero() {
			oldest = next.at
		}
		it.entries = append(it.entries, next.entries...)
		it.unknown, it.below = next.unknown, next.below
		it.end = max(it.end, next.end)
		q.entries -= len(next.entries)
		q.bytes -= next.bytes()
		n++
	}
	q.items = append(q.items[:0], q.items[n:]...)
	wake(q.gone)
	return it, oldest, nil
}

// groups returns the groups of the puts of a message.
func groups(body []byte) (names []string) {
	type put struct{ Put *struct{ Group string } }
	var one put
	var list []put
	if json.Unmarshal(body, &one) == nil {
		list = []put{one}
	} else if json.Unmarshal(body, &list) != nil {
		return nil
	}
	for _, p := range list {
		if p.Put != nil && p.Put.Group != "" {
			names = append(names, p.Put.Group)
		}
	}
	return names
}
