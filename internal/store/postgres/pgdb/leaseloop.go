package pgdb

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// loop renews leases, ends those that were not renewed in time, and acquires free ones.
func (ls *Leases) loop(ctx context.Context) {
	failing := false
	for {
		if err := ls.round(ctx, ctx); err != nil && ctx.Err() == nil {
			if !failing {
				ls.cfg.Log.WarnContext(ctx, "leases cannot be renewed now", "error", err)
			}
			failing = true
		} else {
			failing = false
		}
		timer := time.NewTimer(min(ls.terms.look, ls.untilEnd()))
		select {
		case <-timer.C:
		case <-ls.wake:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// untilEnd returns the time until the first lease ends if no lease is renewed.
func (ls *Leases) untilEnd() time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	left, now := ls.terms.ttl, ls.tick()
	for _, o := range ls.own {
		if l := o.lease; l != nil && !l.lost {
			left = min(left, time.Duration(l.ends.Load())-now)
		}
	}
	return max(left, time.Millisecond)
}

// round renews, ends and acquires leases once. The work of an acquired lease runs until running ends.
func (ls *Leases) round(ctx, running context.Context) error {
	again, returned := ls.sort()
	if len(returned) > 0 {
		ls.end(ctx, returned, context.Canceled)
	}
	// A database that does not answer must not keep leases from ending in time.
	ctx, cancel := Within(ctx, min(leaseAnswer, ls.untilEnd()))
	defer cancel()
	if err := ls.renewAll(ctx, again); err != nil {
		return Error("renew leases", err)
	}
	if err := ls.takeFree(ctx, running); err != nil {
		return Error("take leases", err)
	}
	return nil
}

// sort ends leases that were not renewed in time. It returns the leases to renew now and those whose function has returned.
func (ls *Leases) sort() (again, returned []*Lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now, due := ls.tick(), false
	for _, o := range ls.own {
		switch l := o.lease; {
		case l == nil:
		case l.returned():
			if o.lease = nil; !l.lost {
				o.after = now + ls.terms.look // other nodes may take it first: the work may fail on this node alone
				returned = append(returned, l)
			}
		case l.lost:
		case !l.Held():
			l.lose()
		default:
			again = append(again, l)
			due = due || now >= time.Duration(l.ends.Load())-ls.terms.ttl+ls.terms.margin+ls.terms.renew
		}
	}
	if !due {
		again = nil
	}
	return again, returned
}

// lose ends a lease that this node no longer holds.
func (l *Lease) lose() {
	l.lost = true
	l.cancel(fmt.Errorf("%s: %w", l.name, ErrLost))
}

func (ls *Leases) renewAll(ctx context.Context, list []*Lease) error {
	if len(list) == 0 {
		return nil
	}
	names, epochs := make([]string, len(list)), make([]int64, len(list))
	for i, l := range list {
		names[i], epochs[i] = l.name, l.epoch
	}
	asked := ls.tick()
	renewed, err := ls.renew(ctx, names, epochs)
	if err != nil {
		return err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range list {
		if renewed[l.name] {
			l.extend(asked)
		} else if !l.returned() {
			l.lose()
			ls.cfg.Log.WarnContext(ctx, "a lease is lost", "lease", l.name)
		}
	}
	return nil
}

// takeFree takes free leases that this node wants.
func (ls *Leases) takeFree(ctx, running context.Context) error {
	wanted, unknown := ls.wanted()
	if len(wanted) == 0 {
		return nil
	}
	if len(unknown) > 0 {
		if err := ls.add(ctx, unknown); err != nil {
			return err
		}
	}
	asked := ls.tick()
	taken, err := ls.take(ctx, wanted)
	if err != nil {
		return err
	}
	var unwanted []*Lease
	ls.mu.Lock()
	for _, name := range wanted {
		o, epoch := ls.own[name], taken[name]
		if o != nil {
			o.added = true
		}
		if epoch == 0 {
			continue
		}
		l := &Lease{of: ls, name: name, epoch: epoch, cancel: func(error) {}, done: make(chan struct{})}
		l.extend(asked)
		if o == nil || o.lease != nil || ls.draining && name != ls.nodeName() || running.Err() != nil { // released meanwhile
			close(l.done)
			unwanted = append(unwanted, l)
			continue
		}
		ls.begin(running, o, l)
	}
	ls.mu.Unlock()
	if len(unwanted) > 0 {
		ls.end(ctx, unwanted, context.Canceled)
	}
	if slices.Contains(wanted, ls.nodeName()) && taken[ls.nodeName()] == 0 {
		ls.nameTaken(ctx)
	}
	return nil
}

func (ls *Leases) wanted() (names, unknown []string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for name, o := range ls.own {
		if o.lease != nil || ls.tick() < o.after || ls.draining && name != ls.nodeName() {
			continue
		}
		names = append(names, name)
		if !o.added {
			unknown = append(unknown, name)
		}
	}
	return names, unknown
}

// begin calls the owner's function.
func (ls *Leases) begin(running context.Context, o *owned, l *Lease) {
	ctx, cancel := context.WithCancelCause(running)
	l.cancel = cancel
	o.lease = l
	ls.named = true // the lease on the node's name is acquired first, alone
	ls.wg.Go(func() {
		defer ls.look() // the loop then releases the lease, or acquires it again
		defer close(l.done)
		defer cancel(nil)
		o.run(ctx, l)
	})
}

// nameTaken reports that another process has taken this node's name, which it could do while this process was cut off.
func (ls *Leases) nameTaken(ctx context.Context) {
	holder, _, err := ls.holds(ctx, ls.nodeName())
	if err != nil || holder == ls.holder || !ls.isNamed() {
		return
	}
	ls.fatal.Do(func() {
		err := fmt.Errorf("node %s: %w", ls.cfg.Node, ErrNodeTaken)
		ls.cfg.Log.ErrorContext(ctx, "this node's name was taken while the database could not be reached", "error", err)
		if ls.cfg.Fatal != nil {
			ls.cfg.Fatal(err)
		}
	})
}
