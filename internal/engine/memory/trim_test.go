package memory

import "testing"

func TestMemoryIsGivenBackOnceAfterABurst(t *testing.T) {
	var tr trimmer
	for i, step := range []struct {
		allocated uint64
		due       bool
	}{
		{4 << 20, false},         // starting
		{4<<20 + 100, false},     // quiet, but little was allocated
		{100 << 20, false},       // a burst
		{150 << 20, false},       // goes on
		{150<<20 + 5000, true},   // over
		{150<<20 + 9000, false},  // once is enough
		{150<<20 + 99000, false}, // still
	} {
		if got := tr.due(step.allocated); got != step.due {
			t.Fatalf("step %d at %d bytes: due is %v", i, step.allocated, got)
		}
	}
}
