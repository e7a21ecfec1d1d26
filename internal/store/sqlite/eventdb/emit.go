package eventdb

import (
	"godwit.dev/godwit/internal/event"
)

const (
	// maxQueuedBytes bounds what waits for the writer: some 300,000 events, four seconds of the fastest publishing.
	maxQueuedBytes = 16 << 20
	// idShift: an id is a time in milliseconds and, below, a counter that may well run over into it.
	idShift = 20
)

// Emit queues events. It never blocks; when too much is queued the oldest events are dropped and counted.
func (l *Log) Emit(evs []event.Event) {
	if len(evs) == 0 {
		return
	}
	now := l.opts.Now().UnixMilli()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.dropped.Add(uint64(len(evs)))
		return
	}
	idle := len(l.queue) == 0
	l.last = max(l.last, uint64(now)<<idShift-1) //nolint:gosec // after 1970
	var c *chunk
	for i := range evs {
		e := &evs[i]
		if c == nil || c.app != e.App || c.full() {
			c = l.chunkFor(e.App)
		}
		l.last++
		before := len(c.data)
		c.append(l.last, e)
		l.queued += len(c.data) - before
	}
	for l.queued > l.limit && len(l.queue) > 1 {
		l.dropOldest()
	}
	l.mu.Unlock()
	if idle {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// chunkFor finds or makes the app's chunk to write to.
func (l *Log) chunkFor(app string) *chunk {
	size := 256
	c := l.open[app]
	if c != nil {
		if !c.full() {
			return c
		}
		size = chunkBytes + 1<<10 // there are many: allocate at once, with room for the one that fills it
	}
	c = &chunk{app: app, data: make([]byte, 0, size)}
	l.open[app] = c
	l.queue = append(l.queue, c)
	return c
}

func (l *Log) dropOldest() {
	c := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	if l.open[c.app] == c {
		delete(l.open, c.app)
	}
	l.queued -= len(c.data)
	l.dropped.Add(uint64(c.n)) //nolint:gosec // a count
}

// take empties the queue; upto is the newest id in it or before.
func (l *Log) take() (chunks []*chunk, upto uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	chunks = l.queue
	l.queue = nil
	clear(l.open)
	return chunks, l.last
}

// release gives back the room of chunks that were taken.
func (l *Log) release(chunks []*chunk) (events uint64) {
	bytes := 0
	for _, c := range chunks {
		bytes += len(c.data)
		events += uint64(c.n) //nolint:gosec // a count
	}
	l.mu.Lock()
	l.queued -= bytes
	l.mu.Unlock()
	return events
}
