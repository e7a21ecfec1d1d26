package appdb

import (
	"context"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/store/appsql"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/sqltx"
)

// LookAtChannels reads the settings of channels, even while servers are running. It changes nothing: it neither creates nor upgrades a
// schema. A missing schema means no settings. schema "" means the default of a Config.
func LookAtChannels(ctx context.Context, url, schema string) ([]channel.Record, error) {
	return look(ctx, url, schema, "channel", appsql.LookAtChannels)
}

// LookAtSources reads the settings of sources in the same way.
func LookAtSources(ctx context.Context, url, schema string) ([]source.Source, error) {
	return look(ctx, url, schema, "source", appsql.LookAtSources)
}

func look[T any](ctx context.Context, url, schema, name string, read func(context.Context, sqltx.Tx, string) ([]T, error)) (list []T, err error) {
	doing := "read settings of " + name + "s"
	if schema == "" {
		schema = defaultSchema
	}
	table := pgx.Identifier{schema, name}.Sanitize()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, pgdb.Error(doing, err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	var there bool
	if err := c.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", table).Scan(&there); err != nil || !there {
		return nil, pgdb.Error(doing, err)
	}
	list, err = read(ctx, pgdb.Common{Conn: c}, table)
	return list, pgdb.Error(doing, err)
}
