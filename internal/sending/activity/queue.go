package activity

import (
	"container/heap"
	"sync"
	"time"
)

// queue holds the objects whose activities have to be told something, each once.
type queue struct {
	mu    sync.Mutex
	known map[name]*waiting
	heap  waitings
	wake  chan struct{}
}

// waiting is an object that waits, or whose activities are being told.
type waiting struct {
	name
	at    time.Time
	tries int  // failed ones in a row
	busy  bool // its activities are being told
	again bool // while busy: it has to be told again, at the time at
	index int  // in the heap; -1: not in it
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
		w = &waiting{name: n, index: -1}
		q.known[n] = w
	}
	switch {
	case w.busy:
		if !w.again || at.Before(w.at) {
			w.again, w.at = true, at
		}
	case w.index < 0:
		w.at = at
		heap.Push(&q.heap, w)
	case at.Before(w.at):
		w.at = at
		heap.Fix(&q.heap, w.index)
	}
	q.poke(w)
	return true
}

func (q *queue) poke(w *waiting) {
	if w.index == 0 {
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
	if len(q.heap) == 0 {
		return nil, lookEvery
	}
	if wait := q.heap[0].at.Sub(now); wait > 0 {
		return nil, min(wait, lookEvery)
	}
	w = heap.Pop(&q.heap).(*waiting)
	w.busy, w.again = true, false
	return w, 0
}

// done says that an object's activities were told. retry is how long until the failed ones are tried again; 0: none failed.
func (q *queue) done(w *waiting, retry time.Duration, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.busy = false
	if retry > 0 && (!w.again || now.Add(retry).Before(w.at)) {
		w.again, w.at = true, now.Add(retry)
	}
	if !w.again {
		delete(q.known, w.name)
		return
	}
	w.again = false
	heap.Push(&q.heap, w)
	q.poke(w)
}

// waitings are ordered by time.
type waitings []*waiting

func (q waitings) Len() int           { return len(q) }
func (q waitings) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q waitings) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *waitings) Push(x any) {
	w := x.(*waiting)
	w.index = len(*q)
	*q = append(*q, w)
}

// Pop implements heap.Interface.
func (q *waitings) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	w.index = -1
	return w
}
