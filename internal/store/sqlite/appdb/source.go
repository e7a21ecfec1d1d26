package appdb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/store/appjson"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ source.Store = (*Store)(nil)

const sourceTable = `
CREATE TABLE source (
	app        TEXT NOT NULL,
	kind       TEXT NOT NULL,
	settings   TEXT NOT NULL,    -- JSON, secrets included
	created_at INTEGER NOT NULL, -- milliseconds
	updated_at INTEGER NOT NULL,
	PRIMARY KEY (app, kind)
) STRICT, WITHOUT ROWID;
`

const selectSources = "SELECT app, kind, settings, created_at, updated_at FROM source"

// Sources reads all sources.
func (s *Store) Sources(ctx context.Context) (list []source.Source, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, selectSources, nil, func(row *sqlite.Stmt) error {
			one, err := readSource(row)
			list = append(list, one)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read app store: %w", err)
	}
	return list, nil
}

func readSource(row *sqlite.Stmt) (source.Source, error) {
	s := source.Source{App: row.ColumnText(0), Kind: row.ColumnText(1), CreatedAt: fromMillis(row.ColumnInt64(3)), UpdatedAt: fromMillis(row.ColumnInt64(4))}
	return s, appjson.ReadSource(&s, row.ColumnText(2))
}

// UpdateSource changes or makes a source of an app.
func (s *Store) UpdateSource(ctx context.Context, app, kind string, change func(*source.Source) error) error {
	return s.change(ctx, func(c *sqlite.Conn) error {
		if err := haveApp(c, app); err != nil {
			return err
		}
		one := source.Source{App: app, Kind: kind}
		err := sqlitedb.Each(c, selectSources+" WHERE app = ? AND kind = ?", []any{app, kind}, func(row *sqlite.Stmt) (err error) {
			one, err = readSource(row)
			return err
		})
		if err != nil {
			return err
		}
		if err := change(&one); err != nil {
			return err
		}
		set, err := appjson.Source(&one)
		if err != nil {
			return err
		}
		return sqlitedb.Each(c, "INSERT OR REPLACE INTO source(app, kind, settings, created_at, updated_at) VALUES (?, ?, ?, ?, ?)",
			[]any{app, kind, set, millis(one.CreatedAt), millis(one.UpdatedAt)}, nil)
	})
}

// DeleteSource deletes a source of an app.
func (s *Store) DeleteSource(ctx context.Context, app, kind string) (found bool, err error) {
	err = s.change(ctx, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, "DELETE FROM source WHERE app = ? AND kind = ?", []any{app, kind}, nil)
		found = c.Changes() > 0
		return err
	})
	return found, err
}
