package timeheap_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/engine/timeheap"
)

type thing struct{ timeheap.Entry }

// TestThingsComeInTheOrderOfTheirTimes: also those whose time has changed while they waited.
func TestThingsComeInTheOrderOfTheirTimes(t *testing.T) {
	var h timeheap.Heap[*thing]
	if _, ok := h.First(); ok {
		t.Fatal("an empty heap has a first thing")
	}
	r := rand.New(rand.NewPCG(1, 2))
	begun := time.Now()
	all := make([]*thing, 200)
	for i := range all {
		all[i] = &thing{timeheap.Entry{At: begun.Add(time.Duration(r.IntN(1000)) * time.Second)}}
		h.Put(all[i])
	}
	for _, it := range all[:100] {
		it.At = begun.Add(time.Duration(r.IntN(1000)) * time.Second)
		h.Put(it)
	}
	var got []time.Time
	for first, ok := h.First(); ok; first, ok = h.First() {
		if !first.Waits() || !first.IsFirst() {
			t.Error("the first thing does not know that it is")
		}
		if it := h.Pop(); it != first || it.Waits() {
			t.Error("another thing than the first is removed, or it still waits")
		}
		got = append(got, first.At)
	}
	if len(got) != len(all) || !slices.IsSortedFunc(got, time.Time.Compare) {
		t.Errorf("%d things came, in the order %v", len(got), got)
	}
}
