package pghealth_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/store/postgres/pghealth"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// Bytes that nobody else writes.
const deletedText = "Quittenbrotwagen-4711"

// filesHave reports whether a server's tables have deletedText in their files.
func filesHave(t *testing.T, s *pgtest.Server) (found bool) {
	t.Helper()
	ok(t, filepath.WalkDir(s.Tables(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		found = found || bytes.Contains(b, []byte(deletedText))
		return err
	}))
	return found
}

func scrub(t *testing.T, h *pghealth.Health) string {
	t.Helper()
	left, err := h.Scrub(t.Context())
	ok(t, err)
	return left
}

func TestDeletedRowsOfSmallTablesAreOverwritten(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	c := connect(t, s.URL())
	exec(t, c, "CREATE SCHEMA godwit_object", "CREATE TABLE godwit_object.kept (k text PRIMARY KEY)", "CREATE TABLE godwit_object.emptied (k text COLLATE \"C\" PRIMARY KEY, names text[])",
		"INSERT INTO godwit_object.kept SELECT i::text || '"+deletedText+"' FROM generate_series(1, 500) i",
		"INSERT INTO godwit_object.emptied SELECT k, ARRAY[k] FROM godwit_object.kept",
		"INSERT INTO godwit_object.kept SELECT generate_series(1, 500)", "ANALYZE", "CHECKPOINT")
	exec(t, c, "DELETE FROM godwit_object.kept WHERE k LIKE '%"+deletedText+"'", "DELETE FROM godwit_object.emptied", "VACUUM", "CHECKPOINT")
	if !filesHave(t, s) {
		t.Fatal("nothing is to be overwritten")
	}
	if left := scrub(t, open(t, s.URL())); left != "" {
		t.Errorf("left: %s", left)
	}
	exec(t, c, "CHECKPOINT")
	if filesHave(t, s) {
		t.Error("deleted rows are still in the files")
	}
	var rows int
	ok(t, c.QueryRow(t.Context(), "SELECT count(*) FROM godwit_object.kept").Scan(&rows))
	if rows != 500 {
		t.Errorf("%d rows of 500", rows)
	}
}

func TestSQLOverwritesWhatScrubbingLeaves(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	c, user := connect(t, s.URL()), connect(t, s.URL())
	exec(t, c, "CREATE SCHEMA godwit_object", "CREATE TABLE godwit_object.large (k text)", "CREATE TABLE godwit_object.used (k text)", "CREATE TABLE godwit_object.numbers (k bigint)",
		"INSERT INTO godwit_object.large SELECT '"+deletedText+"' || i FROM generate_series(1, 400000) i",
		"INSERT INTO godwit_object.used VALUES ('"+deletedText+"')", "DELETE FROM godwit_object.large", "DELETE FROM godwit_object.used", "INSERT INTO godwit_object.numbers VALUES (1)")
	for deleted := false; !deleted; { // the server publishes its counts within about a second
		ok(t, c.QueryRow(t.Context(), "SELECT n_tup_del > 0 FROM pg_stat_user_tables WHERE relid = 'godwit_object.large'::regclass").Scan(&deleted))
	}
	exec(t, user, "BEGIN", "LOCK TABLE godwit_object.used IN ACCESS SHARE MODE")
	h := open(t, s.URL())
	h.Hurry()
	left := scrub(t, h)
	if want := "VACUUM (FULL, ANALYZE) godwit_object.large, godwit_object.used"; left != want {
		t.Fatalf("left: %q, want %q", left, want)
	}
	exec(t, user, "COMMIT")
	exec(t, c, left, "CHECKPOINT")
	if filesHave(t, s) {
		t.Error("deleted rows are still in the files")
	}
}

func TestScrubbingFailsWhileATransactionSeesDeletedRows(t *testing.T) {
	url := pgtest.Database(t)
	c, reader := connect(t, url), connect(t, url)
	exec(t, c, "CREATE SCHEMA godwit_object", "CREATE TABLE godwit_object.o (k text)", "INSERT INTO godwit_object.o VALUES ('"+deletedText+"')")
	exec(t, reader, "SET application_name = 'report'", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT FROM godwit_object.o")
	exec(t, c, "DELETE FROM godwit_object.o")
	h := open(t, url)
	h.Hurry()
	if left, err := h.Scrub(t.Context()); err == nil || !strings.Contains(err.Error(), "report") {
		t.Errorf("left %q, error %v: it does not name who reads", left, err)
	}
	exec(t, reader, "COMMIT")
	if left := scrub(t, h); left != "" {
		t.Errorf("left: %s", left)
	}
}
