package shrink_test

import (
	"runtime"
	"testing"

	"godwit.dev/godwit/internal/engine/shrink"
)

func TestMapHoldsWhatWasSetAndNotDeleted(t *testing.T) {
	var m shrink.Map[int, int]
	const n = 10_000
	for i := range n {
		m.Set(i, -i)
	}
	for i := range n {
		if i%100 != 0 {
			m.Delete(i)
		}
	}
	m.Delete(n + 1)
	if m.Len() != n/100 || len(m.All()) != n/100 {
		t.Fatalf("%d entries are left", m.Len())
	}
	for i := 0; i < n; i += 100 {
		if m.Get(i) != -i {
			t.Errorf("%d is %d", i, m.Get(i))
		}
	}
	if m.Get(1) != 0 {
		t.Error("a deleted entry is there")
	}
}

// inUse is how many bytes of the heap are in use.
func inUse() int {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

func TestMapGivesBackTheSpaceOfDeletedEntries(t *testing.T) {
	var m shrink.Map[int, int]
	const n = 200_000
	before := inUse()
	for i := range n {
		m.Set(i, i)
	}
	full := inUse() - before
	for i := range n - 100 {
		m.Delete(i)
	}
	if left := inUse() - before; left > full/20 {
		t.Errorf("%d entries take %d bytes, %d took %d", m.Len(), left, n, full)
	}
	runtime.KeepAlive(m.All())
}
