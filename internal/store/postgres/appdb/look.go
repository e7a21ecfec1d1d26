package appdb

import (
	"context"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/store/appsql"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// LookAtChannels reads the settings of channels, even while servers are running. It changes nothing: it neither creates nor upgrades a
// schema. A missing schema means no settings. schema "" means the default of a Config.
func LookAtChannels(ctx context.Context, url, schema string) (list []channel.Record, err error) {
	if schema == "" {
		schema = defaultSchema
	}
	table := pgx.Identifier{schema, "channel"}.Sanitize()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, pgdb.Error("read settings of channels", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	var there bool
	if err := c.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", table).Scan(&there); err != nil || !there {
		return nil, pgdb.Error("read settings of channels", err)
	}
	list, err = appsql.LookAtChannels(ctx, pgdb.Common{Conn: c}, table)
	return list, pgdb.Error("read settings of channels", err)
}
