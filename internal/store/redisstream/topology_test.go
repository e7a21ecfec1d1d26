package redisstream

import (
	"slices"
	"testing"
)

func TestTopologyKnowsWhoHasWhat(t *testing.T) {
	before := &topology{ranges: []slotRange{{0, 99, "a"}, {100, 199, "b"}, {300, slots - 1, "a"}}}
	for slot, want := range map[uint16]string{0: "a", 99: "a", 100: "b", 199: "b", 200: "", 299: "", 300: "a", slots - 1: "a"} {
		if got := before.of(slot); got != want {
			t.Errorf("slot %d is %q's, want %q's", slot, got, want)
		}
	}
	if n := before.unowned(); n != 100 {
		t.Errorf("%d slots are nobody's", n)
	}
	after := &topology{ranges: []slotRange{{0, 98, "a"}, {99, 99, "c"}, {100, 199, "b"}, {200, slots - 1, "a"}}}
	if got := after.gained(before); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("%v have gained slots", got)
	}
	if got := after.gained(after); len(got) != 0 {
		t.Errorf("%v have gained slots though nothing has changed", got)
	}
	if got := after.gained(&topology{}); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("at first %v have gained slots", got)
	}
}
