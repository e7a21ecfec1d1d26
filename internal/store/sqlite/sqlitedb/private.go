package sqlitedb

import (
	"errors"
	"io/fs"
	"os"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
)

// makePrivate creates a database file that only its owner may read, before SQLite would create it; SQLite gives the log files the same
// mode. An existing file becomes private, whatever access its folder gives others.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm", checkvfs.Suffix, checkvfs.NoteSuffix} {
		if err := os.Chmod(path+suffix, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
