package checkvfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// openLog checks the log that SQLite is about to recover.
func (f *File) openLog() error { return f.lookAgain(f.lookAtLog()) }

// lookAgain reads the mark and the log again after err. If another process may be writing to them, a single read may find a frame half
// written.
func (f *File) lookAgain(err error) error {
	for try := 1; err != nil && f.shared && try < verifyTries; try++ {
		time.Sleep(verifyPause)
		if err = f.loadMark(); err == nil {
			err = f.lookAtLog()
		}
	}
	return err
}

func (f *File) lookAtLog() error {
	l, err := readLog(f.path+logSuffix, f.mark, f.lax)
	if err == nil {
		err = f.checkLength(l)
	}
	f.clean = l == nil
	if err != nil || l == nil || f.shared {
		return err
	}
	f.log = make([]uint64, len(l.Frames))
	for i, fr := range l.Frames {
		f.log[i] = known | uint64(fr.Sum)
	}
	return nil
}

// checkLength detects a truncated database. Pages in the log need not be in the database yet.
func (f *File) checkLength(l *walfile.Log) error {
	info, err := f.sums.Stat()
	if err != nil {
		return err
	}
	have, want := int64(0), (info.Size()-fileHeader)/entrySize
	if info, err := os.Stat(f.path); err == nil {
		have = info.Size() / max(f.pageSize.Load(), 1)
	}
	if l != nil && l.Commits > 0 {
		want = min(want, l.Pages)
	}
	if have >= want {
		return nil
	}
	if have == 0 {
		return &DamageError{Path: f.path, What: fmt.Sprintf("it is missing or empty, and had %d pages", want)}
	}
	logged := make(map[int64]bool)
	if l != nil {
		for _, fr := range l.Frames {
			logged[int64(fr.Page)] = true
		}
	}
	for page := have + 1; page <= want; page++ {
		if _, ok, err := f.entry(page); !logged[page] && (ok || err != nil) {
			return &DamageError{Path: f.path, What: fmt.Sprintf("it ends before page %d of %d", page, want)}
		}
	}
	return nil
}

func readLog(path string, m walfile.Mark, lax bool) (*walfile.Log, error) {
	l, err := walfile.Read(path)
	if err == nil && l != nil && lax {
		l.Later = 0
	}
	if err == nil {
		err = walfile.Check(path, l, m)
	}
	return l, err
}

// pageSize reads a database's page size; 0: there is no database.
func pageSize(path string) (int64, error) {
	var head [18]byte
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	n, err := file.ReadAt(head[:], 0)
	switch {
	case n == 0:
		return 0, nil // the header is not written yet and may be in the log
	case n < len(head):
		return 0, &DamageError{Path: path, What: fmt.Sprintf("it has %d bytes (%v)", n, err)}
	}
	size := int64(binary.BigEndian.Uint16(head[16:]))
	if size == 1 {
		size = walfile.MaxPage
	}
	if string(head[:15]) != "SQLite format 3" || size < walfile.MinPage || size&(size-1) != 0 {
		return 0, &DamageError{Path: path, What: "it does not begin like a database"}
	}
	return size, nil
}
