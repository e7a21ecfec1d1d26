package sqlitedb

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"
)

// lookWithin limits the wait for a server that changes the file.
const lookWithin = 5 * time.Second

// Look calls f with a connection that only reads, to a file that a server may have open in another process. It changes nothing, not even a file of
// an earlier version. Without a file it does not call f.
func Look(path string, f func(*sqlite.Conn) error) (err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	file := url.URL{Scheme: "file", OmitHost: true, Path: full, RawQuery: "mode=ro"}
	conn, err := sqlite.OpenConn(file.String(), sqlite.OpenReadOnly, sqlite.OpenURI)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	conn.SetBusyTimeout(lookWithin)
	return f(conn)
}
