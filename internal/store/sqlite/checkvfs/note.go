package checkvfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// mapHeader maps the header of the checksums into memory.
func (f *File) mapHeader() error {
	info, err := f.sums.Stat()
	if err == nil && info.Size() < fileHeader {
		return &DamageError{Path: f.path + Suffix, What: fmt.Sprintf("it has %d bytes, which is not even its header", info.Size())}
	}
	if err == nil {
		f.header, err = unix.Mmap(int(f.sums.Fd()), 0, fileHeader, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return fmt.Errorf("map checksums: %w", err)
	}
	return nil
}

func (f *File) release() (err error) {
	if f.header != nil {
		err = unix.Munmap(f.header)
		f.header = nil
	}
	if f.sums != nil {
		err = errors.Join(err, f.sums.Close())
	}
	return err
}

// put writes to the header. Each commit does, and a system call would cost it microseconds, or wait for a sync of the
// checksums that is under way; memory that is the file does neither. Where the file was cut off under us, or has no place on a
// full disk, the memory cannot be written: that is an error like any other.
func (f *File) put(b []byte, at int) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case interface {
			error
			Addr() uintptr
		}:
			err = fmt.Errorf("write to %s: %w", f.path+Suffix, fault)
		default:
			panic(fault)
		}
	}()
	copy(f.header[at:fileHeader], b)
	return nil
}

// keepFirst keeps a copy of the first page.
func (f *File) keepFirst(page []byte) error {
	if f.header == nil { // the checksums are just being made
		_, err := f.sums.WriteAt(page, firstPageAt)
		return err
	}
	return f.put(page, firstPageAt)
}

// The mark is written in turn to two places: one that was half written when the power failed leaves the one before it, which
// says less, and that is checked all the same.
const (
	markSize  = 8 + 8 + 8 + 8 + 8 + 4
	markEvery = 512
)

func (f *File) putMark(m walfile.Mark) error {
	var b [markSize]byte
	encodeMark(b[:], m, f.turn+1)
	if err := f.put(b[:], markAt+int((f.turn+1)%2)*markEvery); err != nil {
		return err
	}
	f.mark = m
	f.turn++
	return nil
}

// loadMark reads the mark, which other processes may have changed.
func (f *File) loadMark() error {
	head := make([]byte, markAt+markEvery+markSize)
	_, err := f.sums.ReadAt(head, 0)
	if err == nil && string(head[:len(fileMagic)]) != fileMagic {
		err = errors.New("it does not begin like checksums")
	}
	if err == nil {
		f.mark, f.turn, err = decodeMarks(head[markAt:])
	}
	if err != nil {
		return &DamageError{Path: f.path + Suffix, What: err.Error()}
	}
	return nil
}

func encodeMark(b []byte, m walfile.Mark, turn uint64) {
	binary.LittleEndian.PutUint32(b, m.Salts[0])
	binary.LittleEndian.PutUint32(b[4:], m.Salts[1])
	binary.LittleEndian.PutUint64(b[8:], uint64(m.Bytes))
	binary.LittleEndian.PutUint64(b[16:], uint64(m.Copied))
	binary.LittleEndian.PutUint64(b[24:], uint64(m.Commits))
	binary.LittleEndian.PutUint64(b[32:], turn)
	binary.LittleEndian.PutUint32(b[40:], crc32.Checksum(b[:40], castagnoli))
}

func decodeMark(b []byte) (m walfile.Mark, turn uint64, ok bool) {
	if binary.LittleEndian.Uint32(b[40:]) != crc32.Checksum(b[:40], castagnoli) {
		return m, 0, false
	}
	m.Salts = walfile.Salts{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])}
	m.Bytes = int64(binary.LittleEndian.Uint64(b[8:]))
	m.Copied = int64(binary.LittleEndian.Uint64(b[16:]))
	m.Commits = int64(binary.LittleEndian.Uint64(b[24:]))
	return m, binary.LittleEndian.Uint64(b[32:]), true
}

var errMark = errors.New("the note of how much of the log is on disk")

// decodeMarks takes the newer of the two that is whole.
func decodeMarks(b []byte) (m walfile.Mark, turn uint64, err error) {
	m, turn, ok := decodeMark(b)
	if m2, turn2, ok2 := decodeMark(b[markEvery:]); ok2 && (!ok || turn2 > turn) {
		return m2, turn2, nil
	}
	if !ok {
		return m, 0, errMark
	}
	return m, turn, nil
}
