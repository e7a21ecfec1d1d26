package session

import (
	"context"
	"hash/maphash"
	"sync"

	"godwit.dev/godwit/internal/engine/shrink"
)

// address identifies the recipient of sessions.
type address struct{ app, recipient string }

const shards = 64 // so many that connects and routing on several cores seldom need the same lock

// registry finds the sessions of a recipient. Sessions with the same hash form a linked list, which nearly always has one element.
type registry struct {
	seed   maphash.Seed
	shards [shards]shard
	mu     sync.Mutex
	live   int
	empty  chan struct{} // closed when live becomes 0; nil while nobody waits
}

type shard struct {
	mu sync.RWMutex
	m  shrink.Map[uint64, *Session] // by the address's hash, which takes half the memory of a map by address
}

func (r *registry) init() {
	r.seed = maphash.MakeSeed()
}

func (r *registry) shard(a address) (*shard, uint64) {
	h := maphash.Comparable(r.seed, a)
	return &r.shards[h%shards], h
}

// at reports whether s belongs to a; two addresses may have the same hash, and then share a list.
func (s *Session) at(a address) bool { return s.recipient == a.recipient && s.app == a.app }

// add registers s. It returns the sessions of the same named device that s replaces (several if many come at once), and whether s is the recipient's
// first session that is no observer. ok is false, and s not registered, if the recipient has too many sessions.
func (r *registry) add(a address, s *Session) (replaced []*Session, first, ok bool) {
	sh, h := r.shard(a)
	sh.mu.Lock()
	n := 0
	first = !s.peek
	for o := sh.m.Get(h); o != nil; o = o.next {
		if !o.at(a) {
			continue
		}
		first = first && o.peek
		if n++; s.device != "" && o.device == s.device {
			replaced = append(replaced, o)
		}
	}
	if n >= maxPerRecipient && len(replaced) == 0 {
		sh.mu.Unlock()
		return nil, false, false
	}
	s.next = sh.m.Get(h)
	sh.m.Set(h, s)
	sh.mu.Unlock()
	r.count(1)
	return replaced, first, true
}

// remove removes s and reports whether the recipient's remaining sessions are all observers.
func (r *registry) remove(a address, s *Session) (last bool) {
	sh, h := r.shard(a)
	sh.mu.Lock()
	found, others := false, false
	list := sh.m.Get(h)
	for at := &list; *at != nil; {
		switch o := *at; {
		case o == s:
			*at, found = o.next, true
			continue
		case o.at(a):
			others = others || !o.peek
		}
		at = &(*at).next
	}
	if list == nil {
		sh.m.Delete(h)
	} else {
		sh.m.Set(h, list)
	}
	sh.mu.Unlock()
	if found {
		r.count(-1)
	}
	return found && !others && !s.peek
}

// find appends the sessions of a recipient to dst.
func (r *registry) find(a address, dst []*Session) []*Session {
	sh, h := r.shard(a)
	sh.mu.RLock()
	for s := sh.m.Get(h); s != nil; s = s.next {
		if s.at(a) {
			dst = append(dst, s)
		}
	}
	sh.mu.RUnlock()
	return dst
}

// each calls f with the address of every session, observers excepted.
func (r *registry) each(f func(a address)) {
	var some []*Session
	for i := range r.shards {
		some = r.shards[i].sessions(some[:0])
		for _, s := range some {
			if !s.peek {
				f(address{s.app, s.recipient})
			}
		}
	}
}

func (r *registry) all() []*Session {
	var out []*Session
	for i := range r.shards {
		out = r.shards[i].sessions(out)
	}
	return out
}

// sessions appends all sessions of the shard to dst.
func (sh *shard) sessions(dst []*Session) []*Session {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	for _, s := range sh.m.All() {
		for ; s != nil; s = s.next {
			dst = append(dst, s)
		}
	}
	return dst
}

func (r *registry) count(d int) {
	r.mu.Lock()
	r.live += d
	if r.live == 0 && r.empty != nil {
		close(r.empty)
		r.empty = nil
	}
	r.mu.Unlock()
}

func (r *registry) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live
}

// wait returns when no session is registered any more, or with an error when ctx ends.
func (r *registry) wait(ctx context.Context) error {
	r.mu.Lock()
	if r.live == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.empty == nil {
		r.empty = make(chan struct{})
	}
	empty := r.empty
	r.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
