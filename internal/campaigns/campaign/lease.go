package campaign

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/engine/pause"
)

var errLost = errors.New("another server sends for this app now")

// owning is an app whose deliveries this server wants to own.
type owning struct {
	release func()
	now     *owned // nil: it does not own them now
}

// owned is that they are owned, from then on until they are not any more.
type owned struct {
	app   string
	epoch int64
	held  func() bool
	ctx   context.Context // ends with that
	hard  context.Context // of requests under way: they outlive a pause, and a stop for a while
	lose  context.CancelFunc
	again atomic.Bool // to be taken over once more, which settles deliveries with an unknown outcome
	tasks sync.WaitGroup
}

// want requests the leases of apps that have work, gives up those of apps that have none, and returns the apps that this
// server owns now.
func (s *Service) want(ctx context.Context, apps []string) (now []*owned) {
	s.releaseAll(s.idle(apps))
	for _, app := range apps {
		o := s.apps[app]
		if o == nil {
			o = &owning{}
			s.apps[app] = o
			o.release = s.own(ctx, app, func(ctx context.Context, held func() bool) { s.hold(ctx, app, o, held) })
		}
		s.mu.Lock()
		if o.now != nil {
			now = append(now, o.now)
		}
		s.mu.Unlock()
	}
	return now
}

// own is Config.Own, or owns at once.
func (s *Service) own(ctx context.Context, app string, run func(context.Context, func() bool)) (release func()) {
	if s.cfg.Own == nil {
		return lease.Alone(ctx)(app, run)
	}
	return s.cfg.Own(app, run)
}

// idle lists the apps that this server owns, or asks for, although they have no work. A server that is alone keeps all
// its apps.
func (s *Service) idle(waiting []string) (list []string) {
	if s.cfg.Own == nil {
		return nil
	}
	wanted := make(map[string]bool, len(waiting))
	for _, app := range waiting {
		wanted[app] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tasks {
		wanted[t.own.app] = true
	}
	for app := range s.apps {
		if !wanted[app] {
			list = append(list, app)
		}
	}
	return list
}

// releaseAll gives apps up and waits until none of their deliveries is being sent.
func (s *Service) releaseAll(apps []string) {
	var wg sync.WaitGroup
	for _, app := range apps {
		wg.Go(s.apps[app].release)
		delete(s.apps, app)
	}
	wg.Wait()
}

// hold works on an app's deliveries until ctx ends.
func (s *Service) hold(ctx context.Context, app string, o *owning, held func() bool) {
	for ctx.Err() == nil && s.holdOnce(ctx, app, o, held) {
	}
}

// holdOnce takes them over and has them worked on until ctx ends or they are lost. again: they are to be taken over once more.
func (s *Service) holdOnce(ctx context.Context, app string, o *owning, held func() bool) (again bool) {
	ctx, lose := context.WithCancel(ctx)
	defer lose()
	hard, end := lease.Finishing(ctx, held)
	defer end()
	w := &owned{app: app, held: lease.Heeding(held, lose), ctx: ctx, hard: hard, lose: lose}
	for {
		err := s.takeOver(ctx, w)
		if err == nil {
			break
		}
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "deliveries cannot be taken over yet", "app", app, "error", err)
		}
		if errors.Is(err, ErrStale) || !pause.For(ctx, retryAfterFault) {
			return false
		}
	}
	s.mu.Lock()
	o.now = w
	s.mu.Unlock()
	s.notify()
	<-ctx.Done()
	s.mu.Lock()
	o.now = nil // no new task of it begins
	s.mu.Unlock()
	w.tasks.Wait()
	return w.again.Load() && held()
}

// takeOver makes this server the owner, and settles what was being sent when the last one ended.
func (s *Service) takeOver(ctx context.Context, w *owned) (err error) {
	if w.epoch, err = s.store.Own(ctx, w.app); err != nil {
		return fmt.Errorf("take over the deliveries of %s: %w", w.app, err)
	}
	total := 0
	for {
		n, err := s.store.Recover(ctx, w.app, w.epoch, slice, resending(), s.cfg.Now())
		if err != nil {
			return fmt.Errorf("recover deliveries of %s: %w", w.app, err)
		}
		if total += n; n == 0 {
			break
		}
	}
	if total > 0 {
		s.log.InfoContext(ctx, "deliveries were being sent when the server ended", "app", w.app, "count", total)
	}
	return nil
}
