package mailboxdb

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"zombiezen.com/go/sqlite"
)

// Runs of a sealed slice.
const (
	runIDs    = 0 // keys are id hash << 32 | recipient
	runOwners = 1 // keys are recipients
)

const (
	recordSize   = 10  // a key of 8 bytes and a place of 2 bytes
	blockRecords = 400 // 4,000 bytes: a block fits a page
)

// errStale reports that a slice was sealed or dropped after the snapshot was taken. Another read succeeds.
var errStale = errors.New("the file lacks what the index in memory names")

// sealedSlices finds rows in slices whose index is on disk. The sealer and the pruner change it; any goroutine reads it.
type sealedSlices struct {
	bits   uint
	mu     sync.Mutex // held to change
	list   atomic.Pointer[[]*sealedSlice]
	groups atomic.Pointer[[]*filterGroup]
	after  int64 // the number after that of the newest sealed slice
}

// sealedSlice is the part of a slice that is in memory: the first key of each block of its runs.
type sealedSlice struct {
	number int64
	fences [2][]uint64
	group  *filterGroup
	column int
}

func (x *sealedSlices) filterSize() uint { return filterSize(x.bits) }

func filterSize(sliceBits uint) uint { return sliceBits + 4 }

func (x *sealedSlices) all() []*sealedSlice {
	if l := x.list.Load(); l != nil {
		return *l
	}
	return nil
}

// load reads the list of slices; loadFilters reads their filters later. last is the newest position they cover.
func (x *sealedSlices) load(c *sqlite.Conn, bits uint) (last int64, err error) {
	x.bits = bits
	st := c.Prep("SELECT number, ids, owners FROM slice ORDER BY number")
	err = each(st, func(st *sqlite.Stmt) error {
		s := &sealedSlice{number: st.ColumnInt64(0), fences: [2][]uint64{decodeKeys(blob(st, 1)), decodeKeys(blob(st, 2))}}
		x.add(s, nil)
		last = x.after<<bits - 1
		return nil
	})
	return last, err
}

// add adds a slice; with a nil filter it may hold any id until its filter is loaded.
func (x *sealedSlices) add(s *sealedSlice, filter []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.group, s.column = x.freeColumn()
	s.group.slices[s.column].Store(s)
	if filter == nil {
		s.group.maybe.Or(1 << s.column)
	} else {
		s.group.set(s.column, filter)
	}
	list := append(slices.Clone(x.all()), s)
	x.list.Store(&list)
	x.after = max(x.after, s.number+1)
}

func (x *sealedSlices) freeColumn() (*filterGroup, int) {
	var groups []*filterGroup
	if g := x.groups.Load(); g != nil {
		groups = *g
	}
	for _, g := range groups {
		for column := range groupSlices {
			if g.slices[column].Load() == nil {
				return g, column
			}
		}
	}
	g := &filterGroup{words: make([]atomic.Uint64, 1<<x.filterSize())}
	groups = append(slices.Clone(groups), g)
	x.groups.Store(&groups)
	return g, 0
}

// remove forgets a slice.
func (x *sealedSlices) remove(s *sealedSlice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(x.all()), func(o *sealedSlice) bool { return o == s })
	x.list.Store(&list)
	s.group.clear(s.column)
}

// next returns the number of the first slice that is not sealed.
func (x *sealedSlices) next() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.after
}

// candidates returns the slices that may hold an id, newest first.
func (x *sealedSlices) candidates(idHash uint32) (found []*sealedSlice) {
	groups := x.groups.Load()
	if groups == nil {
		return nil
	}
	positions := filterPositions(idHash, x.filterSize())
	for _, g := range *groups {
		found = g.match(&positions, found)
	}
	slices.SortFunc(found, func(a, b *sealedSlice) int { return cmp.Compare(b.number, a.number) })
	return found
}

// find calls yield with the positions of a key, newest first, until yield returns false. It is for the writer, whose view is never stale: a
// slice without blocks is being dropped, and its rows are deleted.
func (x *sealedSlices) find(c *sqlite.Conn, key uint64, yield func(pos int64) bool) error {
	for _, s := range x.candidates(uint32(key >> 32)) {
		more, err := x.scan(c, s, runIDs, key, key, yield)
		if !errors.Is(err, errStale) && (err != nil || !more) {
			return err
		}
	}
	return nil
}

