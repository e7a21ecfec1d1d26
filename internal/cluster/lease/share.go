package lease

import (
	"context"
	"sync"
)

// Share lets several parts of a server use a lease together: each part that requests it has it while the server holds it. The server gives
// it up when the last part has released it, or when one part's run returns early.
func Share(f Func) Func {
	s := &sharing{own: f, names: map[string]*shared{}}
	return s.ask
}

type sharing struct {
	own   Func
	mu    sync.Mutex
	names map[string]*shared
}

// shared is a lease that at least one part of this server has requested.
type shared struct {
	users   map[*user]struct{}
	release func()
	ending  bool  // the lease is being released; a part that requests it meanwhile causes a new request
	now     *term // nil: another server has it
}

// term is one period in which the server holds a name.
type term struct {
	ctx  context.Context
	end  context.CancelFunc
	held func() bool
	runs sync.WaitGroup
}

type user struct {
	run  func(context.Context, func() bool)
	end  context.CancelFunc // ends its last run; nil: it has not run
	done chan struct{}
}

func (s *sharing) ask(name string, run func(context.Context, func() bool)) (release func()) {
	u := &user{run: run}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.names[name]
	if of == nil {
		of = &shared{users: map[*user]struct{}{}}
		s.names[name] = of
		s.begin(name, of)
	}
	of.users[u] = struct{}{}
	if of.now != nil {
		of.now.start(u)
	}
	return sync.OnceFunc(func() { s.leave(name, of, u) })
}

// begin requests a lease. s.mu is held.
func (s *sharing) begin(name string, of *shared) {
	of.release = s.own(name, func(ctx context.Context, held func() bool) { s.have(ctx, of, held) })
}

// have runs all users until ctx ends or one of them gives up the lease.
func (s *sharing) have(ctx context.Context, of *shared, held func() bool) {
	t := &term{held: held}
	t.ctx, t.end = context.WithCancel(ctx)
	defer t.end()
	s.mu.Lock()
	of.now = t
	for u := range of.users {
		t.start(u)
	}
	s.mu.Unlock()
	<-t.ctx.Done()
	s.mu.Lock()
	of.now = nil // nobody starts any more
	s.mu.Unlock()
	t.runs.Wait()
}

// start calls a user's run. The lock of sharing is held.
func (t *term) start(u *user) {
	ctx, end := context.WithCancel(t.ctx)
	done := make(chan struct{})
	u.end, u.done = end, done
	t.runs.Go(func() {
		defer close(done)
		defer end()
		u.run(ctx, t.held)
		if ctx.Err() == nil { // it was not told to
			t.end()
		}
	})
}

// leave removes a user. It returns after the user's run has returned; for the last user, after the name is given up.
func (s *sharing) leave(name string, of *shared, u *user) {
	s.mu.Lock()
	delete(of.users, u)
	last := len(of.users) == 0 && !of.ending
	of.ending = of.ending || last
	end, done := u.end, u.done
	s.mu.Unlock()
	if end != nil {
		end()
		<-done
	}
	if !last {
		return
	}
	of.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	of.ending = false
	if len(of.users) > 0 { // it was asked for meanwhile
		s.begin(name, of)
		return
	}
	delete(s.names, name)
}
