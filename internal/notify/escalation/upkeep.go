package escalation

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
)

// upkeep retries refused channels after an operator has changed them, and deletes old ended sends.
func (s *Service) upkeep(ctx context.Context) {
	for !s.release(ctx) && pause.For(ctx, retryAfterFault) { // whoever starts a server has checked its channels
	}
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for {
		changed := s.cfg.Changed()
		select {
		case <-ctx.Done():
			return
		case <-changed:
			s.release(ctx)
		case <-tick.C:
		}
		s.prune(ctx, func(now time.Time) (bool, error) {
			return s.cfg.Store.PruneSends(ctx, now.Add(-s.cfg.Retain), now, slice)
		})
		s.prune(ctx, func(now time.Time) (bool, error) { return s.cfg.Preferences.PruneBegun(ctx, now, slice) })
	}
}

// prune deletes slice after slice.
func (s *Service) prune(ctx context.Context, one func(now time.Time) (more bool, err error)) {
	for more := true; more && ctx.Err() == nil; {
		var err error
		if more, err = one(s.cfg.Now()); err != nil {
			s.cfg.Log.WarnContext(ctx, "old sends of escalations cannot be deleted", "error", err)
			return
		}
	}
}

// release makes the held sends of all apps pending again, since an app's present owner may be another server than the one that held them,
// or there may be none. It does so twice: otherwise sends that a job read before its app was unblocked would keep waiting.
func (s *Service) release(ctx context.Context) (done bool) {
	done = true
	for range 2 {
		apps, err := s.cfg.Store.ReleaseSends(ctx, s.cfg.Now())
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "what waited for a channel to be set up cannot be released", "error", err)
			done = false
		}
		s.mu.Lock()
		for app := range s.refused { // another server may have released the sends first
			apps = append(apps, app)
		}
		clear(s.refused)
		s.mu.Unlock()
		for _, app := range apps {
			s.cfg.Dispatch.Unblock(app)
		}
	}
	s.released.Store(true)
	poke(s.wake)
	return done
}

// wasRefused records that a provider refused a credential of an app.
func (s *Service) wasRefused(app string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[app] = true
}
