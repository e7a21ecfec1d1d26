package mailboxdb

import (
	"sync/atomic"
	"testing"
)

func TestASliceIsFoundWhileItsFilterIsLoaded(t *testing.T) {
	const id = 0xc0ffee
	size := filterSize(4)
	filter, positions := makeFilter([]uint64{indexKey(id, 1)}, size), filterPositions(id, size)
	for range 500 {
		g := &filterGroup{words: make([]atomic.Uint64, 1<<size)}
		g.slices[0].Store(&sealedSlice{})
		g.maybe.Or(1)
		loaded := make(chan struct{})
		go func() { g.set(0, filter); close(loaded) }()
		for done := false; !done; {
			select {
			case <-loaded:
				done = true
			default:
			}
			if len(g.match(&positions, nil)) == 0 {
				t.Fatal("the slice is not looked at")
			}
		}
	}
}
