package sqlitedb_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// row is an op that inserts a row, and may do something else meanwhile.
type row struct {
	during func()
	done   chan error
}

func newRow(during func()) *row { return &row{during: during, done: make(chan error, 1)} }

func (r *row) Apply(c *sqlite.Conn) error {
	if r.during != nil {
		r.during()
	}
	return insert("x")(c)
}
func (r *row) Done(err error)          { r.done <- err }
func (r *row) Size() (rows, bytes int) { return 1, 10 }

// noted opens a database that notes of each commit whether a caller made it.
func noted(t *testing.T) (db *sqlitedb.DB, here *[]bool) {
	here = new([]bool)
	db = open(t, filepath.Join(t.TempDir(), "x.db"), sqlitedb.Options{Hooks: sqlitedb.Hooks{Committed: func(ops []sqlitedb.Op, h bool) {
		*here = append(*here, h)
		for _, op := range ops {
			op.Done(nil)
		}
	}}})
	return db, here
}

func TestWhoWaitsCommitsItselfIfNobodyElseDoes(t *testing.T) {
	db, here := noted(t)
	op := newRow(nil)
	db.Enqueue("demo", op)
	if len(op.done) != 0 {
		t.Fatal("an op was done before anybody was told of it")
	}
	if !db.CommitHere() || len(op.done) != 1 {
		t.Fatal("the caller has not committed its op")
	}
	if n := count(t, db); n != 1 || len(*here) != 1 || !(*here)[0] {
		t.Errorf("%d rows, commits by callers %v, want one of each", n, *here)
	}
	if db.CommitHere() {
		t.Error("a caller has committed nothing")
	}
}

func TestWhoFindsTheWriterAtWorkLeavesTheCommitToIt(t *testing.T) {
	db, here := noted(t)
	began, release := make(chan struct{}), make(chan struct{})
	first, second := newRow(func() { close(began); <-release }), newRow(nil)
	db.Submit("demo", first)
	<-began
	db.Enqueue("demo", second)
	if db.CommitHere() {
		t.Fatal("two have committed at a time")
	}
	close(release)
	if err := errors.Join(<-first.done, <-second.done); err != nil {
		t.Fatal(err)
	}
	if len(*here) != 2 || (*here)[0] || (*here)[1] {
		t.Errorf("commits by callers: %v, want two by the writer", *here)
	}
}

func TestACallerCommitsForOthersOnce(t *testing.T) {
	db, here := noted(t)
	later := newRow(nil)
	before, own := newRow(nil), newRow(func() { db.Submit("demo", later) }) // which finds that somebody commits
	db.Enqueue("demo", before)
	db.Enqueue("demo", own)
	if !db.CommitHere() || len(before.done) != 1 || len(own.done) != 1 {
		t.Fatal("the caller has not committed what was queued before its op, and that")
	}
	if err := <-later.done; err != nil { // by the writer
		t.Fatal(err)
	}
	if len(*here) != 2 || !(*here)[0] || (*here)[1] {
		t.Errorf("commits by callers: %v, want the first alone", *here)
	}
}

func TestNobodyCommitsOnceTheDatabaseIsClosed(t *testing.T) {
	db, here := noted(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	op := newRow(nil)
	db.Enqueue("demo", op)
	if db.CommitHere() || !errors.Is(<-op.done, sqlitedb.ErrClosed) || len(*here) != 0 {
		t.Error("an op was not refused by a closed database")
	}
}

// TestAPanicWithinACommitEndsTheProcess has a caller commit that survives panics, as handlers of requests do.
func TestAPanicWithinACommitEndsTheProcess(t *testing.T) {
	const path = "GODWIT_PANICKING_DB"
	if p := os.Getenv(path); p != "" {
		defer func() { _ = recover() }()
		db := open(t, p, sqlitedb.Options{})
		db.Enqueue("demo", newRow(func() { panic("of all things") }))
		db.CommitHere()
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$") //nolint:gosec // itself
	cmd.Env = append(os.Environ(), path+"="+filepath.Join(t.TempDir(), "x.db"))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "of all things") {
		t.Errorf("the process ended with %v and said:\n%s", err, out)
	}
}
