package checkvfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// NoteSuffix is the suffix of the file with the note of a database's log.
const NoteSuffix = "-note"

// The note records how much of the log is on disk and the expected content of each of its frames. A system call at each commit would take
// microseconds, or wait for a sync of the same file, so the file is mapped into memory and never synced: it survives a kill, and a power
// cut leaves an older one or none. All its data is elsewhere, too: a missing note is created anew.
const (
	noteMagic = "GdwNote\x01"
	noteFile  = 1 << 20
	lifeSize  = 8  // after the magic: the id of the checksums to which the note belongs
	liveAt    = 64 // the mark
	logHeadAt = 128
	notesAt   = 4096 // of the frames
	frameNote = 12
	maxNotes  = (noteFile - notesAt) / frameNote // with pages of 4096 bytes this covers 358 MB, more than a log may have
)

// note is the mapped file.
type note struct {
	path string
	file *os.File
	mem  []byte
}

// openNote maps the note, replaces an unusable one, and loads the mark.
func (f *File) openNote() (err error) {
	head, err := f.readSums()
	if err != nil {
		return err
	}
	n := &f.note
	n.path = f.path + NoteSuffix
	if n.file, err = os.OpenFile(n.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("open note of the log: %w", err)
	}
	if !n.is(head) {
		if err := n.empty(head[lifeAt:][:lifeSize]); err != nil {
			return fmt.Errorf("write note of the log: %w", err)
		}
	}
	n.mem, err = unix.Mmap(int(n.file.Fd()), 0, noteFile, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map note of the log: %w", err)
	}
	_, first, _ := decodeMark(head[markAt:])
	if _, second, ok := decodeMark(head[markAt+markEvery:]); ok && second > first {
		f.copies = 1 // the next copy then replaces the older one
	}
	return f.loadMark()
}

// empty writes an empty note. It writes zeros rather than a hole, since mapped pages must have disk space. It writes page by page: the
// kernel may keep a larger write as one piece, which then stays in memory as a whole while one byte of it is used.
func (n *note) empty(life []byte) error {
	page := make([]byte, 4096)
	for at := int64(len(page)); at < noteFile; at += int64(len(page)) {
		if _, err := n.file.WriteAt(page, at); err != nil {
			return err
		}
	}
	copy(page, noteMagic)
	copy(page[len(noteMagic):], life)
	_, err := n.file.WriteAt(page, 0)
	return errors.Join(err, n.file.Truncate(noteFile))
}

// is reports whether the note belongs to the checksums with this header.
func (n *note) is(sums []byte) bool {
	if n.file == nil {
		return false
	}
	b := make([]byte, len(noteMagic)+lifeSize)
	_, err := n.file.ReadAt(b, 0)
	info, serr := n.file.Stat()
	return err == nil && serr == nil && info.Size() == noteFile && isNote(b, sums)
}

func isNote(note, sums []byte) bool {
	return string(note[:len(noteMagic)]) == noteMagic && string(note[len(noteMagic):][:lifeSize]) == string(sums[lifeAt:][:lifeSize])
}

func (n *note) close() (err error) {
	if n.mem != nil {
		err = unix.Munmap(n.mem)
		n.mem = nil
	}
	if n.file != nil {
		err = errors.Join(err, n.file.Close())
	}
	return err
}

func (f *File) release() error {
	err := f.note.close()
	if f.sums != nil {
		err = errors.Join(err, f.sums.Close())
	}
	return err
}

// put writes to the note. If the file was truncated by others, or the disk is too full for its pages, writing to the mapped memory faults;
// put returns that as an error.
func (n *note) put(b []byte, at int) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case interface {
			error
			Addr() uintptr
		}:
			err = fmt.Errorf("write to %s: %w", n.path, fault)
		default:
			panic(fault)
		}
	}()
	copy(n.mem[at:noteFile], b)
	return nil
}

const (
	markSize  = 8 + 8 + 8 + 8 + 8 + 8 + 8 + 4
	markEvery = 512 // distance in bytes between the two copies beside the checksums
)

// readNote reads the note of the checksums file whose header is sums; it returns zeros if that has none.
func readNote(path string, sums []byte) ([]byte, error) {
	b, err := os.ReadFile(path + NoteSuffix)
	if errors.Is(err, os.ErrNotExist) || err == nil && (len(b) != noteFile || !isNote(b, sums)) {
		return make([]byte, noteFile), nil
	}
	return b, err
}

