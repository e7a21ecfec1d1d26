package signal

import (
	"sync"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// scratch is memory that is needed briefly to handle a whole set of registrations. After a loss thousands of clients send their sets within
// a second; without reuse, most of the garbage would come from here.
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

// keepScratch is the most registrations for which memory is kept.
const keepScratch = 1024

func (t *scratch) free() {
	if cap(t.keys) > keepScratch || cap(t.watched) > keepScratch || cap(t.frame) > keepScratch*16 {
		return
	}
	clear(t.keys)
	clear(t.watched)
	scratches.Put(t)
}
