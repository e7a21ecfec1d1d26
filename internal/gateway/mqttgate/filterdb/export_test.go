package filterdb

// Waiting returns how many changes wait.
func (s *Sessions) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
