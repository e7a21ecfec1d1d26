package pgdb

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// Known converts database errors to those that the server distinguishes for clients; nil stays nil.
func (db *DB) Known(err error) error {
	switch {
	case err == nil:
		return nil
	case db.closed.Load():
		return fmt.Errorf("%w: %w", mailbox.ErrClosed, err)
	case NoSpace(err):
		return fmt.Errorf("%w: %w", mailbox.ErrNoSpace, err)
	case Away(err):
		return fmt.Errorf("%w: %w", mailbox.ErrAway, err)
	}
	return err
}

// Querier is a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Each calls row with each row of a query.
func Each(ctx context.Context, q Querier, sql string, args []any, row func(pgx.Rows) error) error {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Each is like the function Each, on the pool and outside of transactions. Its errors name the operation and are converted by Known.
func (db *DB) Each(ctx context.Context, op, sql string, args []any, row func(pgx.Rows) error) error {
	return db.Known(Error(op, Each(ctx, db.pool, sql, args, row)))
}
