package cluster

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"sync"

	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/session"
)

var _ mailbox.Router = (*Cluster)(nil)

// Route implements mailbox.Router: to the sessions of this node first, then to those of others.
func (c *Cluster) Route(items []mailbox.Item) {
	c.hub.Load().Route(items)
	if c.alone() {
		return
	}
	for i := range items {
		it := &items[i]
		_ = c.publish(subjectOf(it.N.App, it.Recipient), message{kind: kindItem, app: it.N.App, recipient: it.Recipient, item: it})
	}
	c.counts.routed.Add(uint64(len(items)))
}

// Settled implements mailbox.Router.
func (c *Cluster) Settled(done []mailbox.Settled) {
	c.hub.Load().Settled(done)
	if c.alone() {
		return
	}
	for i := range done {
		d := &done[i]
		_ = c.publish(subjectOf(d.App, d.Recipient), message{
			kind: kindSettled, app: d.App, recipient: d.Recipient, body: text(settled{ID: d.ID, Pos: d.Pos, As: d.As, Device: d.Device}),
		})
	}
}

// Reread implements mailbox.Router: nobody knows which node has what was not handed over.
func (c *Cluster) Reread(app, recipient string) {
	c.hub.Load().Reread(app, recipient)
	if !c.alone() {
		_ = c.publish(subjectOf(app, recipient), message{kind: kindReread, app: app, recipient: recipient})
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

// hashOf is what nodes name a recipient by. Two that share one only get each other's messages, and pass them over.
func hashOf(app, recipient string) uint64 {
	var room [256]byte
	b := append(append(append(room[:0], app...), 0), recipient...) // no name has a NUL
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

func subjectOf(app, recipient string) string { return subjectOfHash(hashOf(app, recipient)) }

// subjectOfHash is 11 characters long, behind a prefix.
func subjectOfHash(h uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], h)
	out := [2 + 11]byte{'r', '.'}
	base64.RawURLEncoding.Encode(out[2:], b[:])
	return string(out[:])
}

const interestShards = 64

// interests are the recipients whose messages come here.
type interests struct {
	shards [interestShards]struct {
		mu sync.Mutex
		m  map[uint64]interest
	}
}

type interest struct {
	of      interface{ End() }
	n       int32 // who want it
	present int32 // more than 0: the recipient is connected here, and not only observed
}

func (w *interests) init() {
	for i := range w.shards {
		w.shards[i].m = make(map[uint64]interest)
	}
}

// want has what is for a recipient come here, once for each call.
func (c *Cluster) want(app, recipient string) {
	h := hashOf(app, recipient)
	sh := &c.wants.shards[h%interestShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	in := sh.m[h]
	if in.n++; in.of == nil {
		of, err := c.line.Subscribe(subjectOfHash(h))
		if err != nil {
			c.log.Warn("other nodes cannot be told of a session; it reads its mailbox now and then", "error", err)
		} else {
			in.of = of
		}
	}
	sh.m[h] = in
}

// present adds to how often a recipient has come here less how often it has left, and returns the sum. It stays right where one
// is told late.
func (c *Cluster) present(at mailbox.Address, d int32) int32 {
	h := hashOf(at.App, at.Recipient)
	sh := &c.wants.shards[h%interestShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	in, ok := sh.m[h]
	if d != 0 && ok {
		in.present += d
		sh.m[h] = in
	}
	return in.present
}

// drop ends what one call of want began.
func (c *Cluster) drop(app, recipient string) {
	h := hashOf(app, recipient)
	sh := &c.wants.shards[h%interestShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	in := sh.m[h]
	if in.n--; in.n > 0 {
		sh.m[h] = in
		return
	}
	delete(sh.m, h)
	if in.of != nil {
		in.of.End()
	}
}
