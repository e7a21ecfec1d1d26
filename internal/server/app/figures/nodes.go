package figures

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/operator"
	"godwit.dev/godwit/internal/server/problem"
	"godwit.dev/godwit/internal/server/watch"
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
	nodes := s.Core.Cluster.Nodes()
	names := map[string]string{s.Boot: s.Node}
	for i := range nodes {
		names[nodes[i].Boot] = nodes[i].Name
	}
	v.Nodes = append(v.Nodes, operator.NodeView{
		State: "self", Boot: s.Boot, Backup: names[s.Core.Cluster.Backup()], StoreView: storeView(s.Core.Cluster.Pace()),
	})
	for _, n := range nodes {
		state, why := "alive", ""
		switch {
		case n.Missing:
			state, why = "missing", s.why(&n)
		case n.Drains:
			state = "draining"
		}
		v.Nodes = append(v.Nodes, operator.NodeView{
			Name: n.Name, Boot: n.Boot, Version: n.Version, State: state, Sessions: n.Sessions, UptimeS: n.Up.Seconds(),
			ClockOffsetMS: n.Offset.Milliseconds(), HeardAgoMS: n.Heard.Milliseconds(), Why: why, Backup: names[n.Backup], StoreView: storeView(n.Pace),
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
	if ms := p.Lag.Milliseconds(); p.Lag >= 0 {
		v.LagMS = &ms
	}
	return v
}

// nodes describes the nodes that this one knows, itself first.
func (s *Server) nodes(ctx context.Context) (list watch.Nodes, err error) {
	v, err := s.Cluster(ctx)
	if err != nil {
		return list, err
	}
	self := watch.Node{Name: s.Node, Version: s.Version, State: "self", Sessions: s.Core.Hub.Live(), Up: time.Since(s.Begun)}
	list.List = []watch.Node{self}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.State == self.State {
			list.List[0].Work = work(n)
			continue
		}
		list.List = append(list.List, watch.Node{
			Name: n.Name, Version: n.Version, State: n.State, Sessions: n.Sessions, Up: time.Duration(n.UptimeS * float64(time.Second)),
			Offset: millis(n.ClockOffsetMS), Heard: millis(n.HeardAgoMS), Why: n.Why, Work: work(n),
		})
	}
	for _, l := range v.Leases {
		list.Owned = append(list.Owned, watch.Lease{Name: l.Name, Holder: l.Holder, Until: time.Time(l.Until)})
	}
	if v.Database != nil {
		list.Oldest = v.Database.HeldBy
	}
	return list, nil
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// work converts the work of a node; nil: not known.
func work(n *operator.NodeView) *watch.NodeWork {
	if n.CommitsPerS == nil || n.StoreAnsweredMS == nil {
		return nil
	}
	w := &watch.NodeWork{Backup: n.Backup, Commits: *n.CommitsPerS, Copies: *n.CopiesPerCommit, Queue: *n.StoreQueue, Answered: millis(*n.StoreAnsweredMS)}
	if n.LagMS != nil {
		lag := millis(*n.LagMS)
		w.Lag = &lag
	}
	return w
}
