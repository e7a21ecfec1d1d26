package escalation

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/engine/pause"
)

// owning is an app whose sends this server wants to own. It begins with the app's first step here, or its first unsent step found in the
// store, and lasts until the server stops.
type owning struct {
	release func()
	now     *owned // nil: another server sends the app's steps
}

// owned is an app whose steps this server sends. It lasts from the takeover until the lease ends.
type owned struct {
	app   string
	ctx   context.Context // ends with that
	hard  context.Context // context of running requests: they may continue for a while after ctx ends
	held  func() bool
	lose  context.CancelFunc
	tasks sync.WaitGroup
}

// shared reports whether other servers may send steps as well.
func (s *Service) shared() bool { return s.cfg.Own != nil }

// begin allows the server to request apps until ctx ends.
func (s *Service) begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own = s.cfg.Own; s.own == nil {
		s.own = lease.Alone(ctx)
	}
}

// end gives up all apps, and returns when none of their sends is under way.
func (s *Service) end() {
	s.mu.Lock()
	s.own = nil
	apps := s.apps
	s.apps = make(map[string]*owning)
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, o := range apps {
		wg.Go(o.release)
	}
	wg.Wait()
}

// want requests the lease of an app, unless it was requested already.
func (s *Service) want(app string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil || s.apps[app] != nil {
		return
	}
	o := &owning{}
	s.apps[app] = o
	o.release = s.own(app, func(ctx context.Context, held func() bool) { s.hold(ctx, app, o, held) })
}

// owns reports whether this server sends an app's steps now.
func (s *Service) owns(app string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownedNow(app) != nil
}

// ownedNow returns nil if this server does not own an app's sends now. s.mu is held.
func (s *Service) ownedNow(app string) *owned {
	if o := s.apps[app]; o != nil && o.now != nil && o.now.ctx.Err() == nil {
		return o.now
	}
	return nil
}

// owned lists the apps whose steps this server hands over; nil: all apps.
func (s *Service) owned() []string {
	if !s.shared() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	apps := make([]string, 0, len(s.apps))
	for app := range s.apps {
		if s.ownedNow(app) != nil {
			apps = append(apps, app)
		}
	}
	return apps
}

// task runs f in a goroutine if this server owns the app. False: it does not own the app.
func (s *Service) task(app string, f func(*owned)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.ownedNow(app)
	if o != nil {
		o.tasks.Go(func() { f(o) })
	}
	return o != nil
}

// hold runs the sends of an app's steps while this server owns the app, until ctx ends.
func (s *Service) hold(ctx context.Context, app string, of *owning, held func() bool) {
	ctx, lose := context.WithCancel(ctx)
	defer lose()
	if !s.takeOver(ctx, app) {
		return
	}
	hard, end := lease.Finishing(ctx, held)
	defer end()
	o := &owned{app: app, ctx: ctx, hard: hard, held: lease.Heeding(held, lose), lose: lose}
	s.mu.Lock()
	of.now = o
	s.mu.Unlock()
	s.released.Store(true) // what somebody has handed over
	poke(s.left)
	poke(s.wake)
	<-ctx.Done()
	s.mu.Lock()
	of.now = nil // no new task of the app begins
	s.mu.Unlock()
	o.tasks.Wait()
}

// takeOver handles the sends that were under way when the last owner ended. False: ctx ended, or another server has taken over meanwhile.
func (s *Service) takeOver(ctx context.Context, app string) bool {
	for {
		n, err := s.cfg.Store.RecoverSends(ctx, app, resending(), s.cfg.Now())
		if err == nil {
			if n > 0 {
				s.cfg.Log.InfoContext(ctx, "steps of escalations were being sent when the server ended", "app", app, "count", n)
			}
			return ctx.Err() == nil
		}
		if ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "sends of escalations cannot be taken over yet", "app", app, "error", err)
		}
		if errors.Is(err, ErrStale) || !pause.For(ctx, retryAfterFault) {
			return false
		}
	}
}

// discover requests the apps of due steps and of waiting sends, and starts the waiting sends of the apps that this server owns.
func (s *Service) discover(ctx context.Context) error {
	if s.shared() {
		due, _, err := s.cfg.Steps.StepsDue(ctx, nil, s.cfg.Now(), slice)
		if err != nil {
			return fmt.Errorf("look for steps that are due: %w", err)
		}
		for i := range due {
			s.want(due[i].App)
		}
	}
	return s.sendWaiting(ctx)
}

func (s *Service) sendWaiting(ctx context.Context) error {
	places, err := s.cfg.Store.WaitingSends(ctx)
	if err != nil {
		return fmt.Errorf("look for what waits to be sent: %w", err)
	}
	for _, p := range places {
		s.want(p.App)
		s.send(ctx, p)
	}
	return nil
}
