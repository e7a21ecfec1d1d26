package pgdb

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"godwit.dev/godwit/internal/store/sqltx"
)

// Common is a transaction, or a connection, as both databases have it.
type Common struct {
	Conn interface {
		Querier
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	}
}

var _ sqltx.Tx = Common{}

// ReadCommon is Read for SQL that both databases take.
func (db *DB) ReadCommon(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error {
	return db.Read(ctx, op, func(ctx context.Context, tx pgx.Tx) error { return f(ctx, Common{Conn: tx}) })
}

// DoCommon is Do for SQL that both databases take.
func (db *DB) DoCommon(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error {
	return db.Do(ctx, op, func(ctx context.Context, tx pgx.Tx) error { return f(ctx, Common{Conn: tx}) })
}

// Each implements sqltx.Tx.
func (c Common) Each(ctx context.Context, query string, args []any, row func(sqltx.Row) error) error {
	return Each(ctx, c.Conn, query, args, func(r pgx.Rows) error { return row(r) })
}

// Exec implements sqltx.Tx.
func (c Common) Exec(ctx context.Context, statement string, args ...any) (int, error) {
	tag, err := c.Conn.Exec(ctx, statement, args...)
	return int(tag.RowsAffected()), err
}

// Lock implements sqltx.Tx.
func (Common) Lock() string { return " FOR UPDATE" }
