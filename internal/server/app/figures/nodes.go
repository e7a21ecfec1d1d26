package figures

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/operator"
	"godwit.dev/godwit/internal/server/problem"
	"godwit.dev/godwit/internal/store"
)

// Forget removes a permanently lost node from the list.
func (s *Server) Forget(ctx context.Context, node string) error {
	if s.Stores.Forget == nil || s.Core.Cluster == nil {
		return fmt.Errorf("node %s is not missing, since there is only this one: %w", node, mailbox.ErrNotFound)
	}
	if err := s.Stores.Forget(ctx, node); err != nil {
		if errors.Is(err, store.ErrLives) {
			return problem.BadInput.With("node " + node + " lives: stop it first").In("node")
		}
		return err
	}
	s.Core.Cluster.Forgotten(node)
	return nil
}

// why explains why a node is missing.
func (s *Server) why(n *cluster.Node) string {
	if n.Why == cluster.WhyNeverHeard && s.Core.Bus.SecretDiffers() {
		return "it lives, since it renews its lease in the database, but nodes refuse each other: its cluster_secret_file differs from that of this node"
	}
	return n.Why.String()
}

// Cluster returns this node's view of the others.
func (s *Server) Cluster(ctx context.Context) (v operator.ClusterView, err error) {
	if s.Stores.Owned != nil {
		owned, err := s.Stores.Owned(ctx)
		if err != nil {
			s.Log.Warn("who owns what cannot be read", "error", err) // the nodes are shown anyway
		}
		for _, o := range owned {
			v.Leases = append(v.Leases, operator.LeaseView{Name: o.Name, Holder: o.Node, Until: call.Moment(o.Until)})
		}
	}
	if s.Core.Cluster == nil {
		return v, nil
	}
	if s.Stores.Horizon != nil {
		oldest, err := s.Stores.Horizon(ctx)
		if err != nil {
			s.Log.Warn("who keeps dead rows in the database cannot be read", "error", err) // the nodes are shown anyway
		} else {
			v.Database = &operator.DatabaseView{OldestSnapshotS: oldest.Since.Seconds(), HeldBy: oldest.Holder}
		}
	}
	v.Nodes = append(v.Nodes, operator.NodeView{State: "self", Boot: s.Boot, StoreView: storeView(s.Core.Cluster.Pace())})
	for _, n := range s.Core.Cluster.Nodes() {
		state, why := "alive", ""
		switch {
		case n.Missing:
			state, why = "missing", s.why(&n)
		case n.Drains:
			state = "draining"
		}
		v.Nodes = append(v.Nodes, operator.NodeView{
			Name: n.Name, Boot: n.Boot, Version: n.Version, State: state, Sessions: n.Sessions, UptimeS: n.Up.Seconds(),
			ClockOffsetMS: n.Offset.Milliseconds(), HeardAgoMS: n.Heard.Milliseconds(), Why: why, StoreView: storeView(n.Pace),
		})
	}
	routes, _ := s.Core.Bus.Routes()
	for _, r := range routes {
		_, boot, _ := strings.Cut(r.Name, "/")
		v.Routes = append(v.Routes, operator.RouteView{
			Boot: boot, Address: r.Addr, OutBytes: r.Traffic[0], InBytes: r.Traffic[1], PendingBytes: int64(r.Pending),
		})
	}
	return v, nil
}

// storeView shows a node's work with the store.
func storeView(p cluster.Pace) (v operator.StoreView) {
	if p.Known {
		v.CommitsPerS, v.CopiesPerCommit, v.StoreQueue = &p.Commits, &p.PerCommit, &p.Queue
	}
	if ms := p.Answered.Milliseconds(); p.Answered >= 0 {
		v.StoreAnsweredMS = &ms
	}
	return v
}
