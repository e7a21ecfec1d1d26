package signal

import "time"

// HoldBack sets an app's batching interval as if its objects had queued.
func (s *Service) HoldBack(app string, d time.Duration) {
	s.pace.mu.Lock()
	defer s.pace.mu.Unlock()
	s.pace.apps = map[string]*pace{app: {interval: d, judged: time.Now()}}
}

// Numbers returns how many session numbers exist, in use or free.
func (s *Service) Numbers() int {
	s.index.sessions.mu.RLock()
	defer s.index.sessions.mu.RUnlock()
	return len(s.index.sessions.all)
}
