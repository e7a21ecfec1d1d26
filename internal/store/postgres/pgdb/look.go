package pgdb

import (
	"context"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/sqltx"
)

// Look calls f in one snapshot of a schema that servers may use, with a connection of its own. It changes nothing, and does not call f if the schema
// lacks a table. op names it in errors.
func Look(ctx context.Context, url, schema, table, op string, f func(context.Context, sqltx.Tx) error) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return Error(op, err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	return Error(op, pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var there bool
		if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", schema+"."+table).Scan(&there); err != nil || !there {
			return err
		}
		if _, err := tx.Exec(ctx, "SET LOCAL search_path = "+pgx.Identifier{schema}.Sanitize()); err != nil {
			return err
		}
		return f(ctx, Common{Conn: tx})
	}))
}
