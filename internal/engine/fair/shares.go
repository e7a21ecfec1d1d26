package fair

import (
	"context"
	"sync"
)

// Shares divides a fixed amount among apps. An app that holds a part may have up to half of what the others leave; an app that holds none
// may take all that is left.
type Shares struct {
	most int64

	mu      sync.Mutex
	used    int64
	holds   map[string]int64
	changed chan struct{} // closed when a part is given back; nil: nobody waits
}

// NewShares returns Shares of the amount most.
func NewShares(most int64) *Shares { return &Shares{most: most, holds: make(map[string]int64)} }

// Try takes n for an app, and returns false if the app may not have it now.
func (s *Shares) Try(app string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(app, n)
}

func (s *Shares) take(app string, n int64) bool {
	held := s.holds[app]
	left := s.most - (s.used - held) // by the others
	if n > left-held || held > 0 && 2*(held+n) > left {
		return false
	}
	s.holds[app] = held + n
	s.used += n
	return true
}

// Take takes n for an app as soon as the app may have it. It returns an error if ctx ends before.
func (s *Shares) Take(ctx context.Context, app string, n int64) error {
	for {
		s.mu.Lock()
		if s.take(app, n) {
			s.mu.Unlock()
			return nil
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Used returns the amount taken by all apps.
func (s *Shares) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Give gives back n of what an app has taken.
func (s *Shares) Give(app string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	if s.holds[app] -= n; s.holds[app] == 0 {
		delete(s.holds, app)
	}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