// match calls yield with the positions whose key matches under mask, newest slice first. The mask must include the id hash.
func (x *sealedSlices) match(c *sqlite.Conn, mask, key uint64, yield func(pos int64) bool) error {
	for _, s := range x.candidates(uint32(key >> 32)) {
		more, err := x.scan(c, s, runIDs, key&mask, key&mask|^mask, yield)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// eachOf calls yield with the positions of a recipient's rows in the slices with lower numbers than before, newest first.
func (x *sealedSlices) eachOf(c *sqlite.Conn, recipient uint32, before int64, yield func(pos int64) bool) error {
	for _, s := range slices.Backward(x.all()) {
		if s.number >= before {
			continue
		}
		more, err := x.scan(c, s, runOwners, uint64(recipient), uint64(recipient), yield)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// scan calls yield with the positions of the keys from lo to hi in one run, newest first.
func (x *sealedSlices) scan(c *sqlite.Conn, s *sealedSlice, run int, lo, hi uint64, yield func(pos int64) bool) (more bool, err error) {
	fences := s.fences[run]
	// Keys equal to lo may begin in the block before the first block that starts with such a key.
	from, _ := slices.BinarySearch(fences, lo)
	from = max(0, from-1)
	st, err := c.Prepare("SELECT data FROM block WHERE key = ?1")
	if err != nil {
		return false, err
	}
	var places []uint16
	for block := from; block < len(fences) && fences[block] <= hi; block++ {
		var data []byte
		st.BindInt64(1, blockKey(s.number, run, block))
		err := each(st, func(st *sqlite.Stmt) error {
			data = blob(st, 0)
			return nil
		})
		if err != nil {
			return false, fmt.Errorf("read index block %d of slice %d: %w", block, s.number, err)
		}
		if data == nil {
			return false, errStale
		}
		for ; len(data) >= recordSize; data = data[recordSize:] {
			if key := binary.BigEndian.Uint64(data); key >= lo && key <= hi {
				places = append(places, binary.BigEndian.Uint16(data[8:]))
			}
		}
	}
	slices.Sort(places)
	for _, place := range slices.Backward(places) {
		if !yield(s.number<<x.bits + int64(place)) {
			return false, nil
		}
	}
	return true, nil
}

func blockKey(slice int64, run, block int) int64 { return slice<<20 | int64(run)<<16 | int64(block) }

// sortedRun is one run of a slice, ready to be stored.
type sortedRun struct {
	fences []uint64
	blocks [][]byte
}

// makeRun sorts keys and their places into blocks.
func makeRun(keys []uint64, mask uint64) (run sortedRun) {
	type record struct {
		key   uint64
		place uint16
	}
	records := make([]record, 0, len(keys))
	for place, key := range keys {
		if key != 0 {
			records = append(records, record{key & mask, uint16(place)})
		}
	}
	slices.SortFunc(records, func(a, b record) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		return cmp.Compare(a.place, b.place)
	})
	for chunk := range slices.Chunk(records, blockRecords) {
		data := make([]byte, 0, len(chunk)*recordSize)
		for _, r := range chunk {
			data = binary.BigEndian.AppendUint64(data, r.key)
			data = binary.BigEndian.AppendUint16(data, r.place)
		}
		run.fences = append(run.fences, chunk[0].key)
		run.blocks = append(run.blocks, data)
	}
	return run
}

func encodeKeys(keys []uint64) []byte {
	b := make([]byte, 0, 8*len(keys))
	for _, k := range keys {
		b = binary.BigEndian.AppendUint64(b, k)
	}
	return b
}

func decodeKeys(b []byte) []uint64 {
	keys := make([]uint64, 0, len(b)/8)
	for ; len(b) >= 8; b = b[8:] {
		keys = append(keys, binary.BigEndian.Uint64(b))
	}
	return keys
}
