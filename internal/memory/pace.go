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
// which lets the heap double, lets it lie. For so long it is told to keep closer: it costs some CPU time, and only then.
// Sessions that end in masses announce it: whoever is cut comes back.
const (
	burstOpens   = 500              // connections that open, or sessions that end, between two looks: below it is everyday life
	burstLook    = time.Second      // how often it is looked
	burstLinger  = 10 * time.Second // without any more the burst is over
	burstPercent = 15               // how much the heap may grow over what lives
	burstRoom    = 5 << 20          // bytes by which it may grow anyhow: a small heap would be collected all the time
	burstTune    = 50 * time.Millisecond
)

// Pacer notices bursts of connections.
type Pacer struct {
	opened atomic.Int64 // since the last look
	wake   chan struct{}
	live   func() int    // sessions
	heap   func() uint64 // bytes that were found to live
	set    func(percent int) (old int)
}

// NewPacer makes a pacer of the process. live counts its sessions.
func NewPacer(live func() int) *Pacer { return newPacer(live, liveHeap, debug.SetGCPercent) }

func newPacer(live func() int, heap func() uint64, set func(int) int) *Pacer {
	return &Pacer{wake: make(chan struct{}, 1), live: live, heap: heap, set: set}
}

// liveHeap reads how many bytes the last collection has found to live.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// percent is what a burst allows the heap to grow.
func (p *Pacer) percent() int {
	return max(burstPercent, int(100*burstRoom/max(p.heap(), burstRoom)))
}

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
	var until time.Time // of the burst
	before, usual, percent := p.live(), 0, 0
	defer func() {
		if !until.IsZero() {
			p.set(usual)
		}
	}()
	for {
		var now time.Time
		var stirred bool
		select {
		case <-ctx.Done():
			return nil
		case <-tune.C:
			if n := p.percent(); n != percent {
				percent = n
				p.set(n)
			}
			continue
		case <-p.wake:
			now, stirred = time.Now(), true
		case now = <-look.C:
			live := p.live()
			stirred = p.opened.Swap(0) >= burstOpens || before-live >= burstOpens
			before = live
		}
		switch {
		case stirred && until.IsZero():
			percent = p.percent()
			usual, until = p.set(percent), now.Add(burstLinger)
			tune.Reset(burstTune)
		case stirred:
			until = now.Add(burstLinger)
		case !until.IsZero() && !now.Before(until):
			tune.Stop()
			p.set(usual)
			until = time.Time{}
		}
	}
}
