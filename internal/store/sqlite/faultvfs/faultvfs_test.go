package faultvfs_test

import (
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
	"godwit.dev/godwit/internal/store/sqlite/faultvfs"
)

// rowsAfterPowerCut inserts rows with a setting of synchronous and returns how many a power cut leaves.
func rowsAfterPowerCut(t *testing.T, synchronous string) (rows int64) {
	v := faultvfs.New(t)
	dir := t.TempDir()
	path, cut := filepath.Join(dir, "x.db"), filepath.Join(dir, "cut.db")
	conn, err := sqlite.OpenConn("file:"+path+"?vfs="+v.Name(), sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenURI)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	run := func(c *sqlite.Conn, sql string) {
		t.Helper()
		if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	run(conn, "PRAGMA journal_mode=wal")
	run(conn, "PRAGMA synchronous=full")
	run(conn, "CREATE TABLE t(k)")
	run(conn, "PRAGMA synchronous="+synchronous)
	for range 3 {
		run(conn, "INSERT INTO t VALUES (1)")
	}
	if err := v.PowerCut(path, cut); err != nil {
		t.Fatal(err)
	}
	left, err := sqlite.OpenConn(cut, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = left.Close() }()
	stmt, _, err := left.PrepareTransient("SELECT count(*) FROM t")
	if err != nil {
		t.Fatal(err)
	}
	if rows, err = sqlitex.ResultInt64(stmt); err != nil {
		t.Fatal(err)
	}
	_ = stmt.Finalize()
	return rows
}

func TestAPowerCutLosesExactlyWhatWasNotSynced(t *testing.T) {
	if n := rowsAfterPowerCut(t, "full"); n != 3 {
		t.Errorf("with syncs %d rows are left, want 3", n)
	}
	if n := rowsAfterPowerCut(t, "off"); n != 0 {
		t.Errorf("without syncs %d rows are left, want none", n)
	}
}

func TestManyAreMadeAtOnce(t *testing.T) {
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 20 {
				v := faultvfs.New(t)
				if _, err := checkvfs.On(v.Name()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
