package checkvfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"golang.org/x/sys/unix"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// frame returns the number of the frame whose page is at an offset of the log; ok is false if no page starts there.
func (f *File) frame(n int, offset int64) (i int, ok bool) {
	size := f.pageSize.Load()
	at, step := offset-logHeader-walfile.FrameHead, size+walfile.FrameHead
	if size == 0 || int64(n) != size || at < 0 || at%step != 0 {
		return 0, false
	}
	return int(at / step), true
}

// checkFrame compares a page read from the log with the checksum of what was written there.
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
	f.badFrame(i)
	return false
}

// checkCutOff reports damage if a page is read beyond the end of the log: SQLite reads pages only where it has written some.
func (f *File) checkCutOff(n int32, offset int64) bool {
	i, ok := f.frame(int(n), offset)
	if ok {
		f.report(&DamageError{Path: f.path + logSuffix, What: fmt.Sprintf("it ends before frame %d", i+1)})
	}
	return !ok
}

func (f *File) badFrame(i int) {
	f.report(&DamageError{Path: f.path + logSuffix, What: fmt.Sprintf("the page of frame %d is not what was written", i+1)})
}

// wroteLog records frame headers and pages that were written to the log.
func (f *File) wroteLog(b []byte, offset int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if offset == 0 && len(b) == logHeader {
		f.log, f.notes = f.log[:0], f.notes[:0] // a new generation
		f.logHeader = append(f.logHeader[:0], b...)
		return
	}
	if len(b) == walfile.FrameHead {
		f.head = walfile.Note{Page: binary.BigEndian.Uint32(b), Pages: binary.BigEndian.Uint32(b[4:])}
		return
	}
	i, ok := f.frame(len(b), offset)
	if !ok {
		return
	}
	f.head.Sum = crc32.Checksum(b, castagnoli)
	if i != f.first+len(f.notes) {
		f.first, f.notes = i, f.notes[:0]
	}
	f.notes = append(f.notes, f.head)
	if f.shared {
		return
	}
	for len(f.log) <= i {
		f.log = append(f.log, 0)
	}
	f.log[i] = known | uint64(f.head.Sum)
}

// writeNotes writes the notes of frames since the last sync, for repairs. It does not sync them.
func (f *File) writeNotes() error {
	n := min(len(f.notes), max(0, maxNotes-f.first))
	b := f.buf[:0]
	for _, note := range f.notes[:n] {
		b = binary.LittleEndian.AppendUint32(b, note.Page)
		b = binary.LittleEndian.AppendUint32(b, note.Pages)
		b = binary.LittleEndian.AppendUint32(b, note.Sum)
	}
	f.buf, f.notes = b[:0], f.notes[:0]
	if len(b) == 0 {
		return nil
	}
	return f.note.put(b, notesAt+f.first*frameNote)
}

func decodeNotes(b []byte) []walfile.Note {
	notes := make([]walfile.Note, len(b)/frameNote)
	for i := range notes {
		e := b[i*frameNote:]
		notes[i] = walfile.Note{Page: binary.LittleEndian.Uint32(e), Pages: binary.LittleEndian.Uint32(e[4:]), Sum: binary.LittleEndian.Uint32(e[8:])}
	}
	return notes
}

// logHead returns the log's header; nil: unknown, or another process may have restarted the log.
func (f *File) logHead() []byte {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.shared {
		return nil
	}
	return slices.Clone(f.logHeader)
}

// synced records that the log is on disk up to its last commit.
func (f *File) synced(header []byte, end int64) error {
	return f.changeMark(func(m *walfile.Mark) error {
		salts := walfile.Salts{binary.BigEndian.Uint32(header[16:]), binary.BigEndian.Uint32(header[20:])}
		if salts != m.Salts {
			if err := f.note.put(header, logHeadAt); err != nil {
				return err
			}
			*m = walfile.Mark{Salts: salts}
		}
		if end > m.Bytes {
			m.Bytes = end
			m.Commits++
		}
		m.Tally = f.tally
		return f.writeNotes()
	})
}

// Count sets the row counts that the database will have once the current transaction has committed. The log's next sync records them.
func (f *File) Count(t walfile.Tally) {
	f.mu.Lock()
	f.tally = t
	f.mu.Unlock()
}

// NoteCount records the database's current row counts.
func (f *File) NoteCount(t walfile.Tally) error {
	f.Count(t)
	return f.changeMark(func(m *walfile.Mark) error {
		m.Tally = t
		return nil
	})
}

// Counted returns the row counts that were recorded when the database was closed; false: it was not closed, or none were recorded.
func (f *File) Counted() (walfile.Tally, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.mark.Tally, f.clean && f.mark.Tally != walfile.Tally{}
}

// Log returns the current generation of the log.
func (f *File) Log() (walfile.Salts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shared {
		if err := f.loadMark(); err != nil {
			return walfile.Salts{}, err
		}
	}
	return f.mark.Salts, nil
}

// Copied records that the first frames of a log generation are in the database as well, synced. Meanwhile the next generation may have
// begun.
func (f *File) Copied(log walfile.Salts, frames int64) error {
	if frames <= 0 {
		return nil
	}
	bytes := logHeader + frames*(f.pageSize.Load()+walfile.FrameHead)
	return f.changeMark(func(m *walfile.Mark) error {
		if m.Salts == log {
			m.Copied = max(m.Copied, min(m.Bytes, bytes))
		}
		return nil
	})
}

// logCopied records on disk that the whole log is in the database.
func (f *File) logCopied() error {
	err := f.changeMark(func(m *walfile.Mark) error {
		m.Copied = m.Bytes
		return nil
	})
	if err != nil {
		return err
	}
	return f.syncMark()
}

func (f *File) logRemoved() error {
	return f.changeMark(func(m *walfile.Mark) error {
		f.log, f.logHeader = nil, nil
		*m = walfile.Mark{Tally: m.Tally}
		f.logID = identity{}
		return nil
	})
}

// changeMark changes the mark. It does not sync it: after a power cut an older mark covers less of the log, and that part is still checked.
func (f *File) changeMark(change func(*walfile.Mark) error) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shared {
		if err := unix.Flock(int(f.sums.Fd()), unix.LOCK_EX); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unix.Flock(int(f.sums.Fd()), unix.LOCK_UN)) }()
		if err := f.loadMark(); err != nil {
			return err
		}
	}
	m := f.mark
	if err := change(&m); err != nil || m == f.mark {
		return err
	}
	return f.putMark(m)
}
