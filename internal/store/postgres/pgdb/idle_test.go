package pgdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// A node that is stopped in a transaction loses its locks to the others, and begins the transaction again when it wakes.
func TestATransactionThatPausesLosesItsLocksAndIsRepeated(t *testing.T) {
	db, cfg := one(t)
	ok(t, db.Do(t.Context(), "prepare", exec(db, "INSERT INTO t VALUES (1)")))
	other := open(t, pgdb.Config{URL: cfg.URL, Schema: cfg.Schema, Migrations: oneTable})
	tries := 0
	err := db.Do(t.Context(), "pause", func(ctx context.Context, tx pgx.Tx) error {
		tries++
		if _, err := tx.Exec(ctx, "UPDATE t SET b = b + 1 WHERE a = 1"); err != nil {
			return err
		}
		if tries == 1 { // no statement comes until another one has what this transaction had locked
			began := time.Now()
			if err := other.Do(ctx, "go on", exec(other, "UPDATE t SET b = b + 10 WHERE a = 1")); err != nil {
				return err
			}
			t.Logf("the lock was free after %s", time.Since(began).Round(time.Millisecond))
		}
		_, err := tx.Exec(ctx, "SELECT 1")
		return err
	})
	ok(t, err)
	var b int
	ok(t, db.Pool().QueryRow(t.Context(), "SELECT b FROM t WHERE a = 1").Scan(&b))
	if tries != 2 || b != 11 {
		t.Errorf("after %d tries b is %d, want 2 tries and 11", tries, b)
	}
}
