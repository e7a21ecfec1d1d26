package objectdb

import "sync"

// laneRows limits the rows of one commit. A larger commit would save few fsyncs and would make callers wait longer.
const laneRows = 500

// lane writes queued operations in batches: each commit takes those that arrived during the one before. Apps take turns
// in it.
type lane[T any] struct {
	rows  func(T) int
	write func(batch []T)

	mu     sync.Mutex
	work   sync.Cond
	apps   map[string]*line[T]
	turns  []*line[T] // apps with queued operations; the first is next
	closed bool
	over   chan struct{}
}

// line is the queue of one app.
type line[T any] struct {
	app   string
	waits []T
}

// newLane starts a lane: one goroutine calls write with one batch after the other.
func newLane[T any](rows func(T) int, write func([]T)) *lane[T] {
	l := &lane[T]{rows: rows, write: write, apps: make(map[string]*line[T]), over: make(chan struct{})}
	l.work.L = &l.mu
	go l.run()
	return l
}

// add queues v and returns true, or returns false if the lane is closed.
func (l *lane[T]) add(app string, v T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	q := l.apps[app]
	if q == nil {
		q = &line[T]{app: app}
		l.apps[app] = q
		l.turns = append(l.turns, q)
	}
	q.waits = append(q.waits, v)
	l.work.Signal()
	return true
}

// close refuses new operations, and returns when the queued ones are written.
func (l *lane[T]) close() {
	l.mu.Lock()
	l.closed = true
	l.work.Signal()
	l.mu.Unlock()
	<-l.over
}

func (l *lane[T]) run() {
	defer close(l.over)
	for batch := l.take(); len(batch) > 0; batch = l.take() {
		l.write(batch)
	}
}

// take waits for operations and returns the next batch; nil: the lane is closed and empty.
func (l *lane[T]) take() (batch []T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.turns) == 0 && !l.closed {
		l.work.Wait()
	}
	for n := 0; len(l.turns) > 0; {
		q := l.turns[0]
		if n += l.rows(q.waits[0]); n > laneRows && len(batch) > 0 {
			break
		}
		batch = append(batch, q.waits[0])
		l.turns = l.turns[1:]
		if q.waits = q.waits[1:]; len(q.waits) > 0 {
			l.turns = append(l.turns, q)
		} else {
			delete(l.apps, q.app)
		}
	}
	return batch
}
