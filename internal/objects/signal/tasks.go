package signal

import "sync"

// tasks are a service's goroutines and the pending requests to its store. A task may start further tasks; after the service has closed,
// only tasks can start new ones, so none begins after wait has returned.
type tasks struct {
	mu     sync.Mutex
	n      int
	closed bool
	over   chan struct{} // closed when the last task ends; nil: wait was not called yet
}

// begin counts one more task. False: the service has closed, and the task must not begin.
func (t *tasks) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed && t.n == 0 {
		return false
	}
	t.n++
	return true
}

// end takes back one begin.
func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.closed && t.n == 0 {
		close(t.over)
	}
}

// Go runs a task in its own goroutine, or returns false if it must not begin.
func (t *tasks) Go(do func()) bool {
	if !t.begin() {
		return false
	}
	go func() {
		defer t.end()
		do()
	}()
	return true
}

// wait closes the service's tasks, and returns when no task is left. It must be called once.
func (t *tasks) wait() {
	t.mu.Lock()
	t.closed, t.over = true, make(chan struct{})
	if t.n == 0 {
		close(t.over)
	}
	t.mu.Unlock()
	<-t.over
}

// queue passes items to a bounded number of goroutines, which end when no item is left.
type queue[T any] struct {
	tasks   *tasks
	limit   int
	do      func(T)
	batch   func([]T) // replaces do: handles up to most items at once
	most    int
	mu      sync.Mutex
	items   []T
	running int
}

func (q *queue[T]) init(t *tasks, limit int, do func(T)) {
	q.tasks, q.limit, q.do, q.most = t, limit, do, 1
}

// add queues an item. After the service has closed the item is ignored.
func (q *queue[T]) add(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, item)
	if q.running == q.limit {
		return
	}
	if q.tasks.Go(q.run) {
		q.running++
	} else {
		q.items = nil
	}
}

func (q *queue[T]) run() {
	for {
		q.mu.Lock()
		n := min(q.most, len(q.items))
		if n == 0 {
			q.running--
			q.items = nil
			q.mu.Unlock()
			return
		}
		some := q.items[:n:n]
		q.items = q.items[n:]
		q.mu.Unlock()
		if q.batch != nil {
			q.batch(some)
		} else {
			q.do(some[0])
		}
	}
}
