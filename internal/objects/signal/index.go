package signal

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/notify/encoded"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/objects/object"
)

// name identifies an object across apps.
type name struct {
	app string
	key object.Key
}

// watched is an object for which a live client is registered. Other objects use no memory.
type watched struct {
	name
	id   uint32 // in the index; four bytes, because every registration contains it
	hash object.Digest
	refs int // registrations; guarded by the shard
	now  atomic.Pointer[current]
	gone atomic.Bool // no client is registered any more, and the id may belong to another object
	held atomic.Bool // until its fixed batching interval ends

	mu       sync.Mutex
	sessions []sessionID // sessions registered for it; ended ones are removed when they are more than half
	over     int         // how many of them are
	waiting  bool        // in a worker's queue
}

// current is a state and its frames, encoded once per format and shared by all receivers.
type current struct {
	object.State
	wire encoded.Forms
}

func (c *current) frame(k object.Key, f frame.Format) []byte {
	if b := c.wire.Get(f.Key()); b != nil {
		return b
	}
	return c.wire.Add(f.Key(), frame.Object(f, k, &c.State))
}

// set replaces the state by a newer one, and reports whether st was newer.
func (w *watched) set(st *object.State) bool {
	for {
		old := w.now.Load()
		if old != nil && !st.Newer(&old.State) {
			return false
		}
		if w.now.CompareAndSwap(old, &current{State: *st}) {
			return true
		}
	}
}

const shards = 64 // so many that registrations on several cores seldom need the same lock

type shard struct {
	mu sync.RWMutex
	m  map[name]*watched
}

// index finds watched objects by name and by id.
type index struct {
	seed     maphash.Seed
	shards   [shards]shard
	mu       sync.RWMutex
	byID     []*watched
	free     []uint32
	n        atomic.Int64 // registrations of live sessions
	sessions sessionTable
}

func (x *index) init() {
	x.seed = maphash.MakeSeed()
	for i := range x.shards {
		x.shards[i].m = make(map[name]*watched)
	}
}

// shard returns the shard of an object. Objects with the same name share a shard, whatever their group.
func (x *index) shard(object string) *shard { return &x.shards[maphash.String(x.seed, object)%shards] }

// find returns a watched object, or nil.
func (x *index) find(n name) *watched {
	sh := x.shard(n.key.Object)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.m[n]
}

// key makes the key of an object from borrowed bytes. While the object is watched, its name is shared: fifty objects that other clients
// watch too cost a client no memory for names.
func (x *index) key(app, group string, id []byte) object.Key {
	sh := &x.shards[maphash.Bytes(x.seed, id)%shards]
	sh.mu.RLock()
	w := sh.m[name{app, object.Key{Group: group, Object: string(id)}}]
	sh.mu.RUnlock()
	if w != nil {
		return w.key
	}
	return object.Key{Group: group, Object: string(id)}
}

// acquire counts one more registration of an object. fresh: the caller has to read its state.
func (x *index) acquire(n name) (w *watched, fresh bool) {
	sh := x.shard(n.key.Object)
	x.n.Add(1)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if w = sh.m[n]; w != nil {
		w.refs++
		return w, false
	}
	w = &watched{name: n, hash: n.key.Hash(), refs: 1}
	sh.m[n] = w
	x.mu.Lock()
	defer x.mu.Unlock()
	if k := len(x.free); k > 0 {
		w.id, x.free = x.free[k-1], x.free[:k-1]
		x.byID[w.id] = w
	} else {
		w.id = uint32(len(x.byID))
		x.byID = append(x.byID, w)
	}
	return w, true
}

// release ends one registration; after the last one the object can be dropped.
func (x *index) release(w *watched) {
	sh := x.shard(w.key.Object)
	x.n.Add(-1)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if w.refs--; w.refs > 0 {
		return
	}
	delete(sh.m, w.name)
	w.gone.Store(true)
	w.dismiss(&x.sessions)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.byID[w.id] = nil
	x.free = append(x.free, w.id)
}

// get returns the object of a registration.
func (x *index) get(id uint32) *watched {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.byID[id]
}

// each calls do with the objects of registrations; do must not call the index.
func (x *index) each(regs []reg, do func(r *reg, w *watched)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range regs {
		do(&regs[i], x.byID[regs[i].id])
	}
}
