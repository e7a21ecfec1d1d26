package app

import (
	"context"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/server/app/compat"
	"godwit.dev/godwit/internal/server/app/core"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/app/ground"
)

// hub is what has sessions.
type hub interface {
	Shutdown(ctx context.Context) error
	Drain(ctx context.Context) error
}

// eachHub calls f for the hubs of all sessions at the same time.
func eachHub(c *core.Core, other *compat.Service, f func(hub) error) error {
	var all errgroup.Group
	all.Go(func() error { return f(c.Hub) })
	if other != nil {
		all.Go(func() error { return f(other) })
	}
	return all.Wait()
}

// drain hands this node's work over to others: the node reports not ready, ends feeds, gives up leases, refuses new sessions and ends
// present ones over time, once workers have answered what they were asked. It still answers requests until it is stopped.
func (a *App) drain(ctx context.Context, g *ground.Ground, c *core.Core, other *compat.Service) {
	a.log.Info("draining: not ready, sessions are sent away", "sessions", c.Hub.Live())
	a.notReady()
	a.sayDrain(datadir.Draining)
	if c.Cluster != nil {
		c.Cluster.Drain()
	}
	if g.Stores.GiveUp != nil {
		g.Stores.GiveUp(ctx)
	}
	a.retire(ctx, c.Requests)
	if err := eachHub(c, other, func(h hub) error { return h.Drain(ctx) }); err != nil {
		return // it is stopping
	}
	a.log.Info("drained: it can be stopped")
	a.sayDrain(datadir.Drained)
}

// retire waits until this node's workers have answered the requests that they have, as long as an answer may take at most.
func (a *App) retire(ctx context.Context, r *request.Service) {
	patience, cancel := context.WithTimeout(ctx, request.MaxTimeout)
	defer cancel()
	if err := r.Retire(patience); err != nil && ctx.Err() == nil {
		a.log.Warn("requests that workers did not answer are given up", "error", err)
	}
}

// sayDrain writes the state of the drain to the address file, for godwit drain.
func (a *App) sayDrain(state string) {
	at := a.addrs
	at.Drain = state
	if err := datadir.WriteAddresses(a.cfg.Data, at); err != nil {
		a.log.Warn("how far the drain is cannot be written down", "error", err)
	}
}

// notReady makes the node report not ready, and ends feeds.
func (a *App) notReady() { a.unready.Do(func() { close(a.draining) }) }

// runDrain drains the node once Options.Drain delivers, and returns when ctx ends.
func (a *App) runDrain(ctx context.Context, g *ground.Ground, c *core.Core, other *compat.Service) error {
	select {
	case <-a.opts.Drain:
		a.drain(ctx, g, c, other)
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}
