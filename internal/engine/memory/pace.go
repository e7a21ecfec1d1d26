// Package memory keeps what the process holds small: it steers the collector through bursts of connections, and gives
// memory back to the system after them.
package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// When all clients come back at once, opening their connections makes much garbage within seconds, and the collector,
// which lets the heap double, lets it lie. During such a burst the heap may grow less between collections, which costs
// some CPU time. Sessions that end in masses announce a burst: their clients come back.
const (
	burstOpens   = 500             // connections that open, or sessions that end, between two looks: below it is everyday life
	burstLook    = time.Second     // how often it is looked
	burstLinger  = 3 * time.Second // without any more the burst is over
	burstPercent = 15              // how much the heap may grow over what lives
	burstRoom    = 5 << 20         // bytes by which it may grow anyhow: a small heap would be collected all the time
	burstTune    = 50 * time.Millisecond
)

// A server with little to keep and much to do collects all the time: a storm of topics with 5 MB alive did so 28 times a second,
// which took a fifth of its CPU time and held the mailbox up for milliseconds. Such a heap may grow further, as long as that lasts.
const (
	busyCollections = 4        // a second: below it they cost little
	busyRoom        = 24 << 20 // bytes by which the heap may grow
)

const usualPercent = 100 // Go's own: who has set another one means it, and is not steered

// Pacer notices bursts of connections, and collections that come too often.
type Pacer struct {
	opened atomic.Int64 // since the last look
	wake   chan struct{}
	live   func() int // sessions
	heap   func() heap
	set    func(percent int) (old int)
}

// heap is what the collector says of itself.
type heap struct {
	live        uint64 // bytes that the last collection has found to live
	collections uint64 // since start
}

// NewPacer makes a pacer of the process. live counts its sessions.
func NewPacer(live func() int) *Pacer { return newPacer(live, readHeap, debug.SetGCPercent) }

func newPacer(live func() int, read func() heap, set func(int) int) *Pacer {
	return &Pacer{wake: make(chan struct{}, 1), live: live, heap: read, set: set}
}

func readHeap() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	return heap{live: samples[0].Value.Uint64(), collections: samples[1].Value.Uint64()}
}

// percentOf is by how much a heap grows by room.
func percentOf(room, live uint64) int { return int(100 * room / max(live, burstRoom)) }

// Opening notes that a connection opens.
func (p *Pacer) Opening() {
	if p.opened.Add(1) == burstOpens {
		select {
		case p.wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// Run steers the collector until ctx ends.
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

// goal is by how much the heap may grow over what lives before it is collected.
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

// busy lets a heap grow further that was collected too often since the last look, or would have been as usual.
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
