package pgdb_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

func batch(sql ...string) *pgx.Batch {
	b := &pgx.Batch{}
	for _, s := range sql {
		b.Queue(s)
	}
	return b
}

// executed reads the results of n statements.
func executed(n int) func(pgx.BatchResults) error {
	return func(r pgx.BatchResults) error {
		for range n {
			if _, err := r.Exec(); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestPipelinedStatementsShareATransaction(t *testing.T) {
	db, _ := one(t)
	ok(t, db.Send(t.Context(), "insert", batch("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"), executed(2)))
	err := db.Send(t.Context(), "insert more", batch("INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (1)"), executed(2))
	if !pgdb.Taken(err) || !strings.HasPrefix(err.Error(), "insert more: ") {
		t.Errorf("got %v", err)
	}
	// The caller gets the error even if it does not read the results.
	if err := db.Send(t.Context(), "insert more", batch("INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (1)"), executed(0)); !pgdb.Taken(err) {
		t.Errorf("got %v", err)
	}
	if n := number(t, db, "SELECT count(*) FROM t"); n != 2 {
		t.Errorf("%d rows are there, want 2", n)
	}
	mine := errors.New("mine")
	err = db.Send(t.Context(), "insert", batch("INSERT INTO t VALUES (3)"), func(pgx.BatchResults) error { return mine })
	if n := number(t, db, "SELECT count(*) FROM t"); n != 3 || !errors.Is(err, mine) || err.Error() != "mine" {
		t.Errorf("%d rows are there, want 3; %v", n, err)
	}
}

func TestPipelinedStatementsAreRetried(t *testing.T) {
	db, _ := one(t)
	tried := 0
	err := db.Send(t.Context(), "update t", batch("DO $$ BEGIN RAISE EXCEPTION 'as if' USING ERRCODE = '40P01'; END $$"), func(r pgx.BatchResults) error {
		tried++
		return executed(1)(r)
	})
	if err == nil || tried != 5 || !strings.HasPrefix(err.Error(), "update t: ") {
		t.Errorf("tried %d times: %v", tried, err)
	}
}

func TestStatementsToDyingServerAreNotRetried(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	db := open(t, pgdb.Config{URL: s.URL(), Schema: "x", Migrations: oneTable})
	tried := 0
	err := db.Send(t.Context(), "insert", batch("SELECT pg_sleep(60)", "INSERT INTO t VALUES (1)"), func(r pgx.BatchResults) error {
		tried++
		s.Kill()
		return executed(2)(r)
	})
	if !pgdb.Away(err) || tried != 1 {
		t.Errorf("tried %d times: %v", tried, err)
	}
	if err := db.Send(t.Context(), "insert", batch("INSERT INTO t VALUES (1)"), executed(1)); !pgdb.Away(err) {
		t.Errorf("while it is away: %v", err)
	}
	s.Restart(t)
	ok(t, db.Send(t.Context(), "insert", batch("INSERT INTO t VALUES (1)"), executed(1)))
}
