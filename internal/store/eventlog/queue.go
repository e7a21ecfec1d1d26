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
	// maxQueuedBytes limits the bytes that wait for the writer: some 300,000 events, or a million in brief chunks, which is at least four
	// seconds of the fastest publishing.
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
	// now is set for a log that assigns ids when events are emitted. Nil: ids are assigned when chunks are stored; until then they count
	// from 1 in each chunk.
	now func() time.Time

	mu     sync.Mutex
	last   uint64 // newest id given out
	chunks []*Chunk
	open   map[string]*Chunk // the last chunk of each app in the queue, while it has room
	spare  *brief            // reused from a chunk that is full or taken; nil: there is none
	queued int               // bytes in the queue and in the write under way
	limit  int               // maxQueuedBytes
	closed bool

	emitted uint64 // events since the start

	wake    chan struct{}
	written atomic.Uint64
	dropped atomic.Uint64
	desc    descriptions
}

// NewQueue makes a queue that assigns ids after last when events are emitted; if now is nil, ids are assigned when events are stored. With
// now, no other process stores events, so no previous version has to read them while this one runs, and chunks are brief.
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
		first = uint64(q.now().UnixMilli())<<IDShift - 1 // after 1970
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

// id assigns an id to the next event of a chunk.
func (q *Queue) id(c *Chunk) uint64 {
	if q.now == nil {
		return uint64(c.N) + 1
	}
	q.last++
	return q.last
}

// chunkFor returns the app's chunk with room for events, and makes it if necessary.
func (q *Queue) chunkFor(app string) *Chunk {
	size := 256
	c := q.open[app]
	if c != nil {
		if !c.full() {
			return c
		}
		q.close(c)
		size = chunkBytes + 1<<10 // the app has many events: allocate the whole size at once, with room for the event that fills the chunk
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

// close frees the parts of a chunk that only its growth needs.
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
	q.dropped.Add(uint64(c.N))
}

// Wake returns a channel that gets an element when the queue is no longer empty.
func (q *Queue) Wake() <-chan struct{} { return q.wake }

// Take empties the queue; upto is the newest id assigned so far.
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

// Written counts taken chunks as stored.
func (q *Queue) Written(chunks []*Chunk) { q.written.Add(q.release(chunks)) }

// Dropped counts taken chunks as lost.
func (q *Queue) Dropped(chunks []*Chunk) { q.dropped.Add(q.release(chunks)) }

// release returns the taken chunks' room to the queue.
func (q *Queue) release(chunks []*Chunk) (events uint64) {
	bytes := 0
	for _, c := range chunks {
		bytes += len(c.Data)
		events += uint64(c.N)
	}
	q.mu.Lock()
	q.queued -= bytes
	q.mu.Unlock()
	return events
}

// Lost counts the events dropped since the start.
func (q *Queue) Lost() int64 { return int64(q.dropped.Load()) }

// flushEvery is the interval of Flush's checks.
const flushEvery = 10 * time.Millisecond

// Flush returns when all events emitted before the call have been stored or dropped.
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

// flushPatience bounds FlushSoon.
const flushPatience = 5 * time.Second

// FlushSoon is Flush for a caller that must not wait for a log which cannot be written.
func (q *Queue) FlushSoon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	_ = q.Flush(ctx) // the caller comes again
}

// Last returns the newest id assigned.
func (q *Queue) Last() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

// Stats returns the current figures.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{Written: q.written.Load(), Dropped: q.dropped.Load(), QueuedBytes: q.queued}
}

// Close makes the queue count all later events as lost. It reports whether this was the first call.
func (q *Queue) Close() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := q.closed
	q.closed = true
	return !was
}
