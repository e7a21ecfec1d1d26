package sqlitedb_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var schema = []string{"CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT)"}

func open(t *testing.T, path string, o sqlitedb.Options) *sqlitedb.DB {
	t.Helper()
	o.AppID = 42
	if o.Migrations == nil {
		o.Migrations = schema
	}
	db, err := sqlitedb.Open(t.Context(), path, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func insert(v string) func(*sqlite.Conn) error {
	return func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, "INSERT INTO t(v) VALUES (?)", &sqlitex.ExecOptions{Args: []any{v}})
	}
}

func count(t *testing.T, db *sqlitedb.DB) (n int) {
	t.Helper()
	err := db.Read(t.Context(), func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, "SELECT count(*) FROM t", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			n = s.ColumnInt(0)
			return nil
		}})
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWorkQueuedWhileTheWriterIsHeldBecomesOneCommit(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "x.db"), sqlitedb.Options{})
	held, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = db.Do(context.Background(), func(*sqlite.Conn) error { close(held); <-release; return nil })
	})
	<-held
	for range 50 {
		wg.Go(func() {
			if err := db.Do(context.Background(), insert("x")); err != nil {
				t.Error(err)
			}
		})
	}
	for db.Queued() < 50 {
	}
	before := db.Commits()
	close(release)
	wg.Wait()
	if got := db.Commits() - before; got != 2 {
		t.Errorf("%d commits, want the held one and one for all that queued", got)
	}
	if n := count(t, db); n != 50 {
		t.Errorf("%d rows, want 50", n)
	}
}

func TestAFailingFunctionIsUndoneAlone(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "x.db"), sqlitedb.Options{})
	boom := errors.New("boom")
	err := db.Do(t.Context(), func(c *sqlite.Conn) error { return errors.Join(insert("a")(c), boom) })
	if !errors.Is(err, boom) {
		t.Errorf("got %v, want the function's error", err)
	}
	if err := db.DoBulk(t.Context(), 1, insert("b")); err != nil {
		t.Error(err)
	}
	if n := count(t, db); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestReopenedFileHoldsEverythingAndRefusesAnOlderProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd name ?#%.db")
	db := open(t, path, sqlitedb.Options{Migrations: append(schema[:1:1], "CREATE TABLE u(k)")})
	if err := db.Do(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlitedb.Open(t.Context(), path, sqlitedb.Options{AppID: 42, Migrations: schema}, nil); err == nil {
		t.Error("a file of a newer schema was opened")
	}
	if _, err := sqlitedb.Open(t.Context(), path, sqlitedb.Options{AppID: 43, Migrations: schema}, nil); err == nil {
		t.Error("a file of another kind was opened")
	}
	if n := count(t, open(t, path, sqlitedb.Options{Migrations: append(schema[:1:1], "CREATE TABLE u(k)")})); n != 1 {
		t.Errorf("%d rows after reopening, want 1", n)
	}
	if err := db.Do(t.Context(), insert("b")); !errors.Is(err, sqlitedb.ErrClosed) {
		t.Errorf("writing after Close: %v, want ErrClosed", err)
	}
}

func TestBackupIsOneMomentWhileTheWriterGoesOn(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "x.db"), sqlitedb.Options{})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 200 {
		if err := db.Do(ctx, insert("before")); err != nil {
			t.Fatal(err)
		}
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = db.Do(ctx, insert("during"))
		}
	})
	dst := filepath.Join(dir, "copy.db")
	if err := sqlitedb.Backup(t.Context(), db.Path(), dst, true); err != nil {
		t.Fatal(err)
	}
	stop()
	wg.Wait()
	if n := count(t, open(t, dst, sqlitedb.Options{})); n < 200 {
		t.Errorf("the copy has %d rows, want at least the 200 from before", n)
	}
	if err := sqlitedb.Backup(t.Context(), db.Path(), dst, true); err == nil {
		t.Error("an existing file was overwritten")
	}
}

// chain is an op that submits itself again until stopped, so that the queue is never empty.
type chain struct {
	db   *sqlitedb.DB
	stop <-chan struct{}
	left *sync.WaitGroup
}

func (c *chain) Apply(conn *sqlite.Conn) error { return insert("busy")(conn) }
func (c *chain) Size() (rows, bytes int)       { return 1, 10 }

func (c *chain) Done(error) {
	select {
	case <-c.stop:
		c.left.Done()
	default:
		c.left.Go(func() { c.db.Submit("", c) })
	}
}

func TestBackgroundWorkIsNotStarved(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "x.db"), sqlitedb.Options{})
	stop := make(chan struct{})
	var left sync.WaitGroup
	for range 8 {
		left.Add(1)
		db.Submit("", &chain{db: db, stop: stop, left: &left})
	}
	for range 5 {
		if err := db.DoBulk(t.Context(), 500, insert("bulk")); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	left.Wait()
}

func TestTheLogIsRestartedUnderLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	const restart, most = 1 << 20, 1 << 30
	db := open(t, path, sqlitedb.Options{WALRestart: restart, CopyAfter: restart / 2})
	body := strings.Repeat("x", 32<<10)
	// The log overshoots until the checkpointer runs: so wait until it has.
	for written, size := int64(0), int64(0); written == 0 || size > written/2; {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 500 {
					if err := db.Do(context.Background(), insert(body)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		written += 64 << 20
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		if size = info.Size(); written >= most {
			t.Fatalf("the log has %d bytes after %d were written; it was hardly ever restarted", size, written)
		}
	}
}
