package pgdb_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var oneTable = files("CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL DEFAULT 0); CREATE TABLE u (a int);")

func files(sql ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i, s := range sql {
		m[fmt.Sprintf("%04d_step.sql", i+1)] = &fstest.MapFile{Data: []byte(s)}
	}
	return m
}

func open(t testing.TB, cfg pgdb.Config) *pgdb.DB {
	t.Helper()
	db, err := pgdb.Open(t.Context(), cfg)
	ok(t, err)
	t.Cleanup(db.Close)
	return db
}

func one(t testing.TB) (*pgdb.DB, pgdb.Config) {
	t.Helper()
	cfg := pgdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Migrations: oneTable}
	return open(t, cfg), cfg
}

func exec(db *pgdb.DB, sql string, args ...any) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	}
}

func number(t testing.TB, db *pgdb.DB, sql string) (n int) {
	t.Helper()
	ok(t, db.Pool().QueryRow(t.Context(), sql).Scan(&n))
	return n
}

func TestNodesThatStartTogetherMigrateOnce(t *testing.T) {
	cfg := pgdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Migrations: files("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", "ALTER TABLE t ADD COLUMN b int DEFAULT 2")}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			db, err := pgdb.Open(t.Context(), cfg)
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			if n := number(t, db, "SELECT sum(a * b) FROM t"); n != 2 {
				t.Errorf("the tables hold %d", n)
			}
		})
	}
	wg.Wait()
}

func TestAMigrationThatFailsLeavesNothing(t *testing.T) {
	cfg := pgdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Migrations: files("CREATE TABLE t (a int)")}
	open(t, cfg)
	bad := cfg
	bad.Migrations = files("CREATE TABLE t (a int)", "CREATE TABLE v (a int)", "CREATE TABLE w (a nonsense)")
	if _, err := pgdb.Open(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "0003_step.sql") {
		t.Fatalf("got %v, want an error that names the file", err)
	}
	db := open(t, cfg)
	if n := number(t, db, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'migration'"); n != 1 {
		t.Errorf("%d tables are left", n)
	}
}

func TestAMigrationThatWaitsForATableLetsOthersPass(t *testing.T) {
	cfg := pgdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Migrations: files("CREATE TABLE t (a int)")}
	db := open(t, cfg)
	// This connection is not one of the store's, whose idle transactions the server ends.
	somebody, err := pgx.Connect(t.Context(), cfg.URL)
	ok(t, err)
	defer somebody.Close(context.Background())
	held, err := somebody.Begin(t.Context())
	ok(t, err)
	ok(t, exec(db, "SELECT * FROM "+cfg.Schema+".t")(t.Context(), held))
	newer := cfg
	newer.Migrations = files("CREATE TABLE t (a int)", "ALTER TABLE t ADD COLUMN b int DEFAULT 7")
	opened := make(chan *pgdb.DB, 1)
	go func() {
		db, err := pgdb.Open(t.Context(), newer)
		if err != nil {
			t.Error(err)
		}
		opened <- db
	}()
	for number(t, db, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 't'::regclass") == 0 {
	}
	number(t, db, "SELECT count(*) FROM t") // behind the migration
	ok(t, held.Rollback(t.Context()))
	if migrated := <-opened; migrated != nil {
		defer migrated.Close()
		if n := number(t, db, "SELECT count(b) FROM t"); n != 0 {
			t.Errorf("%d rows", n)
		}
	}
}

func TestASchemaOfANewerVersionIsRefused(t *testing.T) {
	cfg := pgdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Migrations: files("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")}
	open(t, cfg)
	cfg.Migrations = files("CREATE TABLE t (a int)")
	if _, err := pgdb.Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "version 2 and this godwit knows 1") {
		t.Errorf("got %v", err)
	}
}

