package checkvfs

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// Kept is the readable content of the checksums' file, for repairs.
type Kept struct {
	Store     ID
	Mark      walfile.Mark
	LogHeader []byte
	Notes     []walfile.Note
	FirstPage []byte
	Sums      []uint32 // by page number less one
	Known     []bool   // of Sums
	Broken    []string // what cannot be read
}

// Sum is a page's checksum.
func (k *Kept) Sum(page int64) (sum uint32, ok bool) {
	if page < 1 || page > int64(len(k.Sums)) {
		return 0, false
	}
	return k.Sums[page-1], k.Known[page-1]
}

// ReadKept reads the checksums of the database at path, if there are any.
func ReadKept(path string, pageSize int) (*Kept, error) {
	k := &Kept{}
	b, err := os.ReadFile(path + Suffix)
	if errors.Is(err, fs.ErrNotExist) {
		k.Broken = append(k.Broken, "there are no checksums")
		return k, nil
	}
	if err != nil {
		return nil, err
	}
	if len(b) < fileHeader || string(b[:len(fileMagic)]) != fileMagic {
		k.Broken = append(k.Broken, "the checksums have no header")
	}
	if len(b) < fileHeader {
		return k, nil
	}
	note, err := readNote(path, b)
	if err != nil {
		return nil, err
	}
	if k.Mark, _, err = newestMark(b[markAt:], note[liveAt:]); err != nil {
		k.Broken = append(k.Broken, err.Error())
	}
	k.Store = StoreOf(path)
	k.LogHeader = note[logHeadAt:][:logHeader]
	k.Notes = decodeNotes(note[notesAt:])
	k.FirstPage = b[firstPageAt : firstPageAt+pageSize]
	for e := b[fileHeader:]; len(e) >= entrySize; e = e[entrySize:] {
		sum, ok, err := decodeEntry(e)
		if err != nil {
			k.Broken = append(k.Broken, fmt.Sprintf("the checksum of page %d", len(k.Sums)+1))
		}
		k.Sums, k.Known = append(k.Sums, sum), append(k.Known, ok)
	}
	return k, nil
}

// Is reports whether a page matches its checksum, or its checksum is unknown.
func (k *Kept) Is(page int64, b []byte) bool {
	sum, ok := k.Sum(page)
	return !ok || crc32.Checksum(b, castagnoli) == sum
}

// Poison stores a wrong checksum for a page, so that its remains are never taken for data.
func Poison(path string, page int64, b []byte) error {
	f, err := os.OpenFile(path+Suffix, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(encodeEntry(crc32.Checksum(b, castagnoli)^1), fileHeader+(page-1)*entrySize)
	return err
}
