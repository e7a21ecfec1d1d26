package mailbox

import (
	"context"
	"sync"
	"time"
)

// How upkeep paces itself.
const (
	pruneEvery  = time.Minute           // interval of retention's runs
	prunePause  = 20 * time.Millisecond // pause between slices, so that clean-up never delays publishes
	retryUpkeep = time.Second           // after a store error
)

// Run makes scheduled notifications due, expires overdue ones and deletes those past their retention, until ctx ends.
func (m *Mailbox) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { m.loop(ctx, &m.wake, m.deadlines) })
	wg.Go(func() { m.loop(ctx, &m.prunes, m.prune) })
	wg.Wait()
	return nil
}

// loop calls step at the times that step returns, or earlier when woken.
func (m *Mailbox) loop(ctx context.Context, w *waker, step func(context.Context) (time.Time, error)) {
	for {
		w.begin(m.now)
		next, err := step(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			m.log.WarnContext(ctx, "mailbox upkeep failed, will try again", "error", err)
			next = m.now().Add(retryUpkeep)
		}
		if !w.wait(ctx, m.now, next) {
			return
		}
	}
}

func (m *Mailbox) deadlines(ctx context.Context) (time.Time, error) {
	now := m.now()
	due, err := m.store.Due(ctx, now)
	if err != nil {
		return time.Time{}, err
	}
	expiry, err := m.store.Expire(ctx, now)
	if due.IsZero() || !expiry.IsZero() && expiry.Before(due) {
		due = expiry
	}
	return due, err
}

func (m *Mailbox) prune(ctx context.Context) (time.Time, error) {
	now := m.now()
	more, err := m.store.Prune(ctx, now.Add(-m.retain))
	if more {
		return now.Add(prunePause), err
	}
	return now.Add(pruneEvery), err
}

// waker lets a loop sleep until the earliest of the times that it was given.
type waker struct {
	most  time.Duration // the longest sleep
	mu    *sync.Mutex
	next  time.Time
	awake chan struct{}
}

func newWaker(most time.Duration) waker {
	return waker{most: most, mu: new(sync.Mutex), awake: make(chan struct{}, 1)}
}

// at wakes the loop early if t is before the time at which it will wake. The zero time has no effect.
func (w *waker) at(t time.Time) {
	if t.IsZero() {
		return
	}
	w.mu.Lock()
	early := t.Before(w.next)
	if early {
		w.next = t
	}
	w.mu.Unlock()
	if early {
		select {
		case w.awake <- struct{}{}:
		default:
		}
	}
}

// begin is called before the loop looks for work. The loop may miss work that is announced after this call.
func (w *waker) begin(now func() time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = now().Add(w.most)
}

// wait sleeps until next or an earlier time given to at since begin. False: ctx ended.
func (w *waker) wait(ctx context.Context, now func() time.Time, next time.Time) bool {
	w.mu.Lock()
	if !next.IsZero() && next.Before(w.next) {
		w.next = next
	}
	w.mu.Unlock()
	for {
		w.mu.Lock()
		d := w.next.Sub(now())
		w.mu.Unlock()
		if d <= 0 {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(d)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-w.awake:
			timer.Stop()
		case <-timer.C:
		}
	}
}