// putMark changes the mark.
func (f *File) putMark(m walfile.Mark) error {
	var b [markSize]byte
	encodeMark(b[:], m, f.turn+1)
	if err := f.note.put(b[:], liveAt); err != nil {
		return err
	}
	f.mark = m
	f.turn++
	return nil
}

// syncMark syncs the checksums, and with them a copy of the mark.
func (f *File) syncMark() error {
	var b [markSize]byte
	f.mu.RLock()
	encodeMark(b[:], f.mark, f.turn)
	f.mu.RUnlock()
	f.sumsMu.Lock()
	f.copies++
	at := int64(markAt + f.copies%2*markEvery)
	_, err := f.sums.WriteAt(b[:], at)
	f.sumsMu.Unlock()
	if err != nil {
		return err
	}
	return f.sums.Sync()
}

// readSums reads the beginning of the checksums file.
func (f *File) readSums() ([]byte, error) {
	head := make([]byte, markAt+markEvery+markSize)
	_, err := f.sums.ReadAt(head, 0)
	if err == nil && string(head[:len(fileMagic)]) != fileMagic {
		err = errors.New("it does not begin like checksums")
	}
	if info, serr := f.sums.Stat(); err == nil && serr == nil && info.Size() < fileHeader {
		err = fmt.Errorf("it was cut off at %d bytes", info.Size())
	}
	if err != nil {
		return nil, &DamageError{Path: f.path + Suffix, What: err.Error()}
	}
	return head, nil
}

// loadMark reads the mark, which other processes may have changed.
func (f *File) loadMark() error {
	head, err := f.readSums()
	if err != nil {
		return err
	}
	var live []byte
	if f.note.is(head) {
		live = make([]byte, markSize)
		if _, err := f.note.file.ReadAt(live, liveAt); err != nil {
			return err
		}
	}
	if f.mark, f.turn, err = newestMark(head[markAt:], live); err != nil {
		return &DamageError{Path: f.path + Suffix, What: err.Error()}
	}
	return nil
}

var errMark = errors.New("the note of how much of the log is on disk")

// newestMark returns the newest intact mark: a power cut may have left one of the copies half written, and a kill the live one.
func newestMark(copies, live []byte) (m walfile.Mark, turn uint64, err error) {
	err = errMark
	for _, b := range [][]byte{copies, copies[markEvery:], live} {
		if len(b) < markSize {
			continue
		}
		if m2, turn2, ok := decodeMark(b); ok && (err != nil || turn2 >= turn) {
			m, turn, err = m2, turn2, nil
		}
	}
	return m, turn, err
}

func encodeMark(b []byte, m walfile.Mark, turn uint64) {
	binary.LittleEndian.PutUint32(b, m.Salts[0])
	binary.LittleEndian.PutUint32(b[4:], m.Salts[1])
	binary.LittleEndian.PutUint64(b[8:], uint64(m.Bytes))
	binary.LittleEndian.PutUint64(b[16:], uint64(m.Copied))
	binary.LittleEndian.PutUint64(b[24:], uint64(m.Commits))
	binary.LittleEndian.PutUint64(b[32:], turn)
	binary.LittleEndian.PutUint64(b[40:], uint64(m.Tally.Stored))
	binary.LittleEndian.PutUint64(b[48:], uint64(m.Tally.Open))
	binary.LittleEndian.PutUint32(b[56:], crc32.Checksum(b[:56], castagnoli))
}

func decodeMark(b []byte) (m walfile.Mark, turn uint64, ok bool) {
	if binary.LittleEndian.Uint32(b[56:]) != crc32.Checksum(b[:56], castagnoli) {
		return m, 0, false
	}
	m.Salts = walfile.Salts{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])}
	m.Bytes = int64(binary.LittleEndian.Uint64(b[8:]))
	m.Copied = int64(binary.LittleEndian.Uint64(b[16:]))
	m.Commits = int64(binary.LittleEndian.Uint64(b[24:]))
	m.Tally.Stored = int64(binary.LittleEndian.Uint64(b[40:]))
	m.Tally.Open = int64(binary.LittleEndian.Uint64(b[48:]))
	return m, binary.LittleEndian.Uint64(b[32:]), true
}
