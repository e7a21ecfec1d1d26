package checkvfs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/faultvfs"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

func TestACommitReachesItsLogInOneWrite(t *testing.T) {
	faults := faultvfs.New(t)
	path := filepath.Join(t.TempDir(), "a.db")
	v, err := checkvfs.On(faults.Name())
	if err != nil {
		t.Fatal(err)
	}
	c := watched(t, path, v)
	run(t, c, "INSERT INTO n VALUES (1, 'first'); PRAGMA wal_checkpoint(RESTART)")
	run(t, c, "INSERT INTO n VALUES (2, 'begins the log anew')")
	for i := range 5 {
		writes, syncs := faults.Writes(), faults.Syncs()
		run(t, c, fmt.Sprintf("INSERT INTO n VALUES (%d, '%s')", 10+i, body(i)))
		if w, s := faults.Writes()-writes, faults.Syncs()-syncs; w != 1 || s != 1 {
			t.Errorf("commit %d made %d writes and %d syncs, want one of each", i, w, s)
		}
	}
}

func TestACommitThatCannotBeWrittenIsRolledBack(t *testing.T) {
	faults := faultvfs.New(t)
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{VFS: faults.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert(t, db, 0, 100)
	db.CopyLog() // leaves nothing for the checkpointer to write
	faults.FailWrites(true)
	if err := db.Do(t.Context(), func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, "INSERT INTO n VALUES (5000, 'x')", nil)
	}); sqlite.ErrCode(err) != sqlite.ResultIOErrWrite {
		t.Errorf("the commit ends with %v", err)
	}
	faults.FailWrites(false)
	insert(t, db, 100, 200)
	if n, err := read(t, db); n != 200 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	again, err := open(t, crash(t, path), sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n, err := read(t, again); n != 200 || err != nil {
		t.Errorf("after a kill %d rows, %v", n, err)
	}
}

// A connection with a small cache writes frames before it commits, reads them again, and replaces some of them; every second transaction
// fits into the cache. Without syncs only the end of a commit flushes the gathered bytes.
func TestATransactionIsWholeInTheLogWhetherItSpillsOrNot(t *testing.T) {
	vfs, err := checkvfs.On("")
	if err != nil {
		t.Fatal(err)
	}
	for _, synchronous := range []string{"normal", "full"} {
		path := filepath.Join(t.TempDir(), "a.db")
		c := watched(t, path, vfs)
		run(t, c, "PRAGMA cache_size=5; PRAGMA cache_spill=5; PRAGMA synchronous="+synchronous)
		rnd := rand.New(rand.NewPCG(1, 2))
		want := make(map[int]string)
		for commit := range 20 {
			run(t, c, "BEGIN IMMEDIATE")
			for range 1 + 50*(commit%2) {
				id, text := rnd.IntN(200), fmt.Sprintf("%0*d", 1+rnd.IntN(3000), commit)
				want[id] = text
				if err := sqlitex.Execute(c, "INSERT OR REPLACE INTO n VALUES (?, ?)", &sqlitex.ExecOptions{Args: []any{id, text}}); err != nil {
					t.Fatal(err)
				}
			}
			run(t, c, "COMMIT")
			same(t, crash(t, path), want)
		}
	}
}

// watched opens a database with a table, watched by checkvfs, on a connection with SQLite's own settings.
func watched(t *testing.T, path, vfs string) *sqlite.Conn {
	t.Helper()
	f, err := checkvfs.Open(path, checkvfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn("file:"+path+"?vfs="+vfs, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenURI, sqlite.OpenWAL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), f.Close()); err != nil {
			t.Error(err)
		}
	})
	run(t, c, "PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=full; "+schema[0])
	return c
}

func run(t *testing.T, c *sqlite.Conn, script string) {
	t.Helper()
	for statement := range strings.SplitSeq(script, ";") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if err := sqlitex.ExecuteTransient(c, statement, nil); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// same fails the test unless the table has exactly these rows and the database is whole.
func same(t *testing.T, path string, want map[int]string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n := 0
	err = sqlitex.Execute(c, "SELECT id, body FROM n", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		if id := s.ColumnInt(0); s.ColumnText(1) != want[id] {
			t.Errorf("row %d is another one", id)
		}
		n++
		return nil
	}})
	if err != nil || n != len(want) {
		t.Errorf("%d rows of %d, %v", n, len(want), err)
	}
	if err := sqlitex.Execute(c, "PRAGMA integrity_check", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		if said := s.ColumnText(0); said != "ok" {
			t.Error(said)
		}
		return nil
	}}); err != nil {
		t.Error(err)
	}
}
