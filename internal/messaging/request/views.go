package request

import (
	"cmp"
	"slices"
)

// Serving is a pattern that workers of this node serve as members of one queue.
type Serving struct {
	Pattern, Queue string
	Workers        int
	Full           int // workers that have as many requests as they accept at once
	Asked          int // requests that the workers have not answered yet
}

// Serving lists the patterns that workers of an app serve, the busiest first, and returns how many there are.
func (s *Service) Serving(app string, most int) (list []Serving, all int) {
	s.mu.RLock()
	h := s.pools[app]
	s.mu.RUnlock()
	if h == nil {
		return nil, 0
	}
	var groups []*group
	h.mu.RLock()
	for _, g := range h.groups {
		groups = append(groups, g)
	}
	h.mu.RUnlock()
	for _, g := range groups { // after the pool's lock is released: workers are locked before the pool
		v := Serving{Pattern: g.key.pattern, Queue: g.key.queue}
		for _, w := range g.list() {
			w.mu.Lock()
			v.Workers++
			v.Asked += len(w.asked)
			if w.away {
				v.Full++
			}
			w.mu.Unlock()
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b Serving) int {
		return cmp.Or(cmp.Compare(b.Asked, a.Asked), cmp.Compare(b.Workers, a.Workers), cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Queue, b.Queue))
	})
	return list[:min(len(list), most)], len(list)
}
