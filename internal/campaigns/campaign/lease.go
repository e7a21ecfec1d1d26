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
	now     *owned // nil: this server does not own them now
}

// owned is one period in which this server owns an app's deliveries.
type owned struct {
	app   string
	epoch int64
	held  func() bool
	ctx   context.Context // ends with that
	hard  context.Context // for requests under way: they continue after a pause, and for a while after a stop
	lose  context.CancelFunc
	again atomic.Bool // take the deliveries over once more, to settle those with an unknown outcome
	tasks sync.WaitGroup

	limits limits
}

// want requests the leases of apps that have work, releases those of other apps, and returns the apps that this server owns now.
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

// own calls Config.Own; without it, this server owns the app at once.
func (s *Service) own(ctx context.Context, app string, run func(context.Context, func() bool)) (release func()) {
	if s.cfg.Own == nil {
		return lease.Alone(ctx)(app, run)
	}
	return s.cfg.Own(app, run)
}

// idle lists the apps without work that this server owns or asks for. A server without other servers keeps all its apps.
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

// releaseAll releases apps and waits until none of their deliveries is being sent.
func (s *Service) releaseAll(apps []string) {
	var wg sync.WaitGroup
	for _, app := range apps {
		wg.Go(s.apps[app].release)
		delete(s.apps, app)
	}
	wg.Wait()
}

// hold processes an app's deliveries until ctx ends.
func (s *Service) hold(ctx context.Context, app string, o *owning, held func() bool) {
	for ctx.Err() == nil && s.holdOnce(ctx, app, o, held) {
	}
}

// holdOnce takes over the app's deliveries, and lets tasks process them until ctx ends or they are lost. again: they must be taken over
// once more.
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
	o.now = nil // no new task of it starts
	s.mu.Unlock()
	w.tasks.Wait()
	return w.again.Load() && held()
}

// takeOver makes this server the owner, and settles the deliveries that were being sent when the last owner ended.
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
