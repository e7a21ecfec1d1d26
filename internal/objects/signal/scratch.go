package signal

import (
	"sync"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// scratch is memory that handling a whole set of registrations needs for a moment. After a loss thousands of clients send theirs
// within a second; making it anew each time would be most of the garbage.
type scratch struct {
	keys     []object.Key
	progress []objectstore.Progress
	watched  []*watched
	frame    []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func newScratch() *scratch {
	t, _ := scratches.Get().(*scratch)
	return t
}

// keepScratch is for how many registrations memory is kept for the next.
const keepScratch = 1024

func (t *scratch) free() {
	if cap(t.keys) > keepScratch || cap(t.watched) > keepScratch || cap(t.frame) > keepScratch*16 {
		return
	}
	clear(t.keys)
	clear(t.watched)
	scratches.Put(t)
}
