// Package sqltx is the common interface to transactions of SQLite and PostgreSQL, for tables whose SQL is the same in both. Placeholders in
// queries are $1, $2 and so on.
package sqltx

import (
	"context"
	"io/fs"
)

// Row is a row of a result.
type Row interface {
	// Scan reads the columns in order, into *string, *int64, *bool, *[]byte and the like.
	Scan(into ...any) error
}

// Tx is a transaction.
type Tx interface {
	// Each runs a query and calls row with each row.
	Each(ctx context.Context, query string, args []any, row func(Row) error) error
	// Exec runs a statement and returns how many rows it changed.
	Exec(ctx context.Context, statement string, args ...any) (rows int, err error)
	// Lock returns the end of a SELECT that locks its rows against changes until this transaction ends.
	Lock() string
}

// Database runs transactions: *store.Database.
type Database interface {
	Read(ctx context.Context, op string, f func(context.Context, Tx) error) error
	Change(ctx context.Context, op string, f func(context.Context, Tx) error) error
}

// Migrations are those of a package whose folders sqlite and postgres hold them.
func Migrations(files fs.FS) (sqlite, postgres fs.FS) {
	sqlite, _ = fs.Sub(files, "sqlite")     // fails only for a name that is no path
	postgres, _ = fs.Sub(files, "postgres") // the same
	return sqlite, postgres
}

// Collect reads the rows of a query into a list; nil: there are none.
func Collect[T any](ctx context.Context, tx Tx, read func(Row) (T, error), query string, args ...any) (list []T, err error) {
	err = tx.Each(ctx, query, args, func(row Row) error {
		one, err := read(row)
		list = append(list, one)
		return err
	})
	return list, err
}

// One reads a row with one column.
func One[T any](row Row) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}
