package appdb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/store/appjson"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ sink.Store = (*Store)(nil)

const sinkTable = `
CREATE TABLE sink (
	app        TEXT NOT NULL,
	kind       TEXT NOT NULL,
	settings   TEXT NOT NULL,    -- JSON, secrets included
	created_at INTEGER NOT NULL, -- milliseconds
	updated_at INTEGER NOT NULL,
	PRIMARY KEY (app, kind)
) STRICT, WITHOUT ROWID;
`

const selectSinks = "SELECT app, kind, settings, created_at, updated_at FROM sink"

// Sinks reads all sinks.
func (s *Store) Sinks(ctx context.Context) (list []sink.Sink, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, selectSinks, nil, func(row *sqlite.Stmt) error {
			one, err := readSink(row)
			list = append(list, one)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read app store: %w", err)
	}
	return list, nil
}

func readSink(row *sqlite.Stmt) (sink.Sink, error) {
	s := sink.Sink{App: row.ColumnText(0), Kind: row.ColumnText(1), CreatedAt: fromMillis(row.ColumnInt64(3)), UpdatedAt: fromMillis(row.ColumnInt64(4))}
	return s, appjson.ReadSink(&s, row.ColumnText(2))
}

// UpdateSink changes or makes a sink of an app.
func (s *Store) UpdateSink(ctx context.Context, app, kind string, change func(*sink.Sink) error) error {
	return s.change(ctx, func(c *sqlite.Conn) error {
		if err := haveApp(c, app); err != nil {
			return err
		}
		one := sink.Sink{App: app, Kind: kind}
		err := sqlitedb.Each(c, selectSinks+" WHERE app = ? AND kind = ?", []any{app, kind}, func(row *sqlite.Stmt) (err error) {
			one, err = readSink(row)
			return err
		})
		if err != nil {
			return err
		}
		if err := change(&one); err != nil {
			return err
		}
		set, err := appjson.Sink(&one)
		if err != nil {
			return err
		}
		return sqlitedb.Each(c, "INSERT OR REPLACE INTO sink(app, kind, settings, created_at, updated_at) VALUES (?, ?, ?, ?, ?)",
			[]any{app, kind, set, millis(one.CreatedAt), millis(one.UpdatedAt)}, nil)
	})
}

// DeleteSink deletes a sink of an app.
func (s *Store) DeleteSink(ctx context.Context, app, kind string) (found bool, err error) {
	err = s.change(ctx, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, "DELETE FROM sink WHERE app = ? AND kind = ?", []any{app, kind}, nil)
		found = c.Changes() > 0
		return err
	})
	return found, err
}
