package checkvfs

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entry reads the checksum of a page; ok is false if it is unknown.
func (f *File) entry(page int64) (sum uint32, ok bool, err error) {
	f.sumsMu.RLock()
	i, found := slices.BinarySearchFunc(f.fresh, page, func(e entry, page int64) int { return cmp.Compare(e.page, page) })
	if found {
		sum = f.fresh[i].sum
	}
	cached := f.cache[(page-1)/chunk]
	f.sumsMu.RUnlock()
	if found {
		return sum, true, nil
	}
	if cached == nil {
		cached = f.load((page - 1) / chunk)
	}
	at := int((page - 1) % chunk * entrySize)
	if at+entrySize > len(cached) {
		return 0, false, nil // beyond the end: never written
	}
	if sum, ok, err = decodeEntry(cached[at:]); err != nil {
		err = &DamageError{Path: f.path + Suffix, What: fmt.Sprintf("the checksum of page %d", page)}
	}
	return sum, ok, err
}

// load reads a chunk of checksums. It caches the chunk unless other processes write checksums, so that reading a page takes no second read.
func (f *File) load(n int64) []byte {
	f.sumsMu.Lock()
	defer f.sumsMu.Unlock()
	b := make([]byte, chunk*entrySize)
	got, _ := f.sums.ReadAt(b, fileHeader+n*int64(len(b)))
	b = b[:got]
	if !f.shared {
		if f.cache == nil {
			f.cache = make(map[int64][]byte)
		}
		f.cache[n] = b
	}
	return b
}

func encodeEntry(sum uint32) []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, entrySize), sum)
	return binary.LittleEndian.AppendUint32(b, ^sum)
}

var errEntry = errors.New("a checksum and its inverse do not fit each other")

func decodeEntry(b []byte) (sum uint32, ok bool, err error) {
	sum, inverted := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	switch {
	case sum == 0 && inverted == 0:
		return 0, false, nil
	case sum != ^inverted:
		return 0, false, errEntry
	}
	return sum, true, nil
}
