package pgdb_test

import (
	"context"
	"io/fs"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// A node that is stopped in a transaction loses its locks, and repeats the transaction when it resumes.
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
		if tries == 1 { // this transaction is idle until another one has its lock
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

// slowFiles are migrations that take longer to read than the server keeps an idle transaction of other work.
type slowFiles struct {
	fs.FS
	read func()
}

func (f slowFiles) Open(name string) (fs.File, error) {
	if name != "." {
		f.read()
	}
	return f.FS.Open(name)
}

// A loaded machine takes more than a second from one statement of a migration to the next.
func TestASchemaIsMigratedOnASlowMachine(t *testing.T) {
	url := pgtest.URL(t)
	slow := slowFiles{FS: files("CREATE TABLE t (a int)", "CREATE TABLE u (a int)"), read: func() {
		other, err := pgx.Connect(t.Context(), url)
		ok(t, err)
		_, err = other.Exec(t.Context(), "SET idle_in_transaction_session_timeout = '1s'; BEGIN")
		ok(t, err)
		// The server ends this idle transaction later than it would have ended the migration's.
		if n, err := other.WaitForNotification(t.Context()); !pgdb.Idle(err) {
			t.Errorf("the other transaction got %v, %v", n, err)
		}
	}}
	db := open(t, pgdb.Config{URL: url, Schema: pgtest.Schema(t), Migrations: slow})
	if n := number(t, db, "SELECT count(*) FROM migration"); n != 2 {
		t.Errorf("%d migrations are noted, want 2", n)
	}
}
