package walfile_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// crashed creates a database with that many commits in its log, as kill -9 leaves it, and returns its path.
func crashed(t *testing.T, commits int) string {
	t.Helper()
	return crashedWith(t, commits, 4096)
}

func crashedWith(t *testing.T, commits, pageSize int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.db")
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate) // without a log, so that the size of pages can be set
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, sql := range []string{fmt.Sprintf("PRAGMA page_size=%d", pageSize), "PRAGMA journal_mode=wal", "PRAGMA wal_autocheckpoint=0", "CREATE TABLE n(id INTEGER PRIMARY KEY, body TEXT)"} {
		if err := sqlitex.ExecuteTransient(conn, sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range commits {
		err := sqlitex.Execute(conn, "INSERT INTO n(body) VALUES (?)", &sqlitex.ExecOptions{Args: []any{fmt.Sprintf("%0900d", i)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	copied := filepath.Join(t.TempDir(), "b.db")
	for _, suffix := range []string{"", "-wal"} {
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

// rows returns how many rows SQLite finds after its own recovery.
func rows(t *testing.T, path string) int64 {
	t.Helper()
	conn, err := sqlite.OpenConn(path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var n int64
	err = sqlitex.Execute(conn, "SELECT count(*) FROM n", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		n = s.ColumnInt64(0)
		return nil
	}})
	if err != nil {
		return -1 // SQLite has noticed by itself
	}
	return n
}

func read(t *testing.T, path string) *walfile.Log {
	t.Helper()
	l, err := walfile.Read(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func markOf(l *walfile.Log) walfile.Mark {
	return walfile.Mark{Salts: l.Salts, Bytes: l.Good, Commits: int64(l.Commits)}
}

func TestAWholeLogIsWhole(t *testing.T) {
	path := crashed(t, 50)
	l := read(t, path)
	if l.Commits != 51 || l.Good != l.Size || l.Later != 0 || l.Broken != -1 || !l.Header {
		t.Errorf("the log of 51 commits is %+v", *l)
	}
	if err := walfile.Check(path, l, markOf(l)); err != nil {
		t.Error(err)
	}
	if err := walfile.Check(path, nil, walfile.Mark{}); err != nil {
		t.Errorf("no log, and none expected: %v", err)
	}
}

func TestEveryFlippedBitIsSeen(t *testing.T) {
	path := crashed(t, 20)
	whole, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	mark := markOf(read(t, path))
	offsets := []int{0, 5, 9, 17, 30, 32, 37, 41, 47, 50, len(whole) - 1, len(whole) - 4096 - 10}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range thorough.Rounds(50, 300) {
		offsets = append(offsets, rnd.IntN(len(whole)))
	}
	for _, at := range offsets {
		b := append([]byte(nil), whole...)
		b[at] ^= 1 << rnd.IntN(8)
		if err := os.WriteFile(path+"-wal", b, 0o600); err != nil {
			t.Fatal(err)
		}
		var d *walfile.Damage
		if err := walfile.Check(path, read(t, path), mark); !errors.As(err, &d) || d.Commits < 1 {
			t.Errorf("a flip at %d of %d: %v", at, len(whole), err)
		}
	}
}

// Without the note, only the frames after the damage reveal it.
func TestAFlippedBitBeforeTheLastCommitIsSeenWithoutTheNote(t *testing.T) {
	path := crashed(t, 20)
	whole, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range thorough.Rounds(50, 300) {
		at := rnd.IntN(len(whole) - 3*(4096+24))
		b := append([]byte(nil), whole...)
		b[at] ^= 1 << rnd.IntN(8)
		if err := os.WriteFile(path+"-wal", b, 0o600); err != nil {
			t.Fatal(err)
		}
		var d *walfile.Damage
		if err := walfile.Check(path, read(t, path), walfile.Mark{}); !errors.As(err, &d) {
			t.Errorf("a flip at %d of %d: %v", at, len(whole), err)
		}
	}
}

func TestATornEndThatNobodyWasToldOfIsNoDamage(t *testing.T) {
	path := crashed(t, 20)
	whole, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	mark := markOf(read(t, path))
	torn := append(append([]byte(nil), whole...), whole[32:32+3000]...)
	if err := os.WriteFile(path+"-wal", torn, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := walfile.Check(path, read(t, path), mark); err != nil {
		t.Error(err)
	}
	if n := rows(t, path); n != 20 {
		t.Errorf("SQLite recovers %d rows", n)
	}
}

func TestALogThatIsTruncatedMissingOrOlderIsDamage(t *testing.T) {
	path := crashed(t, 20)
	mark := markOf(read(t, path))
	var d *walfile.Damage
	if err := walfile.Check(path, nil, mark); !errors.As(err, &d) || d.Commits != 21 {
		t.Errorf("missing: %v", err)
	}
	copied := mark
	copied.Copied = mark.Bytes
	if err := walfile.Check(path, nil, copied); err != nil {
		t.Errorf("missing, but all of it is in the database: %v", err)
	}
	newer := mark
	newer.Salts[0]++
	if err := walfile.Check(path, read(t, path), newer); !errors.As(err, &d) {
		t.Errorf("older than the last: %v", err)
	}
	if err := os.Truncate(path+"-wal", mark.Bytes/2); err != nil {
		t.Fatal(err)
	}
	if err := walfile.Check(path, read(t, path), mark); !errors.As(err, &d) || d.Commits < 5 {
		t.Errorf("truncated: %v", err)
	}
}
