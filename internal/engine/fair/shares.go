package fair

import (
	"context"
	"sync"
)

// Shares lends parts of a fixed amount. An app that holds some may have up to half of what the others leave; one that
// holds none may take all that is left.
type Shares struct {
	most int64

	mu      sync.Mutex
	used    int64
	holds   map[string]int64
	changed chan struct{} // closed when something was given back; nil while nobody waits
}

// NewShares makes shares of an amount.
func NewShares(most int64) *Shares { return &Shares{most: most, holds: make(map[string]int64)} }

// Try takes n for an app, if it may have so much now.
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

// Take takes n for an app as soon as it may have so much; an error: ctx has ended before.
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

// Used is how much is lent out.
func (s *Shares) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Give gives back what was taken.
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
