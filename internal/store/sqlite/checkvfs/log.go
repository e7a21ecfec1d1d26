package checkvfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// frame finds which frame's page lies at an offset of the log; ok is false for whatever is no page.
func (f *File) frame(n int, offset int64) (i int, ok bool) {
	size := f.pageSize.Load()
	at, step := offset-logHeader-walfile.FrameHead, size+walfile.FrameHead
	if size == 0 || int64(n) != size || at < 0 || at%step != 0 {
		return 0, false
	}
	return int(at / step), true
}

// checkFrame compares a page that was read from the log with what was written there.
func (f *File) checkFrame(b []byte, offset int64) bool {
	i, ok := f.frame(len(b), offset)
	if !ok {
		return true
	}
	f.mu.RLock()
	sum := uint64(0)
	if i < len(f.log) {
		sum = f.log[i]
	}
	f.mu.RUnlock()
	if sum == 0 || sum == known|uint64(crc32.Checksum(b, castagnoli)) {
		return true
	}
	f.report(&DamageError{Path: f.path + logSuffix, What: fmt.Sprintf("the page of frame %d is not what was written", i+1)})
	return false
}

// wroteLog notes what was written to the log.
func (f *File) wroteLog(b []byte, offset int64) {
	if offset == 0 && len(b) == logHeader {
		f.mu.Lock()
		f.log = f.log[:0] // a new generation
		f.mu.Unlock()
		return
	}
	i, ok := f.frame(len(b), offset)
	if !ok || f.shared {
		return
	}
	sum := known | uint64(crc32.Checksum(b, castagnoli))
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.log) <= i {
		f.log = append(f.log, 0)
	}
	f.log[i] = sum
}

// synced notes that the log is on disk up to its last commit.
func (f *File) synced(header []byte, end int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shared {
		if err := f.loadMark(); err != nil {
			return err
		}
	}
	salts := walfile.Salts{binary.BigEndian.Uint32(header[16:]), binary.BigEndian.Uint32(header[20:])}
	if salts != f.mark.Salts {
		f.mark = walfile.Mark{Salts: salts}
	}
	f.mark.Bytes = end
	f.mark.Commits++
	return f.writeMark()
}

// Copied notes that so many frames of the log are in the database as well, synced.
func (f *File) Copied(frames int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shared {
		if err := f.loadMark(); err != nil {
			return err
		}
	}
	size := f.pageSize.Load()
	bytes := min(f.mark.Bytes, logHeader+frames*(size+walfile.FrameHead))
	if frames <= 0 || bytes == f.mark.Copied {
		return nil
	}
	f.mark.Copied = bytes
	return f.writeMark()
}

func (f *File) logRemoved() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = nil
	f.mark = walfile.Mark{}
	return f.writeMark()
}

// writeMark writes the note. It is not synced: after a power cut an older one says less, which is checked all the same.
func (f *File) writeMark() error {
	var b [markSize]byte
	encodeMark(b[:], f.mark)
	_, err := f.sums.WriteAt(b[:], markAt)
	return err
}

func encodeMark(b []byte, m walfile.Mark) {
	binary.LittleEndian.PutUint32(b, m.Salts[0])
	binary.LittleEndian.PutUint32(b[4:], m.Salts[1])
	binary.LittleEndian.PutUint64(b[8:], uint64(m.Bytes))
	binary.LittleEndian.PutUint64(b[16:], uint64(m.Copied))
	binary.LittleEndian.PutUint64(b[24:], uint64(m.Commits))
	binary.LittleEndian.PutUint32(b[32:], crc32.Checksum(b[:32], castagnoli))
}

var errMark = errors.New("the note of how much of the log is on disk")

func decodeMark(b []byte) (m walfile.Mark, err error) {
	if binary.LittleEndian.Uint32(b[32:]) != crc32.Checksum(b[:32], castagnoli) {
		return m, errMark
	}
	m.Salts = walfile.Salts{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])}
	m.Bytes = int64(binary.LittleEndian.Uint64(b[8:]))
	m.Copied = int64(binary.LittleEndian.Uint64(b[16:]))
	m.Commits = int64(binary.LittleEndian.Uint64(b[24:]))
	return m, nil
}
