package cluster

import (
	"iter"
	"math/bits"
	"math/rand/v2"
)

// hashes is a set of hashes (hashOf) in a third more room than they take, or a half. A node has one of each other node's recipients.
// Its zero value is empty.
type hashes struct {
	slots []uint64 // 0: free. A hash is in the slot that is its own, or further on before the next free one
	n     int
	seed  uint64 // odd; a person who chooses names must not be able to choose slots
}

// How full slots are. They grow by an eighth at a time, and shrink when half of their entries have gone.
const (
	leastSlots = 8
	fullAt     = 0.75
	emptyAt    = fullAt / 2
)

// own returns the slot at which the search for a hash begins.
func (s *hashes) own(h uint64) int {
	slot, _ := bits.Mul64(h*s.seed, uint64(len(s.slots)))
	return int(slot) //nolint:gosec // less than their number
}

// find is the slot of a hash, or the free one where it is to go. There is one.
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

// add adds a hash, which is not 0.
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

// way is how many slots further on another one is.
func (s *hashes) way(from, to int) int {
	if to < from {
		to += len(s.slots)
	}
	return to - from
}

// resize makes room for so many and an eighth more.
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
