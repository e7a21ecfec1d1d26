// Package memory keeps the process small: it knows the process's limit and bounds queues by it, tunes the garbage collector during bursts of
// connections, and returns memory to the system afterwards.
package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// When all clients reconnect at once, their connections create much garbage within seconds, and the collector lets the heap double. During
// such a burst, the heap may grow less between collections, which costs some CPU time. If many sessions end at once, a burst follows: their
// clients reconnect.
const (
	burstOpens   = 500             // connections that open, or sessions that end, between two checks; fewer are normal
	burstLook    = time.Second     // how often it is looked
	burstLinger  = 3 * time.Second // the burst is over after this time without further ones
	burstPercent = 15              // growth of the heap over the live bytes, in percent
	burstRoom    = 5 << 20         // minimum growth in bytes: otherwise a small heap would be collected all the time
	burstTune    = 50 * time.Millisecond
)

// A server with few live bytes and much work collects all the time: during a storm of topics with 5 MB alive, it collected 28 times a
// second, which took a fifth of its CPU time and delayed the mailbox by milliseconds. Such a heap may grow further while the load lasts.
const (
	busyCollections = 4        // collections a second; fewer cost little
	busyRoom        = 24 << 20 // bytes by which the heap may grow
)

const usualPercent = 100 // Go's default for GOGC; another value was set on purpose, so the pacer does not change it

// Pacer tunes the collector during bursts of connections, and when collections are too frequent.
type Pacer struct {
	opened atomic.Int64 // since the last look
	wake   chan struct{}
	live   func() int // sessions
	heap   func() heap
	set    func(percent int) (old int)
}

// heap holds the collector's numbers.
type heap struct {
	live        uint64 // bytes found live by the last collection
	collections uint64 // since start
}

// NewPacer returns the process's pacer. live returns the number of sessions.
func NewPacer(live func() int) *Pacer { return newPacer(live, readHeap, debug.SetGCPercent) }

func newPacer(live func() int, read func() heap, set func(int) int) *Pacer {
	return &Pacer{wake: make(chan struct{}, 1), live: live, heap: read, set: set}
}

func readHeap() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	return heap{live: samples[0].Value.Uint64(), collections: samples[1].Value.Uint64()}
}

// percentOf returns the growth in percent of a heap that grows by room.
func percentOf(room, live uint64) int { return int(100 * room / max(live, burstRoom)) }

// Opening records that a connection opens.
func (p *Pacer) Opening() {
	if p.opened.Add(1) == burstOpens {
		select {
		case p.wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// Run tunes the collector until ctx ends.
func (p *Pacer) Run(ctx context.Context) error {
	look, tune := time.NewTicker(burstLook), time.NewTicker(burstTune)
	tune.Stop() // until there is a burst
	defer look.Stop()
	defer tune.Stop()
	g := goal{p.set, usualPercent}
	defer g.to(usualPercent)
	var until time.Time // of the burst
	before, collected := p.live(), p.heap().collections
	for {
		var now time.Time
		var stirred bool
		var h heap
		select {
		case <-ctx.Done():
			return nil
		case <-tune.C:
			g.to(max(burstPercent, percentOf(burstRoom, p.heap().live)))
			continue
		case <-p.wake:
			now, stirred, h = time.Now(), true, p.heap()
		case now = <-look.C:
			live := p.live()
			stirred = p.opened.Swap(0) >= burstOpens || before-live >= burstOpens
			before, h = live, p.heap()
			if until.IsZero() && !stirred {
				g.busy(h.collections-collected, h.live)
			}
			collected = h.collections
		}
		switch {
		case stirred && until.IsZero():
			g.to(max(burstPercent, percentOf(burstRoom, h.live)))
			tune.Reset(burstTune)
			until = now.Add(burstLinger)
		case stirred:
			until = now.Add(burstLinger)
		case !until.IsZero() && !now.Before(until):
			tune.Stop()
			g.to(usualPercent)
			until = time.Time{}
		}
	}
}

// goal is the growth of the heap over the live bytes, in percent, after which a collection begins.
type goal struct {
	set     func(percent int) (old int)
	percent int // as it is set
}

func (g *goal) to(percent int) {
	if percent != g.percent {
		g.set(percent)
		g.percent = percent
	}
}

// busy lets the heap grow further if there were too many collections since the last check, or would have been at the usual percentage.
func (g *goal) busy(collections, live uint64) {
	least := uint64(busyCollections)
	if g.percent > usualPercent {
		least /= 2
	}
	percent := usualPercent
	if collections*uint64(g.percent)/usualPercent >= least {
		percent = max(percent, percentOf(busyRoom, live))
	}
	g.to(percent)
}
