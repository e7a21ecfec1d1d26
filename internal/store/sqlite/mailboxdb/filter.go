package mailboxdb

import (
	"math/bits"
	"sync/atomic"
)

// A filter tells whether a sealed slice may hold an id. Each slice has a Bloom filter of 16 bits a row. The filters of 64 slices are
// interleaved: bit i of word p is bit p of the filter of slice i. So six words answer a lookup in 64 slices, or four million rows.
const (
	filterProbes = 6
	groupSlices  = 64
)

// filterPositions returns the positions of an id's bits in a filter of 2^size bits.
func filterPositions(idHash uint32, size uint) (p [filterProbes]uint32) {
	x := uint64(idHash)
	for i := range p {
		// SplitMix64 derives independent numbers from one seed.
		x += 0x9E3779B97F4A7C15
		z := (x ^ x>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		p[i] = uint32((z ^ z>>31) >> (64 - size))
	}
	return p
}

// makeFilter returns the stored form of a slice's filter.
func makeFilter(keys []uint64, size uint) []byte {
	b := make([]byte, 1<<size/8)
	for _, key := range keys {
		if key == 0 {
			continue
		}
		for _, p := range filterPositions(uint32(key>>32), size) {
			b[p/8] |= 1 << (p % 8)
		}
	}
	return b
}

// filterGroup holds the interleaved filters of groupSlices slices.
type filterGroup struct {
	words  []atomic.Uint64
	known  atomic.Uint64 // slices whose filter is in
	maybe  atomic.Uint64 // slices whose filter is not loaded yet: they may hold any id
	slices [groupSlices]atomic.Pointer[sealedSlice]
}

// set copies a slice's filter into the slice's column.
func (g *filterGroup) set(column int, filter []byte) {
	bit := uint64(1) << column
	for i, b := range filter {
		for ; b != 0; b &= b - 1 {
			g.words[i*8+bits.TrailingZeros8(b)].Or(bit)
		}
	}
	g.known.Or(bit)
	g.maybe.And(^bit)
}

// clear frees a column.
func (g *filterGroup) clear(column int) {
	bit := uint64(1) << column
	g.known.And(^bit)
	g.maybe.And(^bit)
	for i := range g.words {
		if g.words[i].Load()&bit != 0 {
			g.words[i].And(^bit)
		}
	}
	g.slices[column].Store(nil)
}

// match appends the slices that may hold an id.
func (g *filterGroup) match(positions *[filterProbes]uint32, to []*sealedSlice) []*sealedSlice {
	maybe := g.maybe.Load() // before known: a slice that set moves from one to the other meanwhile is in either
	mask := g.known.Load()
	for _, p := range positions {
		if mask == 0 {
			break
		}
		mask &= g.words[p].Load()
	}
	for mask |= maybe; mask != 0; mask &= mask - 1 {
		if s := g.slices[bits.TrailingZeros64(mask)].Load(); s != nil {
			to = append(to, s)
		}
	}
	return to
}
