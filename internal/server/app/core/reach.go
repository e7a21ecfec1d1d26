package core

import (
	"context"
	"sync"
	"time"

	"godwit.dev/godwit/internal/server/app/ground"
)

const (
	// leaveAfter is how long the store has to be out of reach before sessions are sent to nodes that reach it, and how long those must have
	// reached it.
	leaveAfter = 2 * time.Second
	reachLook  = 100 * time.Millisecond
)

// WatchReach moves sessions to other nodes while only this one cannot reach the store.
func (c *Core) WatchReach(g *ground.Ground) {
	if g.Stores.Reach != nil && c.Cluster != nil {
		g.Steps.AddRun("watch over the store", time.Second, func(ctx context.Context) error { return c.watchReach(ctx, g) })
	}
}

// watchReach ends sessions while the store cannot be reached from here and another node reaches it. If no other node does, they stay:
// topics, requests and the objects in the nodes' memory work here as well as anywhere.
func (c *Core) watchReach(ctx context.Context, g *ground.Ground) error {
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
		leaves := g.Stores.Reach.Lost() >= leaveAfter && c.Cluster.OthersReachFor(ctx, least)
		switch {
		case leaves && stay == nil:
			g.Log.Warn("sessions are sent to nodes that reach PostgreSQL, which this one does not", "sessions", c.Hub.Live())
			var leave context.Context
			leave, stay = context.WithCancel(ctx)
			leaving.Go(func() { c.Hub.Leave(leave) })
		case !leaves && stay != nil:
			stay()
			stay = nil
			leaving.Wait()
			g.Log.Info("sessions are welcome here again")
		}
	}
}