func TestDeadlockIsRetried(t *testing.T) {
	db, _ := one(t)
	ok(t, db.Do(t.Context(), "prepare", exec(db, "INSERT INTO t VALUES (1), (2)")))
	var wg, met sync.WaitGroup
	met.Add(2)
	for i := range 2 {
		first := true
		wg.Go(func() {
			err := db.Do(t.Context(), "update", func(ctx context.Context, tx pgx.Tx) error {
				if err := exec(db, "UPDATE t SET b = b + 1 WHERE a = $1", i+1)(ctx, tx); err != nil {
					return err
				}
				if first { // each holds the row that the other needs next
					first = false
					met.Done()
					met.Wait()
				}
				return exec(db, "UPDATE t SET b = b + 1 WHERE a = $1", 2-i)(ctx, tx)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := number(t, db, "SELECT sum(b) FROM t"); n != 4 {
		t.Errorf("of 4 updates %d were done", n)
	}
}

func TestRepeatedDeadlockIsGivenUp(t *testing.T) {
	db, _ := one(t)
	tried := 0
	err := db.Do(t.Context(), "update t", func(ctx context.Context, tx pgx.Tx) error {
		tried++
		return exec(db, "DO $$ BEGIN RAISE EXCEPTION 'as if' USING ERRCODE = '40001'; END $$")(ctx, tx)
	})
	if err == nil || tried != 5 || !strings.HasPrefix(err.Error(), "update t: ") {
		t.Errorf("tried %d times: %v", tried, err)
	}
}

func TestAnErrorOfTheCallersIsItsOwnAndUndoesTheRest(t *testing.T) {
	db, _ := one(t)
	mine := errors.New("mine")
	err := db.Do(t.Context(), "insert", func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(exec(db, "INSERT INTO t VALUES (1)")(ctx, tx), mine)
	})
	if n := number(t, db, "SELECT count(*) FROM t"); n != 0 || !errors.Is(err, mine) || strings.Contains(err.Error(), "insert") {
		t.Errorf("%d rows, %v", n, err)
	}
	if err := db.Do(t.Context(), "insert twice", exec(db, "INSERT INTO t VALUES (1), (1)")); !pgdb.Taken(err) || !strings.HasPrefix(err.Error(), "insert twice: ") {
		t.Errorf("got %v", err)
	}
}

func TestACommitWhoseConnectionBreaksIsNotTriedAgain(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	db := open(t, pgdb.Config{URL: s.URL(), Schema: "x", Migrations: oneTable})
	tried := 0
	err := db.Do(t.Context(), "insert", func(ctx context.Context, tx pgx.Tx) error {
		tried++
		err := exec(db, "INSERT INTO t VALUES (1)")(ctx, tx)
		s.Kill()
		return err
	})
	if err == nil || !pgdb.Away(err) || tried != 1 {
		t.Errorf("tried %d times: %v", tried, err)
	}
	if err := db.Do(t.Context(), "insert", exec(db, "INSERT INTO t VALUES (1)")); !pgdb.Away(err) {
		t.Errorf("while it is away: %v", err)
	}
	s.Restart(t)
	ok(t, db.Do(t.Context(), "insert", exec(db, "INSERT INTO t VALUES (1)")))
}

func TestConnectionsThatARestartBrokeCostNobodyATransaction(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	db := open(t, pgdb.Config{URL: s.URL(), Schema: "x", Migrations: oneTable})
	var all []*pgxpool.Conn
	for range 4 {
		c, err := db.Pool().Acquire(t.Context())
		ok(t, err)
		all = append(all, c)
	}
	for _, c := range all {
		c.Release()
	}
	s.Restart(t)
	ok(t, db.Do(t.Context(), "insert", exec(db, "INSERT INTO t VALUES (1)")))
}

func TestADatabaseWithoutAConnectionToSpareIsAway(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"max_connections": "10", "superuser_reserved_connections": "0"}})
	db := open(t, pgdb.Config{URL: s.URL(), Schema: "x", Migrations: oneTable})
	db.Pool().Reset() // closes the pool's own connections
	var all []*pgx.Conn
	for {
		c, err := pgx.Connect(t.Context(), s.URL())
		if err != nil {
			break
		}
		all = append(all, c)
	}
	if err := db.Do(t.Context(), "insert", exec(db, "INSERT INTO t VALUES (1)")); !pgdb.Away(err) {
		t.Errorf("while others have all: %v", err)
	}
	for _, c := range all {
		c.Close(t.Context())
	}
	// The server notices the closed connections a little later.
	for err := errors.New("not tried"); err != nil; {
		if err = db.Do(t.Context(), "insert", exec(db, "INSERT INTO t VALUES (1)")); err != nil && !pgdb.Away(err) {
			t.Fatal(err)
		}
	}
}

func TestStatementErrorsAreNoOutage(t *testing.T) {
	db, _ := one(t)
	for _, sql := range []string{"SELECT nonsense", "SELECT 1/0", "INSERT INTO t VALUES (NULL)"} {
		if err := db.Do(t.Context(), "try", exec(db, sql)); err == nil || pgdb.Away(err) || pgdb.NoSpace(err) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if err := db.Do(t.Context(), "try", exec(db, "DO $$ BEGIN RAISE EXCEPTION 'as if' USING ERRCODE = '53100'; END $$")); !pgdb.NoSpace(err) {
		t.Errorf("a full disk: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Do(ctx, "try", exec(db, "SELECT 1")); !errors.Is(err, context.Canceled) || pgdb.Away(err) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestTheClockIsTheDatabases(t *testing.T) {
	a, cfg := one(t)
	b := open(t, cfg)
	for _, db := range []*pgdb.DB{a, b} {
		before := db.Now()
		var now time.Time
		ok(t, db.Pool().QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now))
		// The difference is the duration of the answers on a busy machine.
		if after := db.Now(); now.Before(before.Add(-time.Second)) || now.After(after.Add(time.Second)) {
			t.Errorf("the database says %s between %s and %s", now, before, after)
		}
	}
}

func TestAddressesThatLeadNowhereAreRefusedWithoutTheirPassword(t *testing.T) {
	for _, url := range []string{"", "postgres://me:sekret@127.0.0.1:1/x?connect_timeout=1", "postgres://me:sekret@127.0.0.1:port/x", "host=127.0.0.1 port=1 password=sekret sslmode=nonsense"} {
		if _, err := pgdb.Open(t.Context(), pgdb.Config{URL: url, Schema: "x"}); err == nil || strings.Contains(err.Error(), "sekret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
