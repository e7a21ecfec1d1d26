package redisstream

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
)

// due is the time when an entry of a stream expires.
type due struct {
	at int64 // in milliseconds
	st *stream
}

// dues is a heap ordered by time.
type dues struct {
	mu   sync.Mutex
	heap dueHeap
}

type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(due)) }

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = due{}
	*h = (*h)[:last]
	return x
}

// expireAt schedules a stream's expiry for the time when its next entry expires. The caller holds the stream's lock.
func (s *Store) expireAt(st *stream) {
	at := st.nextExpiry()
	if at == 0 || st.due != 0 && st.due <= at {
		return
	}
	st.due = at
	s.due.mu.Lock()
	defer s.due.mu.Unlock()
	heap.Push(&s.due.heap, due{at, st})
}

// expireEvery is the interval of expiry, and so how late an entry may be deleted.
const expireEvery = 500 * time.Millisecond

// expire deletes expired entries of online clients, until ctx ends.
func (s *Store) expire(ctx context.Context) {
	for pause.For(ctx, expireEvery) {
		s.expireDue(s.now())
	}
}

func (s *Store) expireDue(now int64) {
	for {
		s.due.mu.Lock()
		if len(s.due.heap) == 0 || s.due.heap[0].at > now {
			s.due.mu.Unlock()
			return
		}
		d := heap.Pop(&s.due.heap).(due)
		s.due.mu.Unlock()
		st := d.st
		st.mu.Lock()
		if st.due != d.at {
			st.mu.Unlock()
			continue // the next expiry is at another time, or the client went offline
		}
		st.due = 0
		out := s.ended(st, st.expire(now))
		s.expireAt(st)
		st.mu.Unlock()
		s.leaveLater(st, out)
	}
}
