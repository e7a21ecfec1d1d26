package cluster_test

import (
	"context"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

// shared is one store that several nodes use: each node observes only its own commits, as if it had its own connections to a database. The
// first node observes changes over time that no node made.
type shared struct {
	*mailboxdb.Store
	mu  sync.Mutex
	obs []mailbox.Observer
	by  map[string]int // the number of the node that made a publish or a settle, by its id
}

func share(s *mailboxdb.Store) *shared {
	sh := &shared{Store: s, by: make(map[string]int)}
	s.Observe(sh)
	return sh
}

// view is the store as seen by one node.
type view struct {
	*mailboxdb.Store
	of    *shared
	node  int
	heads atomic.Int32 // reads of heads
}

func (v *view) Heads(ctx context.Context, of []mailbox.Address) ([]mailbox.Head, error) {
	v.heads.Add(1)
	return v.Store.Heads(ctx, of)
}

func (s *shared) view() *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.obs = append(s.obs, nil)
	return &view{Store: s.Store, of: s, node: len(s.obs) - 1}
}

func (s *shared) mine(node int, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[id] = node
}

// Committed splits a commit into parts by the nodes that made them.
func (s *shared) Committed(b *mailbox.Batch) {
	s.mu.Lock()
	parts, obs := make([]mailbox.Batch, len(s.obs)), s.obs
	for _, it := range b.Stored {
		p := &parts[s.by[it.N.ID]]
		p.Stored = append(p.Stored, it)
	}
	for _, it := range b.Due {
		p := &parts[s.by[it.N.ID]]
		p.Due = append(p.Due, it)
	}
	for _, d := range b.Settled {
		p := &parts[s.by["settle "+d.ID]]
		p.Settled = append(p.Settled, d)
	}
	s.mu.Unlock()
	for i := range parts {
		if obs[i] != nil && len(parts[i].Stored)+len(parts[i].Due)+len(parts[i].Settled) > 0 {
			obs[i].Committed(&parts[i])
		}
	}
}

func (v *view) Observe(o mailbox.Observer) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.of.obs[v.node] = o
}

func (v *view) Append(ctx context.Context, batch []*mailbox.Append) error {
	for _, a := range batch {
		v.of.mine(v.node, a.N.ID)
	}
	return v.Store.Append(ctx, batch)
}

func (v *view) Settle(ctx context.Context, batch []*mailbox.Settle) error {
	v.settles(batch)
	return v.Store.Settle(ctx, batch)
}

func (v *view) SettleLater(batch []*mailbox.Settle) {
	v.settles(batch)
	v.Store.SettleLater(batch)
}

func (v *view) settles(batch []*mailbox.Settle) {
	for _, s := range batch {
		v.of.mine(v.node, "settle "+s.ID)
	}
}
