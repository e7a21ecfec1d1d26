package postgres_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/postgres"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// keeps is the SQL of how much log the slot of the source keeps.
const keeps = "SELECT pg_current_wal_lsn() - restart_lsn FROM pg_replication_slots WHERE slot_name = 'godwit_shop'"

// While another database writes, the log is freed though the background writer of PostgreSQL, which would let it every 15 seconds, stands still.
func TestTheLogIsFreedWhileAnotherDatabaseWrites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		since        int // version of PostgreSQL
		user, grants string
		writes, most int // MB
		silent       bool
	}{
		"a superuser":                          {14, "postgres", "", 40, 12, true},
		"a user who may silence its log":       {15, "reader", "GRANT SET ON PARAMETER log_min_messages TO reader", 40, 12, true},
		"a user who may call the function":     {16, "reader", "GRANT EXECUTE ON FUNCTION pg_log_standby_snapshot() TO reader", 40, 12, true},
		"a user who may replicate and no more": {14, "reader", "", 160, 80, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldOn(t, pgtest.Start(t, pgtest.Options{Settings: map[string]string{"wal_level": "logical", "logging_collector": "on"}}))
			w.needs(c.since)
			w.sql("CREATE ROLE reader LOGIN REPLICATION", "GRANT CREATE ON DATABASE postgres TO reader", c.grants)
			w.set(postgres.FieldURL, strings.Replace(w.pg.URL(), "user=postgres", "user="+c.user, 1))
			w.Becomes(source.Running, "")
			other := w.pg.Database(t)
			w.freezes("background writer") // after the database, which could not be dropped

			w.in(other, "CREATE TABLE other (a text); ALTER TABLE other ALTER a SET STORAGE EXTERNAL")
			for range c.writes {
				w.in(other, "INSERT INTO other SELECT repeat('x', 100000) FROM generate_series(1, 10)")
			}
			most := strconv.Itoa(c.most << 20)
			if !eventually.Holds(func() bool { return w.text("SELECT (("+keeps+") < "+most+")::text") == "true" }) {
				t.Fatalf("after %d MB PostgreSQL keeps %s bytes", c.writes, w.text("SELECT ("+keeps+")::text"))
			}
			if n := strings.Count(w.logOfServer(), "logical decoding found consistent point"); (n <= 2) != c.silent || n > c.writes/16 { // those of the source's own slot
				t.Errorf("%d times the log of PostgreSQL has what the source did", n)
			}
			eventually.True(t, "the source alone has a slot", func() bool { return w.text("SELECT count(*)::text FROM pg_replication_slots") == "1" })
			w.sql(emits(`{"to":"ann","title":"1"}`))
			w.gets("ann 1")
		})
	}
}

// freezes stops a process of the server until the test ends.
func (w *world) freezes(kind string) {
	w.Helper()
	pid, err := strconv.Atoi(w.text("SELECT pid::text FROM pg_stat_activity WHERE backend_type = '" + kind + "'"))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) // it may have ended
}

// logOfServer returns what PostgreSQL has logged.
func (w *world) logOfServer() string {
	w.Helper()
	b, err := os.ReadFile(w.text("SELECT current_setting('data_directory') || '/' || pg_current_logfile()"))
	if err != nil {
		w.Fatal(err)
	}
	return string(b)
}

func TestATransactionThatTakesLongHoldsUpNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.needs(15)
	w.sql("CREATE ROLE reader LOGIN REPLICATION", "GRANT CREATE ON DATABASE postgres TO reader", "GRANT SET ON PARAMETER log_min_messages TO reader")
	w.set(postgres.FieldURL, strings.Replace(w.pg.URL(), "user=postgres", "user=reader", 1))
	w.Becomes(source.Running, "")
	other := w.pg.Database(t)
	w.in(other, "CREATE TABLE other (a text); ALTER TABLE other ALTER a SET STORAGE EXTERNAL")
	end := w.begins(other, "INSERT INTO other VALUES ('open')")
	for range 12 {
		w.in(other, "INSERT INTO other SELECT repeat('x', 100000) FROM generate_series(1, 10)")
	}
	eventually.True(t, "a temporary slot waits for the transaction", func() bool {
		return w.text("SELECT count(*)::text FROM pg_replication_slots WHERE temporary") == "1"
	})
	w.sql(emits(`{"to":"ann","title":"1"}`))
	w.gets("ann 1")
	w.Stop() // it waits for nobody
	eventually.True(t, "the temporary slot is gone", func() bool {
		return w.text("SELECT count(*)::text FROM pg_replication_slots WHERE temporary") == "0"
	})
	end()
}
