package sqlitedb_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// A function that fails after changing more pages than the cache holds is rolled back to a savepoint. If pages had spilled into the log
// before, SQLite writes the following commit in a form that its recovery ignores.
func TestNothingIsLostAfterALargeFunctionFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db := open(t, path, sqlitedb.Options{})
	release := holdLog(t, db)
	defer release()
	put := func(v string) {
		t.Helper()
		if err := db.Do(t.Context(), insert(v)); err != nil {
			t.Fatal(err)
		}
	}
	put("before")
	failed, long := errors.New("no"), strings.Repeat("x", 4000)
	err := db.Do(t.Context(), func(c *sqlite.Conn) error {
		for range 2000 { // eight times the cache
			if err := insert(long)(c); err != nil {
				return err
			}
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	put("after")
	if n := count(t, open(t, crash(t, path), sqlitedb.Options{})); n != 2 {
		t.Errorf("%d rows after a crash, want 2", n)
	}
}

// holdLog prevents copying the log into the file until release is called.
func holdLog(t *testing.T, db *sqlitedb.DB) (release func()) {
	t.Helper()
	held, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		err := db.Read(context.Background(), func(c *sqlite.Conn) error {
			defer func() { close(held); <-end }()
			return sqlitedb.EachOnce(c, "SELECT 1 FROM t", nil, func(*sqlite.Stmt) error { return nil }) // takes a snapshot
		})
		if err != nil {
			t.Error(err)
		}
	}()
	<-held
	return func() { close(end); <-done }
}

// crash copies the current files, as if the process had been killed, and returns the path of the copy.
func crash(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}
