package checkvfs

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
)

// belong fails if the database belongs to a store other than want.
func (f *File) belong(want ID) error {
	if want == (ID{}) {
		return nil
	}
	b := make([]byte, len(want)+4)
	if _, err := f.sums.ReadAt(b, storeAt); err != nil {
		return fmt.Errorf("read checksums: %w", err)
	}
	is := ID(b)
	switch {
	case is == ID{}:
		copy(b, want[:])
		binary.LittleEndian.PutUint32(b[len(want):], crc32.Checksum(want[:], castagnoli))
		_, err := f.sums.WriteAt(b, storeAt)
		return err
	case binary.LittleEndian.Uint32(b[len(want):]) != crc32.Checksum(is[:], castagnoli):
		return &DamageError{Path: f.path + Suffix, What: "the id of its store"}
	case is != want:
		return &ForeignError{Path: f.path, Store: is, Want: want}
	}
	return nil
}

// StoreOf returns the id of the store to which a database belongs; zero: none, or unknown.
func StoreOf(path string) (id ID) {
	b, err := readHead(path)
	if err != nil || binary.LittleEndian.Uint32(b[storeAt+len(id):]) != crc32.Checksum(b[storeAt:storeAt+len(id)], castagnoli) {
		return ID{}
	}
	return ID(b[storeAt:])
}

func readHead(path string) (b [lifeAt]byte, err error) {
	f, err := os.Open(path + Suffix)
	if err != nil {
		return b, err
	}
	defer f.Close()
	_, err = f.ReadAt(b[:], 0)
	return b, err
}
