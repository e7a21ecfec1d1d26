package checkvfs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

const rowsInAll = 2000

var schema = []string{"CREATE TABLE n(id INTEGER PRIMARY KEY, body TEXT); CREATE INDEX n_body ON n(body);"}

func open(t *testing.T, path string, o sqlitedb.Options) (*sqlitedb.DB, error) {
	t.Helper()
	o.AppID, o.Migrations = 1, schema
	return sqlitedb.Open(t.Context(), path, o, nil)
}

func body(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", 300)) }

// fill creates a database with rowsInAll rows.
func fill(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	insert(t, db, 0, rowsInAll)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func insert(t *testing.T, db *sqlitedb.DB, from, to int) {
	t.Helper()
	for i := from; i < to; i += 100 {
		err := db.Do(t.Context(), func(c *sqlite.Conn) error {
			for j := i; j < min(i+100, to); j++ {
				if err := sqlitex.Execute(c, "INSERT INTO n VALUES (?, ?)", &sqlitex.ExecOptions{Args: []any{j, body(j)}}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// read reads all rows and returns their number; a row with other contents than written fails the test.
func read(t *testing.T, db *sqlitedb.DB) (n int, err error) {
	t.Helper()
	err = db.Read(t.Context(), func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, "SELECT id, body FROM n ORDER BY id", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			if got := s.ColumnText(1); got != body(s.ColumnInt(0)) || s.ColumnInt(0) != n {
				t.Errorf("row %d is altered: %.20s", s.ColumnInt(0), got)
			}
			n++
			return nil
		}})
	})
	return n, err
}

func flip(t *testing.T, path string, at int64, bit int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << bit
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestNoFlippedBitOfTheDatabaseIsReadAsData(t *testing.T) {
	path := fill(t)
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 25 {
		at, bit := rnd.Int64N(size(t, path)), rnd.IntN(8)
		flip(t, path, at, bit)
		if d, err := checkvfs.Verify(t.Context(), path, 0, nil); err != nil || len(d.Errors) == 0 {
			t.Errorf("a flip at %d: verifying finds %v, %v", at, d, err)
		}
		db, err := open(t, path, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
		if err == nil {
			var n int
			n, err = read(t, db)
			switch {
			case err == nil && n != rowsInAll:
				t.Errorf("a flip at %d: %d rows are left, and nothing is said", at, n)
			case err != nil && db.Refusal() == nil:
				t.Errorf("a flip at %d: it was read as %v, and the database still takes writes", at, err)
			}
			_ = db.Close() // may fail: it is damaged
		}
		flip(t, path, at, bit)
	}
	db, err := open(t, path, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if n, err := read(t, db); n != rowsInAll || err != nil {
		t.Errorf("undamaged again: %d rows, %v", n, err)
	}
}

func TestWritingStopsWhenDamageIsMet(t *testing.T) {
	path := fill(t)
	for at := int64(4096 + 2000); at < size(t, path); at += 4096 {
		flip(t, path, at, 3)
	}
	var told []error
	db, err := open(t, path, sqlitedb.Options{Guard: sqlitedb.Guard{Damaged: func(err error) { told = append(told, err) }}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var damage *sqlitedb.DamageError
	if _, err := read(t, db); !errors.As(err, &damage) {
		t.Errorf("reading gives %v", err)
	}
	err = db.Do(context.Background(), func(*sqlite.Conn) error { return nil })
	if !errors.As(err, &damage) || len(told) != 1 || !strings.Contains(told[0].Error(), "page") {
		t.Errorf("writing gives %v; told of %v", err, told)
	}
}

func TestTruncatedDatabaseIsDamage(t *testing.T) {
	path := fill(t)
	if err := os.Truncate(path, size(t, path)/4096/2*4096); err != nil {
		t.Fatal(err)
	}
	if d, err := checkvfs.Verify(t.Context(), path, 0, nil); err != nil || len(d.Errors) == 0 {
		t.Errorf("verifying finds %v, %v", d, err)
	}
	db, err := open(t, path, sqlitedb.Options{})
	if err == nil {
		_, err = read(t, db)
		_ = db.Close()
	}
	if err == nil {
		t.Error("half a database reads as a whole one")
	}
}

func TestMissingOrDamagedChecksumsAreDamage(t *testing.T) {
	path := fill(t)
	var damage *checkvfs.DamageError
	flip(t, path+checkvfs.Suffix, 3, 1)
	if _, err := open(t, path, sqlitedb.Options{}); !errors.As(err, &damage) {
		t.Errorf("a damaged header gives %v", err)
	}
	if err := os.Remove(path + checkvfs.Suffix); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, path, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}}); !errors.As(err, &damage) {
		t.Errorf("missing ones give %v", err)
	}
	db, err := open(t, path, sqlitedb.Options{}) // a database of an earlier version
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if n, err := read(t, db); n != rowsInAll || err != nil {
		t.Errorf("with checksums made anew: %d rows, %v", n, err)
	}
}

// crash copies a database in the state that kill -9 would leave.
func crash(t *testing.T, path string) (copied string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), "b.db")
	for _, suffix := range []string{checkvfs.Suffix, checkvfs.NoteSuffix, "-wal", ""} {
		b, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

func TestALogThatLostSomethingIsNotRecoveredInSilence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert(t, db, 0, rowsInAll)
	wal := size(t, path+"-wal")
	rnd := rand.New(rand.NewPCG(5, 5))
	for i := range 40 {
		copied := crash(t, path)
		switch i % 4 {
		case 0, 1:
			flip(t, copied+"-wal", rnd.Int64N(wal), rnd.IntN(8))
		case 2:
			if err := os.Truncate(copied+"-wal", rnd.Int64N(wal)); err != nil {
				t.Fatal(err)
			}
		case 3:
			if err := os.Remove(copied + "-wal"); err != nil {
				t.Fatal(err)
			}
		}
		again, err := open(t, copied, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
		if err != nil {
			continue
		}
		// The log was not needed: all its pages had been copied.
		if n, err := read(t, again); n != rowsInAll || err != nil {
			t.Errorf("case %d: %d rows of %d, %v", i, n, rowsInAll, err)
		}
		again.Close()
	}
	again, err := open(t, crash(t, path), sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n, err := read(t, again); n != rowsInAll || err != nil {
		t.Errorf("an undamaged log: %d rows, %v", n, err)
	}
}

// If pages had spilled into the log before, SQLite writes such a commit in a form that its recovery ignores.
func TestACommitWithASavepointThatWasRolledBackIsRecovered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert(t, db, 0, 100)
	failed := errors.New("no")
	err = db.Do(t.Context(), func(c *sqlite.Conn) error {
		for i := range 20_000 { // exceeds the cache, so that pages spill into the log before the commit
			if err := sqlitex.Execute(c, "INSERT INTO n VALUES (?, ?)", &sqlitex.ExecOptions{Args: []any{1000 + i, body(i)}}); err != nil {
				return err
			}
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	db.CopyLog()
	again, err := open(t, crash(t, path), sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n, err := read(t, again); n != 100 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestADamagedLogIsNotReadWhileItIsInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert(t, db, 0, 300)
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	for at := 32 + 24 + 2000; at < len(wal); at += 4096 + 24 {
		flip(t, path+"-wal", int64(at), 2)
	}
	_, err = read(t, db)
	var damage *sqlitedb.DamageError
	if !errors.As(err, &damage) || !strings.Contains(err.Error(), path) {
		t.Errorf("reading gives %v", err)
	}
	var log *walfile.Damage
	if _, err := open(t, crash(t, path), sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}}); !errors.As(err, &log) {
		t.Errorf("opening it after a crash gives %v", err)
	}
}

func TestAFunctionThatMeetsDamageSaysSo(t *testing.T) {
	path := fill(t)
	for at := int64(4096 + 500); at < size(t, path); at += 4096 {
		flip(t, path, at, 3)
	}
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Do(t.Context(), func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, "SELECT sum(length(body)) FROM n NOT INDEXED", nil)
	})
	var damage *sqlitedb.DamageError
	if !errors.As(err, &damage) {
		t.Errorf("it gives %v", err)
	}
}

func TestADatabaseOfAnotherStoreIsNotOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	for _, c := range []struct {
		store checkvfs.ID
		good  bool
	}{{checkvfs.ID{1}, true}, {checkvfs.ID{1}, true}, {checkvfs.ID{}, true}, {checkvfs.ID{2}, false}} {
		db, err := open(t, path, sqlitedb.Options{Guard: sqlitedb.Guard{Store: c.store}})
		var foreign *checkvfs.ForeignError
		if c.good != (err == nil) || !c.good && !errors.As(err, &foreign) {
			t.Errorf("opening it for store %s: %v", c.store, err)
		}
		if err == nil {
			db.Close()
		}
	}
	if id := checkvfs.StoreOf(path); id != (checkvfs.ID{1}) {
		t.Errorf("it belongs to %s", id)
	}
}

// All data of a young database may be in its log, so that only the header of its checksums can be cut off.
func TestChecksumsCutOffInTheirHeaderAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	insert(t, db, 0, 10)
	copied := crash(t, path)
	db.Close()
	for _, at := range []int64{128<<10 - 1, 80000, 12000, 300} {
		if err := os.Truncate(copied+checkvfs.Suffix, at); err != nil {
			t.Fatal(err)
		}
		db, err := open(t, copied, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
		var damage *checkvfs.DamageError
		if !errors.As(err, &damage) || damage.Path != copied+checkvfs.Suffix {
			t.Errorf("cut off at %d: %v", at, err)
		}
		if err == nil {
			db.Close()
		}
	}
}

func TestFilesThatAreTakenAwayAreNoticed(t *testing.T) {
	for _, suffix := range []string{"", "-wal", checkvfs.Suffix, checkvfs.NoteSuffix} {
		for name, harm := range map[string]func(string) error{
			"removed":  os.Remove,
			"cut off":  func(p string) error { return os.Truncate(p, 0) },
			"replaced": func(p string) error { return errors.Join(os.Rename(p, p+".old"), os.WriteFile(p, []byte("x"), 0o600)) },
		} {
			path := filepath.Join(t.TempDir(), "a.db")
			db, err := open(t, path, sqlitedb.Options{})
			if err != nil {
				t.Fatal(err)
			}
			insert(t, db, 0, 300)
			if err := db.Gone(); err != nil {
				t.Errorf("before: %v", err)
			}
			if err := harm(path + suffix); err != nil {
				t.Fatal(err)
			}
			var damage *checkvfs.DamageError
			if err := db.Gone(); !errors.As(err, &damage) || damage.Path != path+suffix {
				t.Errorf("%s %s: %v", suffix, name, err)
			}
			_ = db.Close() // may fail, since its files are gone
		}
	}
}

// After a clean shutdown and a power cut, the note must not refer to a log that no longer exists.
func TestACleanEndLeavesNoNoteOfALog(t *testing.T) {
	path := fill(t)
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the log is still there: %v", err)
	}
	db, err := open(t, path, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
}

func TestUnwatchedDatabaseIsLeftAlone(t *testing.T) {
	vfs, err := checkvfs.On("")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.db")
	for range 2 {
		c, err := sqlite.OpenConn("file:"+path+"?vfs="+vfs, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenURI, sqlite.OpenWAL)
		if err == nil {
			err = errors.Join(sqlitex.ExecuteScript(c, "CREATE TABLE IF NOT EXISTS n(id INTEGER); INSERT INTO n VALUES (1)", nil), c.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path + checkvfs.Suffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has checksums: %v", err)
	}
	if _, err := checkvfs.On("nothing of this name"); err == nil {
		t.Error("a file system that is not there is below")
	}
}

func TestVerifyingKeepsToAPace(t *testing.T) {
	path := fill(t)
	synctest.Test(t, func(t *testing.T) {
		const pace = 256 << 10
		began := time.Now()
		if d, err := checkvfs.Verify(t.Context(), path, pace, nil); err != nil || len(d.Errors) > 0 {
			t.Errorf("%v, %v", d, err)
		}
		// The first piece read and the last one take no time.
		if took, least := time.Since(began), time.Duration(size(t, path)-2*pace)*time.Second/pace; took < least || least <= 0 {
			t.Errorf("%d bytes took %s, want %s or more", size(t, path), took, least)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		time.AfterFunc(time.Second, func() { cancel(stop) })
		if _, err := checkvfs.Verify(ctx, path, pace, nil); !errors.Is(err, stop) || time.Since(began) > time.Minute {
			t.Errorf("stopped: %v", err)
		}
	})
}
