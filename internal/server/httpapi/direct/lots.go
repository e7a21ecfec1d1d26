package direct

import (
	"sync"
	"sync/atomic"
)

// mostResting limits the goroutines that wait for further requests. A goroutine that has answered one has a large enough stack; a new one
// would have to grow its stack step by step.
const mostResting = 4

// sized is a request with a body.
type sized interface{ size() int }

// lots queues the requests of one kind, and has those that have arrived together answered together.
type lots[T sized] struct {
	s     *Server
	serve func([]T) // nil: such requests are not answered here
	// later calls f on the loop of x's connection once all requests that have come together are queued, and returns false if the loop
	// cannot. nil: goroutines answer, which may wait.
	later  func(x T, f func()) bool
	answer func() // answerQueued, bound once

	mu      sync.Mutex
	waiting []T
	bytes   int           // of their bodies
	called  bool          // a goroutine is about to take the queued requests
	resting chan struct{} // goroutines that have answered receive here while they wait for more
	rest    atomic.Int32  // how many they are
}

func (l *lots[T]) begin(s *Server) { l.s, l.resting, l.answer = s, make(chan struct{}), l.answerQueued }

// submit queues a request. All requests that are queued when the loop or a goroutine takes them are answered together.
func (l *lots[T]) submit(x T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, x)
	l.bytes += x.size()
	if !l.called {
		l.called = true
		if l.later == nil || !l.later(x, l.answer) {
			l.call()
		}
	}
	if len(l.waiting) >= mostTogether || l.bytes >= bytesTogether {
		lot := l.take()
		l.s.working.Go(func() { l.serve(lot) })
	}
}

// call has a goroutine answer what is queued: one that rests, or a new one.
func (l *lots[T]) call() {
	select {
	case l.resting <- struct{}{}:
	default:
		l.s.working.Go(l.work)
	}
}

// work answers queued requests again and again, until enough other goroutines do so.
func (l *lots[T]) work() {
	l.answerQueued()
	for l.restUntilCalled() {
		l.answerQueued()
	}
}

// answerQueued answers the requests that are queued, if there are any.
func (l *lots[T]) answerQueued() {
	l.mu.Lock()
	lot := l.take()
	l.mu.Unlock()
	if len(lot) > 0 {
		l.serve(lot)
	}
}

// restUntilCalled waits for more requests; false: the goroutine is not needed any more.
func (l *lots[T]) restUntilCalled() bool {
	defer l.rest.Add(-1)
	if l.rest.Add(1) > mostResting {
		return false
	}
	select {
	case <-l.resting:
		return true
	case <-l.s.gone:
		return false
	}
}

// take takes the waiting requests; another goroutine takes later ones. The caller holds l.mu.
func (l *lots[T]) take() []T {
	lot := l.waiting
	l.waiting, l.bytes, l.called = nil, 0, false
	return lot
}
