package cluster

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
)

// names is a set of names that takes half the memory of a map: all texts in one slice, and a table of the places where they begin. A node
// has one such set as the backup of another node, for that node's recipients.
type names struct {
	seed  maphash.Seed
	text  []byte   // each name behind its length
	slots []uint32 // start of each name plus 1; their number is a power of two, and a quarter is always free
	n     int      // names
	taken int      // slots that are not free
	dead  int      // bytes of removed names
}

const (
	freeSlot = 0
	goneSlot = ^uint32(0) // marks a removed name: the search continues after it
	minSlots = 8
)

func newNames() *names {
	return &names{seed: maphash.MakeSeed(), slots: make([]uint32, minSlots)}
}

// at returns the name that begins at a place, and the number of bytes it occupies with its length.
func (s *names) at(place uint32) (name []byte, takes int) {
	size, n := binary.Uvarint(s.text[place-1:])
	begins := int(place) - 1 + n
	return s.text[begins : begins+int(size)], n + int(size) // add wrote it
}

// find returns the slot of a name, or the slot in which to store it.
func (s *names) find(name string) (slot int, ok bool) {
	to := -1
	mask := len(s.slots) - 1
	for i := int(maphash.String(s.seed, name)) & mask; ; i = (i + 1) & mask { // its lower bits are as good
		switch place := s.slots[i]; place {
		case freeSlot:
			if to < 0 {
				to = i
			}
			return to, false
		case goneSlot:
			if to < 0 {
				to = i
			}
		default:
			if there, _ := s.at(place); string(there) == name {
				return i, true
			}
		}
	}
}

func (s *names) has(name string) bool {
	_, ok := s.find(name)
	return ok
}

func (s *names) add(name string) {
	slot, ok := s.find(name)
	if ok {
		return
	}
	if s.slots[slot] == freeSlot {
		s.taken++
	}
	s.slots[slot] = uint32(len(s.text)) + 1 // a node has some thousand recipients
	s.text = append(binary.AppendUvarint(s.text, uint64(len(name))), name...)
	s.n++
	if s.taken > len(s.slots)/4*3 {
		s.pack()
	}
}

func (s *names) remove(name string) {
	slot, ok := s.find(name)
	if !ok {
		return
	}
	_, takes := s.at(s.slots[slot])
	s.slots[slot] = goneSlot
	s.n--
	if s.dead += takes; s.dead > len(s.text)/2 {
		s.pack()
	}
}

// all lists the names.
func (s *names) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, place := range s.slots {
			if place == freeSlot || place == goneSlot {
				continue
			}
			if name, _ := s.at(place); !yield(string(name)) {
				return
			}
		}
	}
}

// pack rewrites the set without removed names, and with room for as many additional ones.
func (s *names) pack() {
	size := minSlots
	for size/4*3 <= s.n+s.n/8 {
		size *= 2
	}
	packed := names{seed: s.seed, slots: make([]uint32, size), text: make([]byte, 0, len(s.text)-s.dead)}
	for name := range s.all() {
		packed.add(name)
	}
	*s = packed
}
