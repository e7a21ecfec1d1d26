package app

import (
	"context"
	"sync"
	"time"
)

const (
	// leaveAfter is how long the store has to be out of reach before sessions are sent to nodes that reach it, and how long those must have
	// reached it.
	leaveAfter = 2 * time.Second
	reachLook  = 100 * time.Millisecond
)

// startReach has sessions move to other nodes while this one alone cannot reach the store.
func (a *App) startReach(context.Context) error {
	if a.stores.Reach != nil && a.cluster != nil {
		a.steps.addRun("watch over the store", time.Second, a.watchReach, a.fail)
	}
	return nil
}

// watchReach sends sessions away for as long as the store is out of reach here and another node reaches it. If no other does, they stay:
// topics, requests and what nodes have of objects go on here as well as anywhere.
func (a *App) watchReach(ctx context.Context) error {
	var leaving sync.WaitGroup
	stay := context.CancelFunc(nil)
	defer leaving.Wait()
	tick := time.NewTicker(reachLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if stay != nil {
				stay()
			}
			return nil
		case <-tick.C:
		}
		least := leaveAfter
		if stay != nil { // they are leaving already
			least = 0
		}
		leaves := a.stores.Reach.Lost() >= leaveAfter && a.cluster.OthersReachFor(ctx, least)
		switch {
		case leaves && stay == nil:
			a.log.Warn("sessions are sent to nodes that reach PostgreSQL, which this one does not", "sessions", a.hub.Live())
			var leave context.Context
			leave, stay = context.WithCancel(ctx)
			leaving.Go(func() { a.hub.Leave(leave) })
		case !leaves && stay != nil:
			stay()
			stay = nil
			leaving.Wait()
			a.log.Info("sessions are welcome here again")
		}
	}
}
