package signal

import "time"

// HoldBack sets an app's batching interval as if there had been queueing.
func (s *Service) HoldBack(app string, d time.Duration) {
	s.pace.mu.Lock()
	defer s.pace.mu.Unlock()
	s.pace.apps = map[string]*pace{app: {interval: d, judged: time.Now()}}
}

// Numbers is how many numbers of sessions there are, in use or not.
func (s *Service) Numbers() int {
	s.index.sessions.mu.RLock()
	defer s.index.sessions.mu.RUnlock()
	return len(s.index.sessions.all)
}
