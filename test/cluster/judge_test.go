package cluster

import (
	"strings"
	"testing"
)

// TestTheJudgeOfHistoriesNoticesWhatMustNotBe judges histories with one violation each.
func TestTheJudgeOfHistoriesNoticesWhatMustNotBe(t *testing.T) {
	whole := func(h *history, id, mode string, seq uint64) {
		h.publishing(id, "ann", mode)
		h.stored(id)
		for _, device := range h.devices {
			s := h.session("ann", device)
			s.delivered(id, seq)
			s.acknowledges([]string{id})
		}
		h.ended(id, endOf(mode))
		h.event(told{id + "1", "stored", id, "ann"})
		h.event(told{id + "2", "delivered", id, "ann"})
		if mode != "none" {
			h.event(told{id + "3", "acked", id, "ann"})
		}
	}
	for says, fault := range map[string]func(h *history){
		"": func(*history) {},
		"never arrived": func(h *history) {
			h.publishing("x", "ann", "any")
			h.stored("x")
			h.ended("x", "acked")
		},
		"11 of 22 copies with ack none never": func(h *history) {
			for i := range uint64(10) {
				whole(h, "kept"+string(rune(97+i)), "none", 10+i) // ten
			}
			for i := range 11 {
				id := "broken" + string(rune(97+i))
				h.publishing(id, "ann", "none")
				h.stored(id)
				h.ended(id, "delivered")
			}
		},
		"is still delivered":          func(h *history) { h.ended("all", "delivered") },
		"ended as \"expired\"":        func(h *history) { h.ended("any", "expired") },
		"before every device had":     func(h *history) { delete(h.copies["all"].acked, "b") },
		"ended before it had":         func(h *history) { delete(h.copies["all"].acked, "b"); h.session("ann", "b").recalled([]string{"all"}) },
		"ended as acked and as":       func(h *history) { h.event(told{"9", "expired", "any", "ann"}) },
		"under event ids":             func(h *history) { h.event(told{"9", "acked", "any", "ann"}) },
		"delivered of none":           func(h *history) { h.event(told{"9", "delivered", "none", "ann"}) },
		"two events have id":          func(h *history) { h.event(told{"any1", "acked", "other", "ann"}) },
		"it was stored twice":         func(h *history) { h.session("ann", "a").delivered("any", 9) },
		"with seq 1":                  func(h *history) { h.publishing("x", "ann", "any"); h.session("ann", "a").delivered("x", 1) },
		"which nobody published":      func(h *history) { h.session("ann", "a").delivered("y", 9) },
		"got late with seq 4 first a": func(h *history) { disorder(h) },
	} {
		h := newHistory("a", "b")
		for i, mode := range []string{"any", "all", "none"} {
			whole(h, mode, mode, uint64(i+1)) // three
		}
		fault(h)
		found := strings.Join(h.judge(), "\n")
		if (says == "") != (found == "") || !strings.Contains(found, says) {
			t.Errorf("of a history with %q it says %q", says, found)
		}
	}
}

func disorder(h *history) {
	s := h.session("ann", "a")
	for _, id := range []string{"early", "late"} {
		h.publishing(id, "ann", "any")
	}
	s.delivered("early", 5)
	s.delivered("late", 4)
}
