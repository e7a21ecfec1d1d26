package sqlitedb_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

func TestSmallLogIsCopiedEverySecondLargeAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	synctest.Test(t, func(t *testing.T) {
		db := open(t, path, sqlitedb.Options{})
		write := func(bytes int) {
			t.Helper()
			big := &sized{bytes: bytes, done: make(chan error, 1)}
			if db.Submit("", big); <-big.done != nil {
				t.Fatal("it was not written")
			}
		}
		write(1)
		time.Sleep(600 * time.Millisecond)
		synctest.Wait()
		if db.Uncopied() == 0 {
			t.Error("a little was copied within 600 ms")
		}
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if n := db.Uncopied(); n > 0 {
			t.Errorf("%d bytes were not copied within 1.5 s", n)
		}
		write(2 << 20)
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		if n := db.Uncopied(); n > 0 {
			t.Errorf("%d bytes were not copied within 300 ms", n)
		}
	})
}

// sized is an op that reports a given size in bytes.
type sized struct {
	bytes int
	done  chan error
}

func (o *sized) Apply(c *sqlite.Conn) error {
	return sqlitex.Execute(c, "INSERT INTO t(v) VALUES (?)", &sqlitex.ExecOptions{Args: []any{strings.Repeat("x", 10)}})
}
func (o *sized) Done(err error)          { o.done <- err }
func (o *sized) Size() (rows, bytes int) { return 1, o.bytes }
