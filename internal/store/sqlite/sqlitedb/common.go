package sqlitedb

import (
	"context"
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqltx"
)

// Common is a transaction as both databases have it.
type Common struct{ Conn *sqlite.Conn }

var _ sqltx.Tx = Common{}

// ReadCommon is Read for SQL that both databases take.
func (db *DB) ReadCommon(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error {
	return named(op, db.Read(ctx, func(c *sqlite.Conn) error { return f(ctx, Common{c}) }))
}

// DoCommon is Do for SQL that both databases take.
func (db *DB) DoCommon(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error {
	return named(op, db.Do(ctx, func(c *sqlite.Conn) error { return f(ctx, Common{c}) }))
}

func named(op string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Each implements sqltx.Tx.
func (c Common) Each(_ context.Context, query string, args []any, row func(sqltx.Row) error) error {
	return Each(c.Conn, numbered(query), args, func(s *sqlite.Stmt) error { return row(commonRow{s}) })
}

// Exec implements sqltx.Tx.
func (c Common) Exec(_ context.Context, statement string, args ...any) (int, error) {
	err := Each(c.Conn, numbered(statement), args, nil)
	return c.Conn.Changes(), err
}

// Lock implements sqltx.Tx. It is empty, since only one transaction at a time writes.
func (Common) Lock() string { return "" }

// numbered converts placeholders to SQLite's form, in which $1 would be a name.
func numbered(query string) string { return strings.ReplaceAll(query, "$", "?") }

type commonRow struct{ *sqlite.Stmt }

func (r commonRow) Scan(into ...any) error {
	for i, v := range into {
		switch v := v.(type) {
		case *string:
			*v = r.ColumnText(i)
		case *int:
			*v = r.ColumnInt(i)
		case *int64:
			*v = r.ColumnInt64(i)
		case *bool:
			*v = r.ColumnInt64(i) != 0
		case *[]byte:
			*v = make([]byte, r.ColumnLen(i))
			r.ColumnBytes(i, *v)
		default:
			return fmt.Errorf("read column %d: a %T takes none", i, v)
		}
	}
	return nil
}
