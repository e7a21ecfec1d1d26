package pgdb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// oldest is the first major version of PostgreSQL with all features that the stores use.
const oldest = 14

// unprepared is the query mode until checkSessions has passed: behind a pooler that shares sessions a prepared statement may fail, because
// another client prepared it in the same session or the pooler does so itself.
const unprepared = pgx.QueryExecModeExec

// checkServer refuses versions that lack features which the stores use.
func (db *DB) checkServer(ctx context.Context) error {
	var version int
	err := db.pool.QueryRow(ctx, "SELECT current_setting('server_version_num')::int", unprepared).Scan(&version)
	if err != nil {
		return fmt.Errorf("ask PostgreSQL for its version: %w", err)
	}
	if version < oldest*10000 {
		return fmt.Errorf("this is PostgreSQL %d.%d; version %d or newer is needed", version/10000, version%10000, oldest)
	}
	return nil
}

// ErrPooled reports a connection pooler that gives each transaction another session of PostgreSQL.
var ErrPooled = errors.New("a connection pooler gives each transaction another session of PostgreSQL, which loses settings and prepared statements: " +
	"set it to pool_mode=session for godwit, or give PostgreSQL's own address")

// pooledRounds is how often checkSessions compares sessions: by chance a pooler may give a client the same session twice.
const pooledRounds = 3

// checkSessions detects a pooler that shares sessions between transactions. Without one, an idle connection keeps its session: no other
// connection has that session meanwhile, and the connection has the same one afterwards.
func (db *DB) checkSessions(ctx context.Context) error {
	idle, err := db.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer idle.Release()
	const session = "SELECT pg_backend_pid()"
	for range pooledRounds {
		var before, other, after int
		if err := idle.QueryRow(ctx, session, unprepared).Scan(&before); err != nil {
			return pooled(err)
		}
		err := pgx.BeginTxFunc(ctx, db.pool, Patient("BEGIN"), func(tx pgx.Tx) error {
			if err := tx.QueryRow(ctx, session, unprepared).Scan(&other); err != nil {
				return err
			}
			return idle.QueryRow(ctx, session, unprepared).Scan(&after)
		})
		if err != nil {
			return pooled(err)
		}
		if other == before || after != before {
			return ErrPooled
		}
	}
	return nil
}

// pooled recognises a pooler that takes no transactions at all (pool_mode=statement).
func pooled(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "08P01" {
		return ErrPooled
	}
	return fmt.Errorf("compare sessions: %w", err)
}

// validateWritable rejects a new connection if its server is a replica, or a former primary that has become one.
func validateWritable(ctx context.Context, c *pgconn.PgConn) error {
	return pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, c)
}

// quote returns a text as an SQL literal.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
