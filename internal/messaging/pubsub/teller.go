package pubsub

import (
	"sync"
	"time"
)

// tellEvery is the longest time that a gap frame waits once the connection has room for it. Most are sent earlier, before the next message.
const tellEvery = 250 * time.Millisecond

// teller sends gap frames to sessions that get no further message. Otherwise the gap frame is sent before the next message.
type teller struct {
	svc     *Service
	mu      sync.Mutex
	owing   []*subscriber
	running bool
	closed  bool
}

func (t *teller) add(s *subscriber) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owing = append(t.owing, s)
	if !t.running && !t.closed {
		t.running = true
		t.svc.running.Go(t.run)
	}
}

// close prevents the start of further goroutines.
func (t *teller) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// run works in rounds until all gap frames are sent.
func (t *teller) run() {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-t.svc.ctx.Done():
			return
		case <-tick.C:
		}
		t.mu.Lock()
		some := t.owing
		t.owing = nil
		t.mu.Unlock()
		var left []*subscriber
		for _, s := range some {
			if !s.told() {
				left = append(left, s)
			}
		}
		t.mu.Lock()
		t.owing = append(t.owing, left...)
		t.running = len(t.owing) > 0
		done := !t.running
		t.mu.Unlock()
		if done {
			return
		}
	}
}

// told sends the number of dropped messages. If that succeeds, it takes the session off the list.
func (s *subscriber) told() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owing = !s.over.Load() && !s.tellGap()
	return !s.owing
}
