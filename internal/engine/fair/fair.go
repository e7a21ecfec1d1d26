// Package fair shares a limited resource of the process among its apps: a greedy app gets what the others leave, but always leaves
// something for the next app.
package fair

import "sync"

// Queue calls do in goroutines, a limited number at once. Calls for one app begin in the order in which they were added, and apps take
// turns. An app may run as many calls as there are free goroutines: alone, it gets half of them, so that the next app finds a free one
// however long the calls take.
type Queue[T any] struct {
	most, waiting int
	do            func(T)

	mu      sync.Mutex
	apps    map[string]*line[T]
	turns   []*line[T] // apps with waiting calls; the first is next
	running int
	wg      sync.WaitGroup
}

// line holds one app's calls in a queue.
type line[T any] struct {
	app     string
	waits   []T
	running int
}

// NewQueue returns a queue that runs at most most calls at once (but at least two), and holds at most waiting calls of one app.
func NewQueue[T any](most, waiting int, do func(T)) *Queue[T] {
	return &Queue[T]{most: max(most, 2), waiting: waiting, do: do, apps: make(map[string]*line[T])}
}

// Add adds a call with v for an app. It returns false if too many calls of the app wait already.
func (q *Queue[T]) Add(app string, v T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.apps[app]
	if l == nil {
		l = &line[T]{app: app}
		q.apps[app] = l
	}
	if len(l.waits) >= q.waiting {
		return false
	}
	if l.waits = append(l.waits, v); len(l.waits) == 1 {
		q.turns = append(q.turns, l)
	}
	q.start()
	return true
}

// Wait waits until no call is running or waiting. Nothing may be added meanwhile.
func (q *Queue[T]) Wait() { q.wg.Wait() }

// start begins the calls that may run now. q.mu is held.
func (q *Queue[T]) start() {
	for passed := 0; passed < len(q.turns); {
		l := q.turns[0]
		q.turns = q.turns[1:]
		if l.running >= q.most-q.running {
			q.turns = append(q.turns, l)
			passed++
			continue
		}
		v := l.waits[0]
		var none T
		l.waits[0] = none
		if l.waits = l.waits[1:]; len(l.waits) > 0 {
			q.turns = append(q.turns, l)
		} else {
			l.waits = nil
		}
		l.running++
		q.running++
		passed = 0
		q.wg.Go(func() { q.work(l, v) })
	}
}

func (q *Queue[T]) work(l *line[T], v T) {
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		l.running--
		q.running--
		if l.running == 0 && len(l.waits) == 0 {
			delete(q.apps, l.app)
		}
		q.start()
	}()
	q.do(v)
}
