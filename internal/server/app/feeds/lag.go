package feeds

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/server/app/ground"
)

// lagEvery is how often a node looks how late it is. Sinks read the event log for that.
const lagEvery = 5 * time.Second

// TellLag lets the other nodes know how late the hooks, sinks and sources are that this node owns.
func (f *Feeds) TellLag(g *ground.Ground, nodes *cluster.Cluster) {
	if nodes == nil {
		return
	}
	g.Steps.AddRun("lag", time.Second, func(ctx context.Context) error {
		tick := time.NewTicker(lagEvery)
		defer tick.Stop()
		for {
			nodes.Lags(max(f.Hooks.Lag(), f.Sinks.Lag(), f.Sources.Lag()))
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}
