package pghealth

// Hurry makes Scrub retry without pauses.
func (h *Health) Hurry() { h.pause = 0 }
