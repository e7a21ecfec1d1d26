package signal

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/notify/encoded"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/objects/object"
)

// name is an object across apps.
type name struct {
	app string
	key object.Key
}

// watched is an object that some live client is registered for. Others cost no memory.
type watched struct {
	name
	id   uint32 // in the index; short, because every registration has it
	hash object.Digest
	refs int // registrations; guarded by the shard
	now  atomic.Pointer[current]
	gone atomic.Bool // no client is registered any more, and the id may be another object's

	mu       sync.Mutex
	sessions []sessionID // sessions registered for it; ended ones are removed when they are half
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

// set takes a state if it is newer than the known one, and reports whether it did.
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

const shards = 64 // so that registering on several cores seldom meets

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

// shard is where an object is found. Objects of one name share a shard whatever their group.
func (x *index) shard(object string) *shard { return &x.shards[maphash.String(x.seed, object)%shards] }

// find returns an object that is watched, or nil.
func (x *index) find(n name) *watched {
	sh := x.shard(n.key.Object)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.m[n]
}

// key makes the key of an object from bytes that are borrowed. While the object is watched its name is shared: a set of
// fifty that others have too costs no memory for names.
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

// acquire counts one more registration of an object. fresh: its state has to be read.
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

// release takes back one registration; with the last one the object can be dropped.
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
