package pgdb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// oldest is the first version of PostgreSQL that has all that is used here.
const oldest = 14

// unprepared is how statements are sent before sessions were compared: behind a pooler that shares them, one that is prepared
// may fail, as another's session has it already, or be prepared anew by the pooler.
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

// ErrPooled says that between here and the database there is a pooler that gives each transaction another session.
var ErrPooled = errors.New("a connection pooler gives each transaction another session of PostgreSQL, which loses settings and prepared statements: " +
	"set it to pool_mode=session for godwit, or give PostgreSQL's own address")

// pooledRounds is how often sessions are compared: in between the pooler may have given them away to others.
const pooledRounds = 3

// checkSessions finds a pooler that shares sessions between transactions. A connection that does nothing keeps its
// session; so if another one's transaction has it meanwhile, or it has another afterwards, there is one.
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

// validateWritable checks each new connection: the server must not be a replica, nor a former primary that has become one.
func validateWritable(ctx context.Context, c *pgconn.PgConn) error {
	return pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, c)
}

// quote makes a literal of a text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
