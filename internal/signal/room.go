package signal

import (
	"sync"

	"godwit.dev/godwit/internal/object"
)

// room is what handling a whole set of registrations needs for a moment. After a loss thousands of clients send theirs
// within a second; making it anew each time would be most of the garbage.
type room struct {
	keys     []object.Key
	progress []Progress
	watched  []*watched
	frame    []byte
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// keepRoom is how many registrations the room that is kept for the next has space for.
const keepRoom = 1024

func (r *room) free() {
	if cap(r.keys) > keepRoom || cap(r.watched) > keepRoom || cap(r.frame) > keepRoom*16 {
		return
	}
	clear(r.keys)
	clear(r.watched)
	rooms.Put(r)
}
