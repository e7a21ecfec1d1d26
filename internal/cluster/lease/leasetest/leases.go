// Package leasetest lets tests decide which of several servers holds a lease.
package leasetest

import (
	"context"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/cluster/lease"
)

// Leases determine which of several servers holds a name. Server 0 holds all names that were not given to another server.
type Leases struct {
	// Over simulates that all leases have ended without any server noticing, as after a long suspension of a process.
	Over atomic.Bool

	mu      sync.Mutex
	changed sync.Cond
	of      map[string]int                // number of the server that may hold the lease, by name
	ends    map[string]context.CancelFunc // of who has it
}

// New returns leases that no server has requested.
func New() *Leases {
	l := &Leases{of: map[string]int{}, ends: map[string]context.CancelFunc{}}
	l.changed.L = &l.mu
	return l
}

// Server returns the lease function of one server.
func (l *Leases) Server(n int) lease.Func {
	return func(name string, run func(context.Context, func() bool)) (release func()) {
		released, done := false, make(chan struct{})
		go func() {
			defer close(done)
			l.mu.Lock()
			defer l.mu.Unlock()
			for {
				for !released && (l.of[name] != n || l.ends[name] != nil) {
					l.changed.Wait()
				}
				if released {
					return
				}
				ctx, end := context.WithCancel(context.Background())
				l.ends[name] = end
				l.mu.Unlock()
				run(ctx, func() bool { return !l.Over.Load() })
				end()
				l.mu.Lock()
				delete(l.ends, name)
				l.changed.Broadcast()
			}
		}()
		return func() {
			l.mu.Lock()
			released = true
			if end := l.ends[name]; end != nil && l.of[name] == n {
				end()
			}
			l.changed.Broadcast()
			l.mu.Unlock()
			<-done
		}
	}
}

// Give gives a name to another server after the former one has ended its work.
func (l *Leases) Give(name string, to int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if end := l.ends[name]; end != nil && l.of[name] != to {
		end()
	}
	l.of[name] = to
	l.changed.Broadcast()
}

// Free waits until no server works under a name.
func (l *Leases) Free(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.ends[name] != nil {
		l.changed.Wait()
	}
}

// Held returns the number of held leases.
func (l *Leases) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ends)
}
