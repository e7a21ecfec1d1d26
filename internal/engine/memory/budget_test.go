package memory

import (
	"slices"
	"testing"
)

// queue gives its bytes back only some time after its end.
type queue int

func (q queue) Queued() int { return int(q) }

func TestShedEndsTheLongestQueuesUntilAnEighthIsFree(t *testing.T) {
	for _, c := range []struct {
		name   string
		others int // bytes that are held beside the queues
		queues []queue
		want   []queue
	}{
		{"one is long", 300, []queue{10, 700, 20}, []queue{700}},
		{"the longest first", 0, []queue{300, 500, 400}, []queue{500}},
		{"as many as it takes", 0, []queue{450, 50, 450, 450}, []queue{450, 450}},
		{"empty ones stay", 1100, []queue{0, 1, 0}, []queue{1}},
		{"a part of the slack is free", 500, []queue{200, 175}, nil},
	} {
		b := NewBudget(1000)
		b.Add(c.others)
		for _, q := range c.queues {
			b.Add(int(q))
		}
		var got []queue
		n := Shed(b, c.queues, func(q queue) { got = append(got, q) })
		if !slices.Equal(got, c.want) || n != len(got) {
			t.Errorf("%s: ended %v and said %d, want %v", c.name, got, n, c.want)
		}
	}
}

func TestBudgetSaysWhenToShedAndWhenToTakeNothing(t *testing.T) {
	b := NewBudget(1000)
	for _, c := range []struct {
		n          int
		over, full bool
	}{{1000, false, false}, {1, true, false}, {-1, false, false}, {125, true, false}, {1, true, true}, {-1, false, false}} {
		if over := b.Add(c.n); over != c.over || b.Full() != c.full {
			t.Errorf("%d more, so that %d are held: over is %t, full is %t", c.n, b.Held(), over, b.Full())
		}
	}
	if b.Room(1) || !NewBudget(1000).Room(1000) {
		t.Error("room is not what the budget has left")
	}
}
