package request

import (
	"slices"
	"testing"
)

func TestViewListsServedSubjectsAndOpenRequests(t *testing.T) {
	s, _, w := newWorker(t, 2)
	look := func(want ...Serving) {
		t.Helper()
		if got, all := s.Serving("a", 10); !slices.Equal(got, want) || all != len(want) {
			t.Errorf("%d are %+v, want %+v", all, got, want)
		}
	}
	queue := w.serves[0].of.key.queue
	look(Serving{"orders.>", queue, 1, 0, 0})
	w.mu.Lock()
	w.asked = map[string]*task{"one": {}, "two": {}}
	w.away = true
	w.mu.Unlock()
	look(Serving{"orders.>", queue, 1, 1, 2})
	w.mu.Lock()
	w.asked, w.away = nil, false
	w.mu.Unlock()
	if got, all := s.Serving("other", 10); len(got) != 0 || all != 0 {
		t.Errorf("another app sees %+v", got)
	}
}
