package app

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/config"
)

// When all clients come back at once, opening their connections makes much garbage within seconds, and the collector,
// which lets the heap double, lets it lie. For so long it is told to keep closer: it costs some CPU time, and only then.
// Sessions that end in masses announce it: whoever is cut comes back.
const (
	burstOpens   = 500              // connections that open, or sessions that end, between two looks: below it is everyday life
	burstLook    = time.Second      // how often it is looked
	burstLinger  = 10 * time.Second // without any more the burst is over
	burstPercent = 15               // how much the heap may grow over what lives
)

// pacer notices bursts of connections.
type pacer struct {
	opened atomic.Int64 // since the last look
	wake   chan struct{}
	live   func() int // sessions
	set    func(percent int) (old int)
}

func newPacer(live func() int, set func(int) int) *pacer {
	return &pacer{wake: make(chan struct{}, 1), live: live, set: set}
}

// paced reports whether the collector is ours to steer: whoever has set how it works means it.
func paced(c *config.Config) bool { return c.GCPercent == 0 && os.Getenv("GOGC") == "" }

// opening notes that a connection opens.
func (p *pacer) opening() {
	if p.opened.Add(1) == burstOpens {
		select {
		case p.wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// run steers the collector until ctx ends.
func (p *pacer) run(ctx context.Context) error {
	look := time.NewTicker(burstLook)
	defer look.Stop()
	var until time.Time // of the burst
	before, usual := p.live(), 0
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
		case <-p.wake:
			now, stirred = time.Now(), true
		case now = <-look.C:
			live := p.live()
			stirred = p.opened.Swap(0) >= burstOpens || before-live >= burstOpens
			before = live
		}
		switch {
		case stirred && until.IsZero():
			usual, until = p.set(burstPercent), now.Add(burstLinger)
		case stirred:
			until = now.Add(burstLinger)
		case !until.IsZero() && !now.Before(until):
			p.set(usual)
			until = time.Time{}
		}
	}
}
