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
const (
	burstOpens   = 500         // connections that open while nobody looks, or in one look: below it is everyday life
	burstLook    = time.Second // how often it is looked whether the burst goes on
	burstPercent = 25          // how much the heap may grow over what lives
)

// pacer notices bursts of connections.
type pacer struct {
	opened atomic.Int64 // since the last look
	wake   chan struct{}
	set    func(percent int) (old int)
}

func newPacer(set func(int) int) *pacer { return &pacer{wake: make(chan struct{}, 1), set: set} }

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
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		}
		p.burst(ctx)
	}
}

// burst keeps the heap small until a look finds few connections opening.
func (p *pacer) burst(ctx context.Context) {
	usual := p.set(burstPercent)
	defer p.set(usual)
	look := time.NewTicker(burstLook)
	defer look.Stop()
	for {
		p.opened.Store(0)
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if p.opened.Load() < burstOpens {
			return
		}
	}
}
