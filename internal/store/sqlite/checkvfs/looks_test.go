package checkvfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// SQLite may read a page from the database before it has synced the page. The file of checksums then has the checksum of the previous page,
// unless other processes read the database, too.
func TestAPageThatIsNotSyncedYetIsComparedWithWhatWasWritten(t *testing.T) {
	t.Run("by this process", func(t *testing.T) { readUnsynced(t, false) })
	t.Run("by others", func(t *testing.T) { readUnsynced(t, true) })
}

func readUnsynced(t *testing.T, shared bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.db")
	f, err := checkvfs.Open(path, checkvfs.Options{Shared: shared, Damaged: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	vfs, err := checkvfs.On("")
	if err != nil {
		t.Fatal(err)
	}
	connect := func() *sqlite.Conn {
		c, err := sqlite.OpenConn("file:"+path+"?vfs="+vfs, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenURI, sqlite.OpenWAL)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	do := func(c *sqlite.Conn, steps ...string) {
		t.Helper()
		for _, sql := range steps {
			if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
	c := connect()
	do(c, "CREATE TABLE a(body TEXT)", "CREATE TABLE b(body TEXT)", "INSERT INTO a VALUES ('old')", "INSERT INTO b VALUES ('old')",
		"PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA synchronous=off", "UPDATE a SET body = 'new'")
	// Pages that a reader has not read yet stay in the log, so SQLite does not truncate the database to its length, which would write
	// checksums.
	reader := connect()
	do(reader, "BEGIN", "SELECT * FROM a")
	do(c, "UPDATE b SET body = 'new'", "PRAGMA wal_checkpoint(PASSIVE)")
	other := connect() // its cache is empty, so it reads a from the database
	if got, err := sqlitex.ResultText(other.Prep("SELECT body FROM a")); got != "new" || err != nil {
		t.Errorf("%q is read, %v", got, err)
	}
	if shared {
		compareAsAnotherProcess(t, path)
	}
	do(reader, "COMMIT")
	if err := errors.Join(other.Close(), reader.Close(), c.Close(), f.Close()); err != nil {
		t.Error(err)
	}
}

func compareAsAnotherProcess(t *testing.T, path string) {
	t.Helper()
	const size = 4096
	kept, err := checkvfs.ReadKept(path, size)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for page := int64(1); len(b) > 0; page, b = page+1, b[size:] {
		if !kept.Is(page, b[:size]) {
			t.Errorf("page %d does not fit the checksum that others read", page)
		}
	}
}

// Beside a server that writes, a page that does not match its checksum may be half written: it is read five times, 50 ms apart. There is no
// pause before the first read, and permanently damaged pages are not read again.
func TestPossiblyTornPageIsReadFiveTimes(t *testing.T) {
	const pauses = 4 * 50 * time.Millisecond
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := open(t, path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	insert(t, db, 0, 300)
	log := crash(t, path)
	flip(t, log+"-wal", 32+24+2000, 2)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	flip(t, path, 4096+2000, 2)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := checkvfs.Open(log, checkvfs.Options{Expected: true, Shared: true}); err == nil || time.Since(began) != pauses {
			t.Errorf("a damaged log is opened in %s, %v", time.Since(began), err)
		}
		began = time.Now()
		if d, err := checkvfs.Verify(t.Context(), path, 0, nil); len(d.Pages) != 1 || err != nil || time.Since(began) != pauses {
			t.Errorf("a damaged page is verified in %s as %v, %v", time.Since(began), d, err)
		}
	})
}

func TestADatabaseOfNoPagesKeepsTheNameOfItsStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	store := checkvfs.ID{1}
	f, err := checkvfs.Open(path, checkvfs.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if k, err := checkvfs.ReadKept(path, 4096); err != nil || k.Store != store || len(k.Sums) != 0 || len(k.Broken) != 0 {
		t.Errorf("%+v, %v", k, err)
	}
}

func TestAFullDiskIsNamedWhereChecksumsAreMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	if err := os.Symlink("/dev/full", path+checkvfs.Suffix); err != nil {
		t.Fatal(err)
	}
	if _, err := checkvfs.Open(path, checkvfs.Options{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it says: %v", err)
	}
}
