package cluster

import (
	"iter"
	"math/bits"
	"math/rand/v2"
)

// hashes is a set of hashes (hashOf). While it grows, it takes 1.33 to 1.5 times the memory of its hashes. A node has one such set for each
// other node's recipients. The zero value is an empty set.
type hashes struct {
	slots []uint64 // 0: free. A hash is in its own slot, or in a later one before the next free slot
	n     int
	seed  uint64 // odd; random, so that a person who chooses names cannot choose slots
}

// Fill levels of slots. The set grows by an eighth at a time, and shrinks when half of its entries are removed.
const (
	leastSlots = 8
	fullAt     = 0.75
	emptyAt    = fullAt / 2
)

// own returns the slot at which the search for a hash begins.
func (s *hashes) own(h uint64) int {
	slot, _ := bits.Mul64(h*s.seed, uint64(len(s.slots)))
	return int(slot) // less than their number
}

// find returns the slot of a hash, or the free slot in which to store it. There always is a free slot.
func (s *hashes) find(h uint64) (slot int, ok bool) {
	for i := s.own(h); ; {
		switch s.slots[i] {
		case h:
			return i, true
		case 0:
			return i, false
		}
		if i++; i == len(s.slots) {
			i = 0
		}
	}
}

func (s *hashes) has(h uint64) bool {
	if s.n == 0 {
		return false
	}
	_, ok := s.find(h)
	return ok
}

// add adds a hash, which must not be 0.
func (s *hashes) add(h uint64) {
	if s.has(h) {
		return
	}
	if float64(s.n+1) > fullAt*float64(len(s.slots)) {
		s.resize(s.n + 1)
	}
	slot, _ := s.find(h)
	s.slots[slot] = h
	s.n++
}

// remove removes a hash and moves back the hashes that it had displaced.
func (s *hashes) remove(h uint64) {
	if !s.has(h) {
		return
	}
	free, _ := s.find(h)
	for i := free; ; {
		if i++; i == len(s.slots) {
			i = 0
		}
		moved := s.slots[i]
		if moved == 0 {
			break
		}
		if own := s.own(moved); s.way(own, free) <= s.way(own, i) {
			s.slots[free], free = moved, i
		}
	}
	s.slots[free] = 0
	s.n--
	if len(s.slots) > leastSlots && float64(s.n) < emptyAt*float64(len(s.slots)) {
		s.resize(s.n)
	}
}

// way returns the number of slots from one slot forward to another, wrapping around.
func (s *hashes) way(from, to int) int {
	if to < from {
		to += len(s.slots)
	}
	return to - from
}

// resize makes room for n hashes and an eighth more.
func (s *hashes) resize(n int) {
	to := hashes{slots: make([]uint64, max(n+n/2, leastSlots)), seed: rand.Uint64() | 1}
	for h := range s.all() {
		slot, _ := to.find(h)
		to.slots[slot] = h
	}
	to.n = s.n
	*s = to
}

// all lists the hashes.
func (s *hashes) all() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, h := range s.slots {
			if h != 0 && !yield(h) {
				return
			}
		}
	}
}
