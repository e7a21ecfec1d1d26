package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"sync"

	"godwit.dev/godwit/internal/engine/shrink"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/session"
)

var _ mailbox.Router = (*Cluster)(nil)

// Route implements mailbox.Router: it delivers to the sessions of this node first, then to the nodes with other sessions.
func (c *Cluster) Route(items []mailbox.Item) {
	c.hub.Load().Route(items)
	if c.alone() {
		return
	}
	var room [4]string
	routed := uint64(0)
	for i := range items {
		it := &items[i]
		if to := c.subjects(room[:0], it.N.App, it.Recipient); len(to) > 0 {
			_ = c.publishTo(to, message{kind: kindItem, app: it.N.App, recipient: it.Recipient, item: it})
			routed++
		}
	}
	c.counts.routed.Add(routed)
}

// Settled implements mailbox.Router.
func (c *Cluster) Settled(done []mailbox.Settled) {
	c.hub.Load().Settled(done)
	if c.alone() {
		return
	}
	var room [4]string
	for i := range done {
		d := &done[i]
		if to := c.subjects(room[:0], d.App, d.Recipient); len(to) > 0 {
			_ = c.publishTo(to, message{
				kind: kindSettled, app: d.App, recipient: d.Recipient, body: text(settled{ID: d.ID, Pos: d.Pos, As: d.As, Device: d.Device}),
			})
		}
	}
}

// Reread implements mailbox.Router. All nodes to which the recipient is connected read the store again, because this node does not know
// which messages were lost.
func (c *Cluster) Reread(app, recipient string) {
	c.hub.Load().Reread(app, recipient)
	if !c.alone() {
		_ = c.publishTo(c.subjects(nil, app, recipient), message{kind: kindReread, app: app, recipient: recipient})
	}
}

func (c *Cluster) gotItem(hub *session.Hub, m *message) {
	it, err := decodeItem(m.app, m.recipient, m.body)
	if err != nil {
		c.unreadable(hub, m)
		return
	}
	c.counts.received.Add(1)
	one := [1]mailbox.Item{it}
	hub.Route(one[:])
}

func (c *Cluster) gotSettled(hub *session.Hub, m *message) {
	var d settled
	if err := json.Unmarshal(m.body, &d); err != nil {
		c.unreadable(hub, m)
		return
	}
	hub.Settled([]mailbox.Settled{{App: m.app, Recipient: m.recipient, ID: d.ID, Pos: d.Pos, As: d.As, Device: d.Device}})
}

// hashOf returns the hash by which nodes identify a recipient; it is never 0. If two recipients have the same hash, nodes get additional
// messages, which they ignore.
func hashOf(app, recipient string) uint64 {
	var room [256]byte
	b := append(append(append(room[:0], app...), 0), recipient...) // no name has a NUL
	sum := sha256.Sum256(b)
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

const interestShards = 64

// interests holds the recipients, by hash, whose messages other nodes send to this one.
type interests struct {
	shards [interestShards]struct {
		mu sync.Mutex
		m  shrink.Map[uint64, interest]
	}
}

type interest struct {
	n       int32 // who want it, at least 1
	present int32 // more than 0: the recipient is connected here, not just observed
}

func (w *interests) has(h uint64) bool {
	sh := &w.shards[h%interestShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.m.Get(h).n > 0
}

func (w *interests) all() (list []uint64) {
	for i := range w.shards {
		sh := &w.shards[i]
		sh.mu.Lock()
		for h := range sh.m.All() {
			list = append(list, h)
		}
		sh.mu.Unlock()
	}
	return list
}

// want makes other nodes send a recipient's messages to this one. Calls are counted; drop undoes one call.
func (c *Cluster) want(app, recipient string) {
	h := hashOf(app, recipient)
	if c.wants.add(h, 1) == 1 {
		c.changed(h)
	}
}

// drop undoes one call of want.
func (c *Cluster) drop(app, recipient string) {
	h := hashOf(app, recipient)
	if c.wants.add(h, -1) == 0 {
		c.changed(h)
	}
}

// add adds d to the count of calls of want for a recipient, and returns the sum.
func (w *interests) add(h uint64, d int32) int32 {
	sh := &w.shards[h%interestShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	in := sh.m.Get(h)
	if in.n += d; in.n > 0 {
		sh.m.Set(h, in)
	} else {
		sh.m.Delete(h)
	}
	return in.n
}

// present changes, by d, the count of a recipient's connections to this node minus its departures, and returns the sum. The sum is right
// even if a connection is reported after its end.
func (c *Cluster) present(at mailbox.Address, d int32) int32 {
	h := hashOf(at.App, at.Recipient)
	sh := &c.wants.shards[h%interestShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	in := sh.m.Get(h)
	if d != 0 && in.n > 0 {
		in.present += d
		sh.m.Set(h, in)
	}
	return in.present
}
