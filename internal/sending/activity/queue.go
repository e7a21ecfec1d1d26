package activity

import (
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/timeheap"
)

// queue holds the objects whose activities have to be told something, each once.
type queue struct {
	mu    sync.Mutex
	known map[name]*waiting
	heap  timeheap.Heap[*waiting]
	wake  chan struct{}
}

// waiting is an object that waits, or whose activities are being told.
type waiting struct {
	timeheap.Entry
	name
	tries int  // failed ones in a row
	busy  bool // its activities are being told
	again bool // while busy: it has to be told again, at the time At
}

func newQueue() queue { return queue{known: make(map[name]*waiting), wake: make(chan struct{}, 1)} }

// want has an object told at a time, or earlier if it waits for an earlier one. False: too many objects wait.
func (q *queue) want(n name, at time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.known[n]
	if w == nil {
		if len(q.known) >= maxQueued {
			return false
		}
		w = &waiting{name: n}
		q.known[n] = w
	}
	switch {
	case w.busy:
		if !w.again || at.Before(w.At) {
			w.again, w.At = true, at
		}
	case !w.Waits() || at.Before(w.At):
		w.At = at
		q.heap.Put(w)
	}
	q.poke(w)
	return true
}

func (q *queue) poke(w *waiting) {
	if w.IsFirst() {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// next takes an object whose time has come. nil: wait is the time until the next one.
func (q *queue) next(now time.Time) (w *waiting, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first, some := q.heap.First()
	if !some {
		return nil, lookEvery
	}
	if wait := first.At.Sub(now); wait > 0 {
		return nil, min(wait, lookEvery)
	}
	w = q.heap.Pop()
	w.busy, w.again = true, false
	return w, 0
}

// done says that an object's activities were told. retry is how long until the failed ones are tried again; 0: none failed.
func (q *queue) done(w *waiting, retry time.Duration, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.busy = false
	if retry > 0 && (!w.again || now.Add(retry).Before(w.At)) {
		w.again, w.At = true, now.Add(retry)
	}
	if !w.again {
		delete(q.known, w.name)
		return
	}
	w.again = false
	q.heap.Put(w)
	q.poke(w)
}
