package appdb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/store/appsql"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/sqltx"
)

// LookAtChannels reads the settings of channels from a file that a server may have open. It changes nothing, not even a file of an earlier
// version. Without a file it returns no channels.
func LookAtChannels(path string) ([]channel.Record, error) {
	return look(path, "channel", appsql.LookAtChannels)
}

// LookAtSources reads the settings of sources in the same way.
func LookAtSources(path string) ([]source.Source, error) {
	return look(path, "source", appsql.LookAtSources)
}

func look[T any](path, table string, read func(context.Context, sqltx.Tx, string) ([]T, error)) (list []T, err error) {
	err = sqlitedb.Look(path, func(conn *sqlite.Conn) error {
		there := false
		err := sqlitedb.Each(conn, "SELECT 1 FROM sqlite_schema WHERE name = '"+table+"'", nil, func(*sqlite.Stmt) error {
			there = true
			return nil
		})
		if err == nil && there {
			list, err = read(context.Background(), sqlitedb.Common{Conn: conn}, table)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read app store: %w", err)
	}
	return list, nil
}
