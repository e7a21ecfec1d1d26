package checkvfs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// identity distinguishes a file from another file of the same name.
type identity struct{ dev, ino uint64 }

func identify(info os.FileInfo) identity {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}
	}
	return identity{uint64(st.Dev), st.Ino} // Dev has other types on other systems
}

// opened records the identity of the file that SQLite has just opened.
func (f *File) opened(log bool) {
	name, id := f.path, &f.dbID
	if log {
		name, id = f.path+logSuffix, &f.logID
	}
	info, err := os.Stat(name)
	if err != nil {
		return // the file was removed just now, which Gone reports
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if *id == (identity{}) {
		*id = identify(info)
	}
}

// Gone returns an error that names a file in use that was removed, replaced or truncated; nil: none.
func (f *File) Gone() error {
	f.mu.RLock()
	dbID, logID, mark := f.dbID, f.logID, f.mark
	f.mu.RUnlock()
	sums, err := f.sums.Stat()
	if err != nil {
		return err
	}
	note, err := f.note.file.Stat()
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name  string
		id    identity
		least int64
	}{
		{f.path, dbID, 1},
		{f.path + logSuffix, logID, mark.Bytes},
		{f.path + Suffix, identify(sums), fileHeader},
		{f.path + NoteSuffix, identify(note), noteFile},
	} {
		if file.id == (identity{}) {
			continue
		}
		info, err := os.Stat(file.name)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return &DamageError{Path: file.name, What: "it was removed while it was in use"}
		case err != nil:
			return err
		case identify(info) != file.id:
			return &DamageError{Path: file.name, What: "another file was put in its place while it was in use"}
		case info.Size() < file.least && !f.shared:
			return &DamageError{Path: file.name, What: fmt.Sprintf("it was cut off at %d bytes while it was in use", info.Size())}
		}
	}
	return nil
}
