package session

import (
	"context"
	mrand "math/rand/v2"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
)

// Shutdown sends goodbye to every session and refuses new ones. The more clients there are, the longer the time over which they reconnect.
// It returns when all sessions are gone or ctx ends.
func (h *Hub) Shutdown(ctx context.Context) error {
	h.closing.Store(true)
	all := h.reg.all()
	spread := min(time.Second+time.Duration(len(all))*time.Second/shutdownPerSec, shutdownMost)
	for _, s := range all {
		s.Goodbye(away(spread))
	}
	return h.reg.wait(ctx)
}

// away is the goodbye that makes a client reconnect at a random time within spread, after at least a millisecond: frames count in
// milliseconds, and 0 means at once.
func away(spread time.Duration) frame.Goodbye {
	return frame.Goodbye{Reason: frame.Shutdown, RetryAfter: time.Millisecond + time.Duration(mrand.Int64N(int64(spread)))}
}

// elsewhere does the same as away for sessions of a node that cannot reach the store.
func elsewhere(spread time.Duration) frame.Goodbye {
	g := away(spread)
	g.Reason = frame.StoreAway
	return g
}

// refuses reports whether new sessions are refused, and the goodbye for them.
func (h *Hub) refuses() (g frame.Goodbye, refused bool) {
	switch {
	case h.closing.Load():
		return away(time.Second), true
	case h.leaving.Load():
		return elsewhere(time.Second), true
	}
	return g, false
}

// How a drained node ends its sessions: some at a time, so that the other nodes take them gradually.
const (
	drainPerSec = 1000
	drainMost   = time.Minute
	drainEvery  = 50 * time.Millisecond
)

// Drain refuses new sessions and ends the present ones, spread over up to a minute. It returns when all are gone or ctx ends.
func (h *Hub) Drain(ctx context.Context) error {
	h.closing.Store(true)
	if err := h.sendAway(ctx, away); err != nil {
		return err
	}
	return h.reg.wait(ctx)
}

// Leave refuses new sessions and moves the present ones to other nodes, spread over time as in Drain, until ctx ends. Then new sessions are
// accepted again.
func (h *Hub) Leave(ctx context.Context) {
	h.leaving.Store(true)
	defer h.leaving.Store(false)
	_ = h.sendAway(ctx, elsewhere) // fails when ctx ends
	<-ctx.Done()
}

// sendAway sends goodbye to the present sessions, spread over time.
func (h *Hub) sendAway(ctx context.Context, how func(spread time.Duration) frame.Goodbye) error {
	all := h.reg.all()
	spread := min(time.Second+time.Duration(len(all))*time.Second/drainPerSec, drainMost)
	batch := max(1, len(all)/int(spread/drainEvery))
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	for len(all) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		n := min(batch, len(all))
		for _, s := range all[:n] {
			s.Goodbye(how(time.Second))
		}
		all = all[n:]
	}
	return nil
}
