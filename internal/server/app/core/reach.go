package core

import (
	"context"
	"sync"
	"time"

	"godwit.dev/godwit/internal/server/app/ground"
)

const (
	// leaveAfter is the time for which the store must be unreachable from here, and reachable from other nodes, before sessions are sent to
	// those nodes.
	leaveAfter = 2 * time.Second
	reachLook  = 100 * time.Millisecond
)

// WatchReach moves sessions to other nodes while this node cannot reach the store but others can.
func (c *Core) WatchReach(g *ground.Ground) {
	if g.Stores.Reach != nil && c.Cluster != nil {
		g.Steps.AddRun("watch over the store", time.Second, func(ctx context.Context) error { return c.watchReach(ctx, g) })
	}
}

// watchReach ends sessions while this node cannot reach the store and another node can. If no other node can, they stay: topics, requests
// and the objects in the nodes' memory work here as well as elsewhere.
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
