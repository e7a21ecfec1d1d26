package appdb

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/store/appjson"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ hook.Store = (*Store)(nil)

const hookTable = `
CREATE TABLE hook (
	app        TEXT NOT NULL,
	name       TEXT NOT NULL,
	settings   TEXT NOT NULL,    -- JSON, secrets included
	created_at INTEGER NOT NULL, -- milliseconds
	updated_at INTEGER NOT NULL,
	PRIMARY KEY (app, name)
) STRICT, WITHOUT ROWID;
`

// Hooks reads all hooks.
func (s *Store) Hooks(ctx context.Context) (list []hook.Hook, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, "SELECT app, name, settings, created_at, updated_at FROM hook", nil, func(row *sqlite.Stmt) error {
			h, err := readHook(row)
			list = append(list, h)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read app store: %w", err)
	}
	return list, nil
}

func readHook(row *sqlite.Stmt) (hook.Hook, error) {
	h := hook.Hook{App: row.ColumnText(0), Name: row.ColumnText(1), CreatedAt: fromMillis(row.ColumnInt64(3)), UpdatedAt: fromMillis(row.ColumnInt64(4))}
	return h, appjson.ReadHook(&h, row.ColumnText(2))
}

// UpdateHook changes or makes a hook of an app.
func (s *Store) UpdateHook(ctx context.Context, app, name string, change func(*hook.Hook, int) error) error {
	return s.change(ctx, func(c *sqlite.Conn) error {
		if err := haveApp(c, app); err != nil {
			return err
		}
		h, others := hook.Hook{App: app, Name: name}, 0
		err := sqlitedb.Each(c, "SELECT app, name, settings, created_at, updated_at FROM hook WHERE app = ?", []any{app}, func(row *sqlite.Stmt) (err error) {
			if row.ColumnText(1) != name {
				others++
				return nil
			}
			h, err = readHook(row)
			return err
		})
		if err != nil {
			return err
		}
		if err := change(&h, others); err != nil {
			return err
		}
		set, err := appjson.Hook(&h)
		if err != nil {
			return err
		}
		return sqlitedb.Each(c, "INSERT OR REPLACE INTO hook(app, name, settings, created_at, updated_at) VALUES (?, ?, ?, ?, ?)",
			[]any{app, name, set, millis(h.CreatedAt), millis(h.UpdatedAt)}, nil)
	})
}

func millis(t time.Time) int64 { return t.UnixMilli() }

// DeleteHook deletes a hook of an app.
func (s *Store) DeleteHook(ctx context.Context, app, name string) (found bool, err error) {
	err = s.change(ctx, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, "DELETE FROM hook WHERE app = ? AND name = ?", []any{app, name}, nil)
		found = c.Changes() > 0
		return err
	})
	return found, err
}
