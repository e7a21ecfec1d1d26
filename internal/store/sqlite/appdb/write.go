package appdb

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/store/appjson"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// CreateApp adds an app.
func (s *Store) CreateApp(ctx context.Context, app access.App) error {
	set, keys, err := appjson.App(&app)
	if err != nil {
		return err
	}
	return s.change(ctx, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, "INSERT INTO app(name, created_at, settings, jwt_keys) VALUES (?, ?, ?, ?)",
			[]any{app.Name, app.CreatedAt.UnixMilli(), set, keys}, nil)
		return taken(err, "app "+app.Name)
	})
}

// UpdateApp changes an app.
func (s *Store) UpdateApp(ctx context.Context, name string, change func(*access.App) error) error {
	return s.change(ctx, func(c *sqlite.Conn) error {
		var app access.App
		found := false
		err := sqlitedb.Each(c, "SELECT name, created_at, settings, jwt_keys FROM app WHERE name = ?", []any{name}, func(row *sqlite.Stmt) (err error) {
			app, err = readApp(row)
			found = true
			return err
		})
		switch {
		case err != nil:
			return err
		case !found:
			return fmt.Errorf("%w: %.128q", access.ErrUnknownApp, name)
		}
		if err := change(&app); err != nil {
			return err
		}
		set, keys, err := appjson.App(&app)
		if err != nil {
			return err
		}
		return sqlitedb.Each(c, "UPDATE app SET settings = ?, jwt_keys = ? WHERE name = ?", []any{set, keys, name}, nil)
	})
}

// DeleteApp deletes an app with its keys, channels, hooks, sources and templates, and signs out.
func (s *Store) DeleteApp(ctx context.Context, name string) error {
	return s.change(ctx, func(c *sqlite.Conn) error {
		if err := sqlitedb.Each(c, "DELETE FROM app WHERE name = ?", []any{name}, nil); err != nil {
			return err
		}
		if c.Changes() == 0 {
			return fmt.Errorf("%w: %.128q", access.ErrUnknownApp, name)
		}
		for _, from := range []string{"DELETE FROM channel WHERE app = ?", "DELETE FROM hook WHERE app = ?", "DELETE FROM source WHERE app = ?", "DELETE FROM sink WHERE app = ?", "DELETE FROM template WHERE app = ?", "DELETE FROM stay WHERE app = ?", "DELETE FROM deed WHERE app = ?", "INSERT OR IGNORE INTO deleted_app(name) VALUES (?)"} {
			if err := sqlitedb.Each(c, from, []any{name}, nil); err != nil {
				return err
			}
		}
		return sqlitedb.Each(c, "DELETE FROM api_key WHERE app = ?", []any{name}, nil)
	})
}

// deletedTable lists deleted apps whose data is to be erased.
const deletedTable = `
CREATE TABLE deleted_app (
	name TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
`

// AppErased implements access.Store.
func (s *Store) AppErased(ctx context.Context, name string) error {
	return s.change(ctx, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "DELETE FROM deleted_app WHERE name = ?", []any{name}, nil)
	})
}

// CreateKey adds a key to an app.
func (s *Store) CreateKey(ctx context.Context, k access.StoredKey) error {
	return s.change(ctx, func(c *sqlite.Conn) error {
		// From the app's row, so that a key of a deleted app cannot come to be.
		err := sqlitedb.Each(c, `INSERT INTO api_key(id, app, name, roles, created_at, last_used, prefix, hash)
			SELECT ?, name, ?, ?, ?, 0, ?, ? FROM app WHERE name = ?`,
			[]any{k.ID, k.Name, int64(k.Roles), k.CreatedAt.UnixMilli(), k.Prefix, k.Hash[:], k.App}, nil)
		if err != nil {
			return taken(err, "key "+k.ID)
		}
		if c.Changes() == 0 {
			return fmt.Errorf("%w: %.128q", access.ErrUnknownApp, k.App)
		}
		return nil
	})
}

// DeleteKey deletes a key of this app, and signs out whom it let in.
func (s *Store) DeleteKey(ctx context.Context, app, id string) error {
	return s.change(ctx, func(c *sqlite.Conn) error {
		if err := sqlitedb.Each(c, "DELETE FROM api_key WHERE app = ? AND id = ?", []any{app, id}, nil); err != nil {
			return err
		}
		if c.Changes() == 0 {
			return access.ErrUnknownKey
		}
		return sqlitedb.Each(c, "DELETE FROM stay WHERE app = ? AND key = ?", []any{app, id}, nil)
	})
}

// TouchKeys notes when keys were last used.
func (s *Store) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	return s.change(ctx, func(c *sqlite.Conn) error {
		for id, at := range used {
			err := sqlitedb.Each(c, "UPDATE api_key SET last_used = max(last_used, ?) WHERE id = ?", []any{at.UnixMilli(), id}, nil)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// taken names a primary key conflict.
func taken(err error, what string) error {
	if sqlite.ErrCode(err) == sqlite.ResultConstraintPrimaryKey {
		return fmt.Errorf("%w: %.140s", access.ErrExists, what)
	}
	return err
}
