package pghealth

// Hurry has Scrub try again at once.
func (h *Health) Hurry() { h.pause = 0 }
