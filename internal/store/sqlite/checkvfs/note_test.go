package checkvfs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// marks lists the places of the mark: two copies beside the checksums, and the live one in the note.
var marks = []struct {
	suffix string
	at     int64
}{{checkvfs.Suffix, 512}, {checkvfs.Suffix, 1024}, {checkvfs.NoteSuffix, 64}}

// A kill or a power cut may leave half of a mark; the other copies are as new or older.
func TestAMarkThatWasHalfWrittenIsNoDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows := 0
	for range 3 { // a sync of checksums writes one copy of the mark, the next sync the other
		insert(t, db, rows, rows+100)
		rows += 100
		db.CopyLog()
		insert(t, db, rows, rows+100)
		rows += 100
		for lost := range 1<<len(marks) - 1 {
			copied := crash(t, path)
			for i, m := range marks {
				if lost>>i&1 == 1 {
					flip(t, copied+m.suffix, m.at+12, 4)
				}
			}
			again, err := open(t, copied, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
			if err != nil {
				t.Fatalf("with %d rows and the marks %03b damaged: %v", rows, lost, err)
			}
			if n, err := read(t, again); n != rows || err != nil {
				t.Errorf("with the marks %03b damaged: %d rows of %d, %v", lost, n, rows, err)
			}
			again.Close()
		}
	}
	copied := crash(t, path)
	for _, m := range marks {
		flip(t, copied+m.suffix, m.at+12, 4)
	}
	var damage *checkvfs.DamageError
	if _, err := open(t, copied, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}}); !errors.As(err, &damage) {
		t.Errorf("with all damaged: %v", err)
	}
}

// The note is never synced: after a power cut it may be missing or long outdated. The log is then compared with the copy of the mark that
// was synced with the checksums.
func TestANoteThatIsMissingOrOldIsNoDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert(t, db, 0, 100)
	old, err := os.ReadFile(path + checkvfs.NoteSuffix)
	if err != nil {
		t.Fatal(err)
	}
	insert(t, db, 100, 200)
	db.CopyLog()
	insert(t, db, 200, 300)
	for name, harm := range map[string]func(string) error{
		"missing":      os.Remove,
		"old":          func(p string) error { return os.WriteFile(p, old, 0o600) },
		"cut off":      func(p string) error { return os.Truncate(p, 5000) },
		"empty":        func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"of zeros":     func(p string) error { return os.WriteFile(p, make([]byte, 1<<20), 0o600) },
		"too long":     func(p string) error { return os.Truncate(p, 2<<20) },
		"of another's": func(p string) error { return copyFile(fill(t)+checkvfs.NoteSuffix, p) },
	} {
		copied := crash(t, path)
		if err := harm(copied + checkvfs.NoteSuffix); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if d, err := checkvfs.Verify(t.Context(), copied, 0, nil); err != nil || len(d.Errors) > 0 {
				t.Errorf("%s: verifying finds %v, %v", name, d, err)
			}
			again, err := open(t, copied, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if n, err := read(t, again); n != 300 || err != nil {
				t.Errorf("%s: %d rows, %v", name, n, err)
			}
			if err := again.Gone(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			again.Close()
		}
		copied = crash(t, path)
		if err := errors.Join(harm(copied+checkvfs.NoteSuffix), os.Remove(copied+"-wal")); err != nil {
			t.Fatal(err)
		}
		again, err := open(t, copied, sqlitedb.Options{Guard: sqlitedb.Guard{Checked: true}})
		if err == nil { // the database has everything that the mark covers
			if n, err := read(t, again); n < 200 || err != nil {
				t.Errorf("%s, without the log: %d rows, %v", name, n, err)
			}
			again.Close()
		}
	}
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	return err
}

// The mark reveals a log that lost its last commit, whichever of its two files has the mark.
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
		if n, err := read(t, again); n != 200+i*100 || err != nil { // possible only if all pages of the log had been copied
			t.Errorf("commit %d: %d rows are left, %v", i, n, err)
		}
		again.Close()
	}
}

// The note is mapped into memory: beyond the end of a truncated file that memory cannot be written. Such an attempt ends writing, not the
// process.
func TestANoteCutOffUnderADatabaseEndsWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert(t, db, 0, 100)
	if err := os.Truncate(path+checkvfs.NoteSuffix, 0); err != nil {
		t.Fatal(err)
	}
	err = db.Do(context.Background(), func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, "INSERT INTO n VALUES (1000, 'x')", nil)
	})
	var fatal *sqlitedb.FatalError
	if !errors.As(err, &fatal) || db.Refusal() == nil {
		t.Errorf("a commit ends with %v, refused: %v", err, db.Refusal())
	}
}

// A server has several databases, most of them with small logs.
func TestNoteUsesMemoryOnlyAsNeeded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert(t, db, 0, 100)
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	_, note, mapped := strings.Cut(string(maps), path+checkvfs.NoteSuffix+"\n")
	_, resident, _ := strings.Cut(note, "\nRss:")
	var kilobytes int
	if _, err := fmt.Sscan(resident, &kilobytes); !mapped || err != nil {
		t.Fatalf("the note is not among what is mapped: %v", err)
	}
	if kilobytes > 128 {
		t.Errorf("%d KB of the note are in memory", kilobytes)
	}
}
