package mailboxdb

// tail indexes the rows of one slice in memory until it is sealed: the id and recipient of each row, in chains by both. It takes 16 bytes a
// row.
type tail struct {
	number int64 // number of the slice: pos >> sliceBits
	bits   uint
	n      int      // places used, gaps included
	keys   []uint64 // id hash << 32 | recipient key; 0: no row
	next   []uint32 // the chain of a bucket, newest first; values are place + 1
	heads  []uint32

	outcomes    [][]outcome // outcomes of copies, by stretch; nil: none has ended
	settlements int64       // settlements with lower keys are of this slice and earlier ones; 0: not known yet
}

func newTail(number int64, bits uint) *tail {
	size := 1 << bits
	return &tail{number: number, bits: bits, keys: make([]uint64, size), next: make([]uint32, size), heads: make([]uint32, size)}
}

func (t *tail) bucket(key uint64) uint64 {
	return (key * 0x9E3779B97F4A7C15) >> (64 - t.bits)
}

// add indexes a row. Positions must be in ascending order.
func (t *tail) add(pos int64, key uint64) {
	place := int(pos & (1<<t.bits - 1))
	b := t.bucket(key)
	t.keys[place], t.next[place] = key, t.heads[b]
	t.heads[b] = uint32(place + 1)
	t.n = place + 1
}

// cut removes the rows from pos on.
func (t *tail) cut(pos int64) {
	from := max(0, int(pos-t.number<<t.bits))
	for place := t.n - 1; place >= from; place-- {
		if key := t.keys[place]; key != 0 {
			t.heads[t.bucket(key)] = t.next[place]
			t.keys[place] = 0
		}
	}
	if from < t.n { // no write where n stays the same: the sealer reads n of older tails
		t.n = from
	}
}

func (t *tail) pos(place int) int64 { return t.number<<t.bits + int64(place) }

// find calls yield with the positions of the rows with this key, newest first, until yield returns false.
func (t *tail) find(key uint64, yield func(pos int64) bool) bool {
	for p := t.heads[t.bucket(key)]; p != 0; p = t.next[p-1] {
		if t.keys[p-1] == key && !yield(t.pos(int(p-1))) {
			return false
		}
	}
	return true
}

// scan calls yield with the positions of the rows whose key matches under mask, newest first.
func (t *tail) scan(mask, key uint64, yield func(pos int64) bool) bool {
	for place := t.n - 1; place >= 0; place-- {
		if k := t.keys[place]; k != 0 && k&mask == key && !yield(t.pos(place)) {
			return false
		}
	}
	return true
}

const (
	idMask        = uint64(0xFFFFFFFF) << 32
	recipientMask = uint64(0xFFFFFFFF)
)

func indexKey(idHash, recipient uint32) uint64 { return uint64(idHash)<<32 | uint64(recipient) }
