package sqlitedb_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// row is an op that inserts a row. It may call a function during Apply, and another one once that is committed.
type row struct {
	during, after func()
	rows          int  // that it counts as
	here          bool // a caller has committed it
	done          chan error
}

func newRow() *row { return &row{rows: 1, done: make(chan error, 1)} }

func (r *row) Apply(c *sqlite.Conn) error {
	if r.during != nil {
		r.during()
	}
	return insert("x")(c)
}
func (r *row) Done(err error)          { r.done <- err }
func (r *row) Size() (rows, bytes int) { return r.rows, 10 }

// ofRows opens a database whose ops are rows.
func ofRows(t *testing.T) *sqlitedb.DB {
	return open(t, filepath.Join(t.TempDir(), "x.db"), sqlitedb.Options{Hooks: sqlitedb.Hooks{Committed: func(ops []sqlitedb.Op, here bool) {
		for _, op := range ops {
			r := op.(*row)
			r.here = here
			if r.after != nil {
				r.after()
			}
			r.Done(nil)
		}
	}}})
}

// committing queues the ops and commits them as a caller. It tries again with new ops whenever the writer was faster.
func committing(t *testing.T, db *sqlitedb.DB, ops func() []*row) []*row {
	t.Helper()
	for {
		all := ops()
		for _, op := range all {
			db.Enqueue("demo", op)
		}
		if db.CommitHere() {
			return all
		}
		for _, op := range all {
			if err := <-op.done; err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestWaiterCommitsIfNobodyElseDoes(t *testing.T) {
	db := ofRows(t)
	before := 0
	op := committing(t, db, func() []*row {
		before = count(t, db)
		return []*row{newRow()}
	})[0]
	if len(op.done) != 1 || !op.here {
		t.Fatal("the caller has not committed its op")
	}
	if n := count(t, db) - before; n != 1 {
		t.Errorf("%d rows, want one", n)
	}
	if db.CommitHere() {
		t.Error("a caller has committed nothing")
	}
}

// TestOpThatFindsNoRoomInItsCallersCommitIsCommittedNext fills a commit before each op that its caller would commit.
func TestOpThatFindsNoRoomInItsCallersCommitIsCommittedNext(t *testing.T) {
	db := ofRows(t)
	for range 20 { // repeated, since the writer may check the queue at any time and then commits both
		full, op := newRow(), newRow()
		full.rows = 10_000
		db.SubmitLazy(full)
		db.SubmitHere("demo", op)
		for _, r := range []*row{full, op} {
			select {
			case err := <-r.done:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("nobody commits the op")
			}
		}
	}
}

func TestBusyWriterCommitsForNewcomers(t *testing.T) {
	db := ofRows(t)
	began, release := make(chan struct{}), make(chan struct{})
	first, second := newRow(), newRow()
	first.during = func() { close(began); <-release }
	db.Submit("demo", first)
	<-began
	db.Enqueue("demo", second)
	two := db.CommitHere()
	close(release)
	if two {
		t.Fatal("two have committed at a time")
	}
	if err := errors.Join(<-first.done, <-second.done); err != nil {
		t.Fatal(err)
	}
	if first.here || second.here {
		t.Error("a caller has committed what the writer had begun")
	}
}

func TestACallerCommitsForOthersOnce(t *testing.T) {
	db := ofRows(t)
	var later *row
	ops := committing(t, db, func() []*row {
		own, next := newRow(), newRow()
		own.after = func() { db.Submit("demo", next) } // submitted while another goroutine commits
		later = next
		return []*row{newRow(), own}
	})
	if len(ops[0].done) != 1 || len(ops[1].done) != 1 || !ops[0].here || !ops[1].here {
		t.Fatal("the caller has not committed all that was queued")
	}
	if err := <-later.done; err != nil || later.here {
		t.Errorf("what came meanwhile ended with %v, committed by a caller: %v, want by the writer", err, later.here)
	}
}

func TestNobodyCommitsOnceTheDatabaseIsClosed(t *testing.T) {
	db := ofRows(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	op := newRow()
	db.Enqueue("demo", op)
	if db.CommitHere() || !errors.Is(<-op.done, sqlitedb.ErrClosed) {
		t.Error("an op was not refused by a closed database")
	}
}

// TestAPanicWithinACommitEndsTheProcess commits from a caller that recovers from panics, as handlers of requests do.
func TestAPanicWithinACommitEndsTheProcess(t *testing.T) {
	const path = "GODWIT_PANICKING_DB"
	if p := os.Getenv(path); p != "" {
		defer func() { _ = recover() }()
		db := open(t, p, sqlitedb.Options{})
		committing(t, db, func() []*row {
			op := newRow()
			op.during = func() { panic("of all things") }
			return []*row{op}
		})
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$") // itself
	cmd.Env = append(os.Environ(), path+"="+filepath.Join(t.TempDir(), "x.db"))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "of all things") {
		t.Errorf("the process ended with %v and said:\n%s", err, out)
	}
}
