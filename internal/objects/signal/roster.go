package signal

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// roster holds the clients that have a session or unsaved state. The clients of one recipient share a shard.
type roster struct {
	seed   maphash.Seed
	n      atomic.Int64
	shards [shards]struct {
		mu      sync.Mutex
		devices map[objectstore.ClientID]*Client
		others  map[*Client]struct{} // sessions without a device
	}
}

func (r *roster) init() {
	r.seed = maphash.MakeSeed()
	for i := range r.shards {
		r.shards[i].devices = make(map[objectstore.ClientID]*Client)
		r.shards[i].others = make(map[*Client]struct{})
	}
}

func (r *roster) shard(app, recipient string) int {
	return int(maphash.Comparable(r.seed, [2]string{app, recipient}) % shards)
}

// enter returns the client of a device, and makes it if necessary. Without a device it makes a new client for each call.
func (r *roster) enter(s *Service, id objectstore.ClientID) *Client {
	sh := &r.shards[r.shard(id.App, id.Recipient)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if c := sh.devices[id]; c != nil {
		return c
	}
	c := &Client{svc: s, id: id}
	c.timer.Owner = c
	if id.Device == "" {
		sh.others[c] = struct{}{}
	} else {
		sh.devices[id] = c
	}
	r.n.Add(1)
	return c
}

// remove removes a client. The client's lock is held; no goroutine takes that lock while it holds a shard's.
func (r *roster) remove(c *Client) {
	if !c.phase.remove() {
		return
	}
	sh := &r.shards[r.shard(c.id.App, c.id.Recipient)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.others, c)
	if c.lasting() {
		delete(sh.devices, c.id)
	}
	r.n.Add(-1)
}

// of returns all clients of a recipient.
func (r *roster) of(app, recipient string) (found []*Client) {
	sh := &r.shards[r.shard(app, recipient)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for id, c := range sh.devices {
		if id.App == app && id.Recipient == recipient {
			found = append(found, c)
		}
	}
	for c := range sh.others {
		if c.id.App == app && c.id.Recipient == recipient {
			found = append(found, c)
		}
	}
	return found
}

// device returns the client of a device, or nil.
func (r *roster) device(id objectstore.ClientID) *Client {
	sh := &r.shards[r.shard(id.App, id.Recipient)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.devices[id]
}
