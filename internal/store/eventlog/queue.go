package eventlog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
)

const (
	// maxQueuedBytes bounds what waits for the writer: some 300,000 events, or a million in brief chunks, four seconds of the fastest publishing and more.
	maxQueuedBytes = 16 << 20
	// IDShift is event.IDShift.
	IDShift = event.IDShift
)

// Stats are figures for metrics.
type Stats struct {
	Written, Dropped uint64 // events since the start
	QueuedBytes      int
}

// Queue holds emitted events until they are stored.
type Queue struct {
	// Now is for a log whose ids are given when events are emitted. Nil: they are given when chunks are stored, and count from 1
	// in each until then.
	now func() time.Time

	mu     sync.Mutex
	last   uint64 // newest id given out
	chunks []*Chunk
	open   map[string]*Chunk // the last chunk of each app in the queue, while it has room
	spare  *brief            // of a chunk that is full or taken; nil: there is none
	queued int               // bytes in the queue and in the write under way
	limit  int               // maxQueuedBytes
	closed bool

	emitted uint64 // events since the start

	wake    chan struct{}
	written atomic.Uint64
	dropped atomic.Uint64
	desc    descriptions
}

// NewQueue makes a queue that gives out ids after last when events are emitted; without now, ids are given when they are stored. With now
// nobody else stores events beside this process, so that no version before it has to read them while it runs, and chunks are brief.
func NewQueue(last uint64, now func() time.Time) *Queue {
	return &Queue{now: now, last: last, open: make(map[string]*Chunk), limit: maxQueuedBytes, wake: make(chan struct{}, 1), desc: newDescriptions()}
}

// Emit queues events. It never blocks; when too much is queued the oldest events are dropped and counted.
func (q *Queue) Emit(evs []event.Event) {
	if len(evs) == 0 {
		return
	}
	first := uint64(0)
	if q.now != nil {
		first = uint64(q.now().UnixMilli())<<IDShift - 1 //nolint:gosec // after 1970
	}
	q.mu.Lock()
	q.emitted += uint64(len(evs))
	if q.closed {
		q.mu.Unlock()
		q.dropped.Add(uint64(len(evs)))
		return
	}
	idle := len(q.chunks) == 0
	q.last = max(q.last, first)
	var c *Chunk
	for i := range evs {
		e := &evs[i]
		if c == nil || c.App != e.App || c.full() {
			c = q.chunkFor(e.App)
		}
		before := len(c.Data)
		c.append(q.id(c), e)
		q.queued += len(c.Data) - before
	}
	for q.queued > q.limit && len(q.chunks) > 1 {
		q.dropOldest()
	}
	q.mu.Unlock()
	if idle {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// id gives an id to the next event of a chunk.
func (q *Queue) id(c *Chunk) uint64 {
	if q.now == nil {
		return uint64(c.N) + 1 //nolint:gosec // a count
	}
	q.last++
	return q.last
}

// chunkFor finds or makes the app's chunk to write to.
func (q *Queue) chunkFor(app string) *Chunk {
	size := 256
	c := q.open[app]
	if c != nil {
		if !c.full() {
			return c
		}
		q.close(c)
		size = chunkBytes + 1<<10 // there are many: allocate at once, with room for the one that fills it
	}
	c = &Chunk{App: app, Data: make([]byte, 0, size)}
	if q.now != nil {
		if c.names, q.spare = q.spare, nil; c.names == nil {
			c.names = newBrief()
		}
	}
	q.open[app] = c
	q.chunks = append(q.chunks, c)
	return c
}

// close frees the parts of a chunk that it needs only to grow.
func (q *Queue) close(c *Chunk) {
	if c.names != nil && q.spare == nil {
		c.names.rest()
		q.spare = c.names
	}
	c.names = nil
}

func (q *Queue) dropOldest() {
	c := q.chunks[0]
	q.chunks[0] = nil
	q.chunks = q.chunks[1:]
	if q.open[c.App] == c {
		delete(q.open, c.App)
	}
	q.queued -= len(c.Data)
	q.dropped.Add(uint64(c.N)) //nolint:gosec // a count
}

// Wake is sent to when the queue is no longer empty.
func (q *Queue) Wake() <-chan struct{} { return q.wake }

// Take empties the queue; upto is the newest id in it or before.
func (q *Queue) Take() (chunks []*Chunk, upto uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	chunks = q.chunks
	q.chunks = nil
	for _, c := range q.open {
		q.close(c)
	}
	clear(q.open)
	return chunks, q.last
}

// Written counts chunks that were taken as stored.
func (q *Queue) Written(chunks []*Chunk) { q.written.Add(q.release(chunks)) }

// Dropped counts chunks that were taken as lost.
func (q *Queue) Dropped(chunks []*Chunk) { q.dropped.Add(q.release(chunks)) }

// release gives back the room of chunks that were taken.
func (q *Queue) release(chunks []*Chunk) (events uint64) {
	bytes := 0
	for _, c := range chunks {
		bytes += len(c.Data)
		events += uint64(c.N) //nolint:gosec // a count
	}
	q.mu.Lock()
	q.queued -= bytes
	q.mu.Unlock()
	return events
}

// Lost counts events that were dropped since the start.
func (q *Queue) Lost() int64 { return int64(q.dropped.Load()) } //nolint:gosec // a count

// flushEvery is how often Flush checks.
const flushEvery = 10 * time.Millisecond

// Flush returns when all that was emitted before has been stored or dropped.
func (q *Queue) Flush(ctx context.Context) error {
	q.mu.Lock()
	upto := q.emitted
	q.mu.Unlock()
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for q.written.Load()+q.dropped.Load() < upto {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until events are stored: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Last is the newest id given out.
func (q *Queue) Last() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

// Stats returns the figures of now.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{Written: q.written.Load(), Dropped: q.dropped.Load(), QueuedBytes: q.queued}
}

// Close has all that is emitted from now on counted as lost. It reports whether this was the first time.
func (q *Queue) Close() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := q.closed
	q.closed = true
	return !was
}
