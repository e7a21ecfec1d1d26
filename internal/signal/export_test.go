package signal

import "time"

// HoldBack sets an app's batching interval as if there had been queueing.
func (s *Service) HoldBack(app string, d time.Duration) {
	s.pace.mu.Lock()
	defer s.pace.mu.Unlock()
	s.pace.apps = map[string]*pace{app: {interval: d, judged: time.Now()}}
}
