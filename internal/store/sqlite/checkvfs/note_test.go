package checkvfs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// marks are where the two marks lie in the file of checksums.
var marks = []int64{512, 1024}

// A mark that was half written when the power failed leaves the one before it; with both damaged nothing is known.
func TestAMarkThatWasHalfWrittenIsNoDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for rows := 100; rows <= 300; rows += 100 { // each mark is the newer one in turn
		insert(t, db, rows-100, rows)
		for _, at := range marks {
			copied := crash(t, path)
			flip(t, copied+checkvfs.Suffix, at+12, 4)
			again, err := open(t, copied, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
			if err != nil {
				t.Fatalf("with %d rows and the mark at %d damaged: %v", rows, at, err)
			}
			if n, err := read(t, again); n != rows || err != nil {
				t.Errorf("with the mark at %d damaged: %d rows of %d, %v", at, n, rows, err)
			}
			again.Close()
		}
	}
	copied := crash(t, path)
	for _, at := range marks {
		flip(t, copied+checkvfs.Suffix, at+12, 4)
	}
	var damage *checkvfs.DamageError
	if _, err := open(t, copied, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}}); !errors.As(err, &damage) {
		t.Errorf("with both marks damaged: %v", err)
	}
}

// The mark tells of a log that lost its last commit, whichever of the two has it.
func TestALogThatLostItsLastCommitIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert(t, db, 0, 100)
	for i := range 4 {
		before := size(t, path+"-wal")
		insert(t, db, 100+i*100, 200+i*100)
		copied := crash(t, path)
		if err := os.Truncate(copied+"-wal", before); err != nil {
			t.Fatal(err)
		}
		again, err := open(t, copied, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
		if err != nil {
			continue
		}
		if n, err := read(t, again); n != 200+i*100 || err != nil { // unless all of it had been copied
			t.Errorf("commit %d: %d rows are left, %v", i, n, err)
		}
		again.Close()
	}
}

// The header is mapped: where the file ends before it, memory cannot be written. That ends writing, not the process.
func TestChecksumsCutOffUnderADatabaseEndWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert(t, db, 0, 100)
	if err := os.Truncate(path+checkvfs.Suffix, 0); err != nil {
		t.Fatal(err)
	}
	err = db.Do(context.Background(), func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, "INSERT INTO n VALUES (1000, 'x')", nil)
	})
	var fatal *sqlitedb.FatalError
	if !errors.As(err, &fatal) || db.Refusal() == nil {
		t.Errorf("a commit ends with %v, refused: %v", err, db.Refusal())
	}
	if _, err := open(t, crash(t, path), sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}}); err == nil || !strings.Contains(err.Error(), checkvfs.Suffix) {
		t.Errorf("opening it again: %v", err)
	}
}
