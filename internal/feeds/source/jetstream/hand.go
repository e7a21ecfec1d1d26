package jetstream

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// hand holds the messages that were delivered and have no outcome yet, and prolongs the time that NATS waits for it.
type hand struct {
	come chan struct{} // has room for one
	gone chan struct{}

	mu      sync.Mutex
	waiting []*message // to be stored
	busy    []*message // being stored
	early   []*message // have come before others that were delivered to a former reader
	bytes   int        // of early
}

func newHand() *hand {
	return &hand{come: make(chan struct{}, 1), gone: make(chan struct{}, 1)}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (h *hand) add(m *message) {
	h.mu.Lock()
	h.waiting = append(h.waiting, m)
	h.mu.Unlock()
	wake(h.come)
}

// room waits until everything that was delivered before is being stored, so that at most two requests' messages are here.
func (h *hand) room(ctx context.Context) error {
	for {
		h.mu.Lock()
		n := len(h.waiting)
		h.mu.Unlock()
		if n == 0 {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.gone:
		}
	}
}

// take waits for messages, for a time at most, and returns all that are here. Those of the last call have an outcome now.
func (h *hand) take(ctx context.Context, most time.Duration) ([]*message, error) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		h.mu.Lock()
		h.busy, h.waiting = h.waiting, nil
		busy := h.busy
		h.mu.Unlock()
		if len(busy) > 0 {
			wake(h.gone)
			return busy, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
			return nil, nil
		case <-h.come:
		}
	}
}

// done ends the work on messages that take has returned.
func (h *hand) done() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = nil
}

// keep has a message that take has returned wait for release.
func (h *hand) keep(m *message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.early = append(h.early, m)
	h.bytes += len(m.Data())
}

// size returns how many bytes the messages have that wait for release.
func (h *hand) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// release has take return the messages that were kept, in the order of the stream and before others.
func (h *hand) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(h.early, func(a, b *message) int { return cmp.Compare(a.seq, b.seq) })
	h.waiting, h.early, h.bytes = append(h.early, h.waiting...), nil, 0
}

// all returns all messages.
func (h *hand) all() []*message {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Concat(h.busy, h.early, h.waiting)
}

// beat tells NATS again and again that the messages are being worked on, until ctx ends.
func (h *hand) beat(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		for _, m := range h.all() {
			_ = m.InProgress() // fails only with the connection, which others notice, or if the message has its outcome by now
		}
	}
}

// giveBack has NATS deliver the messages at once to the next reader.
func (h *hand) giveBack() {
	for _, m := range h.all() {
		_ = m.Nak() // likewise
	}
}
