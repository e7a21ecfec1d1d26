package app

import (
	"context"

	"godwit.dev/godwit/internal/server/app/datadir"
)

// drain makes this node one that others take over from: it is not ready any more, feeds end, what only one node does at a
// time is given up, new sessions are refused and those that are here are sent away, spread. It goes on answering until it is stopped.
func (a *App) drain(ctx context.Context) {
	a.log.Info("draining: not ready, sessions are sent away", "sessions", a.hub.Live())
	a.notReady()
	a.sayDrain(datadir.Draining)
	if a.cluster != nil {
		a.cluster.Drain()
	}
	if a.stores.GiveUp != nil {
		a.stores.GiveUp(ctx)
	}
	if err := a.eachHub(func(h hub) error { return h.Drain(ctx) }); err != nil {
		return // it is stopping
	}
	a.log.Info("drained: it can be stopped")
	a.sayDrain(datadir.Drained)
}

// sayDrain writes down how far it is, for godwit drain.
func (a *App) sayDrain(state string) {
	at := a.addrs
	at.Drain = state
	if err := datadir.WriteAddresses(a.cfg.Data, at); err != nil {
		a.log.Warn("how far the drain is cannot be written down", "error", err)
	}
}

// notReady ends readiness, and feeds with it.
func (a *App) notReady() { a.unready.Do(func() { close(a.draining) }) }

// runDrain drains once told delivers, and returns when ctx ends.
func (a *App) runDrain(ctx context.Context, told <-chan struct{}) error {
	select {
	case <-told:
		a.drain(ctx)
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}
