package signal

import "time"

// held are the objects of groups with a fixed batching interval. They lie apart from the queue, which is gone through at every change.
type held struct {
	objects []waiting
	next    time.Time // when the first of them is ready; of no meaning if there are none
}

// batch sets the end of an object's interval, if its group has a fixed one. Intervals begin at multiples of their length on the wall clock,
// so the objects of a group leave together, on all nodes.
func (s *Service) batch(w *watched, ready *time.Time) bool {
	d := s.cfg.Batch(w.app, w.name.key.Group)
	if d <= 0 {
		return false
	}
	begun := ready.Truncate(d)
	*ready = ready.Add(begun.Add(d).Sub(*ready)) // measured from now, so that a clock that is set back delays nothing
	return true
}

// hold keeps an object until its interval ends. ln.mu is held.
func (ln *fanoutWorker) hold(it waiting) {
	if len(ln.held.objects) == 0 || it.ready.Before(ln.held.next) {
		ln.held.next = it.ready
	}
	ln.held.objects = append(ln.held.objects, it)
}

// release adds the objects whose interval has ended to due, and returns the time until the next one ends, at most wait. ln.mu is held.
func (ln *fanoutWorker) release(now time.Time, due []waiting, wait time.Duration) ([]waiting, time.Duration) {
	h := &ln.held
	if len(h.objects) > 0 && !h.next.After(now) {
		all := h.objects
		h.objects = nil
		for _, it := range all {
			if it.ready.After(now) {
				ln.hold(it)
			} else {
				it.ready = time.Time{} // it has not queued
				due = append(due, it)
			}
		}
	}
	if len(h.objects) > 0 {
		wait = min(wait, h.next.Sub(now))
	}
	return due, wait
}
