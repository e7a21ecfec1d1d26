package appsql

import (
	"context"
	"fmt"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/store/sqltx"
)

const selectApps = "SELECT name, created_at, settings, jwt_keys FROM app"

// Load reads all apps and keys in one snapshot.
func (s *Store) Load(ctx context.Context) (snap access.Snapshot, err error) {
	err = s.db.Read(ctx, "read app store", func(ctx context.Context, tx sqltx.Tx) (err error) {
		if snap.Apps, err = sqltx.Collect(ctx, tx, readApp, selectApps+" ORDER BY name"); err != nil {
			return err
		}
		if snap.Erasing, err = sqltx.Collect(ctx, tx, sqltx.One[string], "SELECT name FROM deleted_app"); err != nil {
			return err
		}
		operators, err := sqltx.Collect(ctx, tx, readOperator, "SELECT id, hash, created_at FROM operator")
		if err != nil {
			return err
		}
		if len(operators) > 0 {
			snap.Operator = &operators[0]
		}
		snap.Keys, err = sqltx.Collect(ctx, tx, readKey, "SELECT id, app, name, roles, created_at, last_used, prefix, hash FROM api_key")
		return err
	})
	if err != nil {
		return access.Snapshot{}, err
	}
	return snap, nil
}

func readApp(row sqltx.Row) (app access.App, err error) {
	var created int64
	var set, keys string
	if err := row.Scan(&app.Name, &created, &set, &keys); err != nil {
		return app, err
	}
	app.CreatedAt = fromMillis(created)
	return app, decodeApp(&app, set, keys)
}

func readKey(row sqltx.Row) (k access.StoredKey, err error) {
	var roles, created, used int64
	var hash []byte
	if err := row.Scan(&k.ID, &k.App, &k.Name, &roles, &created, &used, &k.Prefix, &hash); err != nil {
		return k, err
	}
	k.Roles, k.CreatedAt = access.Role(roles), fromMillis(created) // four bits, written by us
	if used != 0 {
		k.LastUsed = fromMillis(used)
	}
	if copy(k.Hash[:], hash) != len(k.Hash) || len(hash) != len(k.Hash) {
		return k, fmt.Errorf("key %s: hash is damaged", k.ID)
	}
	return k, nil
}

// CreateApp adds an app.
func (s *Store) CreateApp(ctx context.Context, app access.App) error {
	set, keys, err := encodeApp(&app)
	if err != nil {
		return err
	}
	err = s.db.Change(ctx, "create app "+app.Name, func(ctx context.Context, tx sqltx.Tx) (bool, error) {
		_, err := tx.Exec(ctx, "INSERT INTO app (name, created_at, settings, jwt_keys) VALUES ($1, $2, $3, $4)", app.Name, app.CreatedAt.UnixMilli(), set, keys)
		return true, err
	})
	return s.taken(err, "app "+app.Name)
}

// taken returns the error for a thing that already exists.
func (s *Store) taken(err error, what string) error {
	if err != nil && s.db.Taken(err) {
		return fmt.Errorf("%w: %.140s", access.ErrExists, what)
	}
	return err
}

// UpdateApp changes an app.
func (s *Store) UpdateApp(ctx context.Context, name string, change func(*access.App) error) error {
	return s.db.Change(ctx, "change app "+name, func(ctx context.Context, tx sqltx.Tx) (bool, error) {
		app, err := lockedApp(ctx, tx, name)
		if err != nil {
			return false, err
		}
		if err := change(&app); err != nil {
			return false, err
		}
		set, keys, err := encodeApp(&app)
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, "UPDATE app SET settings = $1, jwt_keys = $2 WHERE name = $3", set, keys, name)
		return true, err
	})
}

// lockedApp reads an app, and locks its row.
func lockedApp(ctx context.Context, tx sqltx.Tx, name string) (access.App, error) {
	apps, err := sqltx.Collect(ctx, tx, readApp, selectApps+" WHERE name = $1"+tx.Lock(), name)
	if err == nil && len(apps) == 0 {
		err = unknown(name)
	}
	if err != nil {
		return access.App{}, err
	}
	return apps[0], nil
}

// belong lists the tables whose rows belong to an app.
var belong = []string{"channel", "hook", "source", "sink", "segment", "template", "template_version", "stay", "deed", "api_key"}

// DeleteApp deletes an app with all its rows.
func (s *Store) DeleteApp(ctx context.Context, name string, check func(*access.App) error) error {
	return s.db.Change(ctx, "delete app "+name, func(ctx context.Context, tx sqltx.Tx) (bool, error) {
		app, err := lockedApp(ctx, tx, name)
		if err == nil && check != nil {
			err = check(&app)
		}
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM app WHERE name = $1", name)
		}
		for i := 0; err == nil && i < len(belong); i++ {
			_, err = tx.Exec(ctx, "DELETE FROM "+belong[i]+" WHERE app = $1", name)
		}
		if err == nil {
			_, err = tx.Exec(ctx, "INSERT INTO deleted_app (name) VALUES ($1) ON CONFLICT DO NOTHING", name)
		}
		return true, err
	})
}

// AppErased implements access.Store.
func (s *Store) AppErased(ctx context.Context, name string) error {
	return s.db.Change(ctx, "end the erasure of app "+name, func(ctx context.Context, tx sqltx.Tx) (bool, error) {
		_, err := tx.Exec(ctx, "DELETE FROM deleted_app WHERE name = $1", name)
		return true, err
	})
}

// CreateKey adds a key to an app.
func (s *Store) CreateKey(ctx context.Context, k access.StoredKey) error {
	err := s.db.Change(ctx, "create key "+k.ID, func(ctx context.Context, tx sqltx.Tx) (bool, error) {
		if err := lockApp(ctx, tx, k.App); err != nil {
			return false, err
		}
		_, err := tx.Exec(ctx, "INSERT INTO api_key (id, app, name, roles, created_at, last_used, prefix, hash) VALUES ($1, $2, $3, $4, $5, 0, $6, $7)",
			k.ID, k.App, k.Name, int64(k.Roles), k.CreatedAt.UnixMilli(), k.Prefix, k.Hash[:])
		return true, err
	})
	return s.taken(err, "key "+k.ID)
}

// DeleteKey deletes an app's key, and ends the logins of people who signed in with it.
func (s *Store) DeleteKey(ctx context.Context, app, id string) error {
	return s.db.Change(ctx, "delete key "+id, func(ctx context.Context, tx sqltx.Tx) (bool, error) {
		n, err := tx.Exec(ctx, "DELETE FROM api_key WHERE app = $1 AND id = $2", app, id)
		if err == nil && n == 0 {
			err = access.ErrUnknownKey
		}
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM stay WHERE app = $1 AND key = $2", app, id)
		}
		return true, err
	})
}

func unknown(app string) error { return fmt.Errorf("%w: %.128q", access.ErrUnknownApp, app) }

// lockApp locks an app's row, so that one transaction at a time changes its data. It fails with access.ErrUnknownApp if the app does not
// exist.
func lockApp(ctx context.Context, tx sqltx.Tx, app string) error {
	found, err := sqltx.Collect(ctx, tx, sqltx.One[int], "SELECT 1 FROM app WHERE name = $1"+tx.Lock(), app)
	if err == nil && len(found) == 0 {
		err = unknown(app)
	}
	return err
}
