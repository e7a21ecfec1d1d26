package pgdb

import (
	"context"
	"fmt"
	"hash/fnv"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/engine/pause"
)

// migrationLock is the first half of the advisory lock under which a schema is changed: "Gdwt".
const migrationLock = 0x47647774

const migrationTable = `CREATE TABLE IF NOT EXISTS migration (
	version    int PRIMARY KEY,
	name       text NOT NULL,
	applied_at bigint NOT NULL -- milliseconds
)`

// A migration that waits for a table's lock makes all later users wait behind it. So it gives up after a short wait and tries again:
// another session's open transaction does not stop the cluster.
const (
	lockWithin = 2 * time.Second
	lockPause  = time.Second
	lockTries  = 20
)

// migrate applies missing migrations in one transaction. One node does so at a time; the others find them applied.
func (db *DB) migrate(ctx context.Context, files fs.FS) error {
	names, err := fs.Glob(files, "*.sql") // sorted
	if err != nil {
		return fmt.Errorf("list migrations: %w", err)
	}
	for try := 1; ; try++ {
		err := db.migrateOnce(ctx, files, names)
		if code(err) != lockNotAvailable {
			return Error("migrate", err)
		}
		if try == lockTries {
			return fmt.Errorf("migrate: a transaction that stays open holds a table; end it and start again (godwit doctor says whose it is): %w", err)
		}
		if !pause.For(ctx, lockPause) {
			return Error("migrate", context.Cause(ctx))
		}
	}
}

func (db *DB) migrateOnce(ctx context.Context, files fs.FS, names []string) error {
	return pgx.BeginTxFunc(ctx, db.pool, Patient("BEGIN"), func(tx pgx.Tx) error {
		h := fnv.New32a()
		h.Write([]byte(db.schema))
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, $2)", int32(migrationLock), int32(h.Sum32())); err != nil { // any number will do
			return fmt.Errorf("wait for whoever changes the schema: %w", err)
		}
		applied, err := db.version(ctx, tx)
		if err != nil {
			return err
		}
		if applied > len(names) {
			return fmt.Errorf("the schema is of version %d and this godwit knows %d: a newer one has changed it; run that, or one newer still", applied, len(names))
		}
		// The limit is set only now: a node must wait for another node's migration however long that takes.
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", lockWithin.Milliseconds())); err != nil {
			return err
		}
		for i := applied; i < len(names); i++ {
			if err := apply(ctx, tx, files, i+1, names[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// version returns the schema's version, and creates the schema if it is missing. Checking first spares existing schemas the privilege to
// create one.
func (db *DB) version(ctx context.Context, tx pgx.Tx) (v int, err error) {
	found := false
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", db.schema).Scan(&found); err != nil {
		return 0, err
	}
	if !found {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{db.schema}.Sanitize()); err != nil {
			return 0, fmt.Errorf("make the schema: %w", db.mayNot(ctx, err, "make schemas in database %[2]s; its owner can allow that: GRANT CREATE ON DATABASE %[2]s TO %[1]s"))
		}
	}
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'migration')", db.schema).Scan(&found); err != nil {
		return 0, err
	}
	if !found {
		if _, err := tx.Exec(ctx, migrationTable); err != nil {
			return 0, fmt.Errorf("make the table of migrations: %w", db.mayNot(ctx, err, "make tables in schema %[3]s; its owner can hand it over: ALTER SCHEMA %[3]s OWNER TO %[1]s"))
		}
	}
	err = tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM migration").Scan(&v)
	return v, err
}

func apply(ctx context.Context, tx pgx.Tx, files fs.FS, version int, name string) error {
	sql, err := fs.ReadFile(files, name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	// The simple query protocol accepts several statements at once.
	if _, err := tx.Conn().PgConn().Exec(ctx, string(sql)).ReadAll(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err = tx.Exec(ctx, "INSERT INTO migration (version, name, applied_at) VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)", version, name)
	return err
}

// mayNot adds to an error of a user without a right what the right is and who gives it. The places in the text are the user, the database and
// the schema.
func (db *DB) mayNot(ctx context.Context, err error, text string) error {
	if code(err) != insufficientPrivilege {
		return err
	}
	var user, database string
	if asked := db.pool.QueryRow(ctx, "SELECT quote_ident(current_user), quote_ident(current_database())").Scan(&user, &database); asked != nil {
		return err
	}
	schema := pgx.Identifier{db.schema}.Sanitize()
	return fmt.Errorf("user %s may not %s: %w", user, fmt.Sprintf(text, user, database, schema), err)
}
