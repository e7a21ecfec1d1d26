package sqlitedb

import (
	"errors"
	"io/fs"
	"os"
)

// CreatePrivate makes a file that only its owner may read before SQLite does, whose log files then get the same mode.
// One that is there already becomes private.
func CreatePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.Chmod(path, 0o600)
	}
	if err != nil {
		return err
	}
	return f.Close()
}
