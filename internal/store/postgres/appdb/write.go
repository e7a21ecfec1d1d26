package appdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/store/appjson"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// CreateApp adds an app.
func (s *Store) CreateApp(ctx context.Context, app access.App) error {
	set, keys, err := appjson.App(&app)
	if err != nil {
		return err
	}
	err = s.change(ctx, "create app "+app.Name, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		_, err := tx.Exec(ctx, "INSERT INTO app (name, created_at, settings, jwt_keys) VALUES ($1, $2, $3, $4)", app.Name, app.CreatedAt.UnixMilli(), set, keys)
		return true, err
	})
	return taken(err, "app "+app.Name)
}

// UpdateApp changes an app.
func (s *Store) UpdateApp(ctx context.Context, name string, change func(*access.App) error) error {
	return s.change(ctx, "change app "+name, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		apps, err := collect(ctx, tx, readApp, "SELECT name, created_at, settings, jwt_keys FROM app WHERE name = $1 FOR UPDATE", name)
		if err == nil && len(apps) == 0 {
			err = unknown(name)
		}
		if err != nil {
			return false, err
		}
		if err := change(&apps[0]); err != nil {
			return false, err
		}
		set, keys, err := appjson.App(&apps[0])
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, "UPDATE app SET settings = $1, jwt_keys = $2 WHERE name = $3", set, keys, name)
		return true, err
	})
}

// DeleteApp deletes an app; its keys, channels and hooks refer to it and go along.
func (s *Store) DeleteApp(ctx context.Context, name string) error {
	return s.change(ctx, "delete app "+name, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx, "DELETE FROM app WHERE name = $1", name)
		if err == nil && tag.RowsAffected() == 0 {
			err = unknown(name)
		}
		if err == nil {
			_, err = tx.Exec(ctx, "INSERT INTO deleted_app (name) VALUES ($1) ON CONFLICT DO NOTHING", name)
		}
		return true, err
	})
}

// AppErased implements access.Store.
func (s *Store) AppErased(ctx context.Context, name string) error {
	return s.change(ctx, "end the erasure of app "+name, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		_, err := tx.Exec(ctx, "DELETE FROM deleted_app WHERE name = $1", name)
		return true, err
	})
}

// CreateKey adds a key to an app.
func (s *Store) CreateKey(ctx context.Context, k access.StoredKey) error {
	err := s.change(ctx, "create key "+k.ID, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		if err := lockApp(ctx, tx, k.App); err != nil {
			return false, err
		}
		_, err := tx.Exec(ctx, "INSERT INTO api_key (id, app, name, roles, created_at, last_used, prefix, hash) VALUES ($1, $2, $3, $4, $5, 0, $6, $7)",
			k.ID, k.App, k.Name, int64(k.Roles), k.CreatedAt.UnixMilli(), k.Prefix, k.Hash[:])
		return true, err
	})
	return taken(err, "key "+k.ID)
}

// DeleteKey deletes a key of this app, and signs out whom it let in.
func (s *Store) DeleteKey(ctx context.Context, app, id string) error {
	return s.change(ctx, "delete key "+id, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx, "DELETE FROM api_key WHERE app = $1 AND id = $2", app, id)
		if err == nil && tag.RowsAffected() == 0 {
			err = access.ErrUnknownKey
		}
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM stay WHERE app = $1 AND key = $2", app, id)
		}
		return true, err
	})
}

// touchTold is by how much a key has to be used later than before for others to be told: all read everything anew then.
const touchTold = time.Hour

// TouchKeys notes when keys were last used.
func (s *Store) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	ids := slices.Sorted(maps.Keys(used))
	at := make([]int64, len(ids))
	for i, id := range ids {
		at[i] = used[id].UnixMilli()
	}
	return s.change(ctx, "note when keys were used", func(ctx context.Context, tx pgx.Tx) (tell bool, err error) {
		// In the order of ids, so that nodes that do this at once wait for each other.
		err = tx.QueryRow(ctx, `WITH before AS (
				SELECT id, last_used, new.at FROM api_key JOIN unnest($1::text[], $2::bigint[]) AS new (key, at) ON key = id AND at > last_used
				ORDER BY id FOR UPDATE OF api_key
			), touched AS (
				UPDATE api_key SET last_used = before.at FROM before WHERE before.id = api_key.id
			)
			SELECT coalesce(bool_or(at > last_used + $3), false) FROM before`, ids, at, touchTold.Milliseconds()).Scan(&tell)
		return tell, err
	})
}

func unknown(app string) error { return fmt.Errorf("%w: %.128q", access.ErrUnknownApp, app) }

// lockApp locks an app's row, so that one transaction at a time changes what belongs to the app. It fails with
// access.ErrUnknownApp where there is no such app.
func lockApp(ctx context.Context, tx pgx.Tx, app string) error {
	var one int
	err := tx.QueryRow(ctx, "SELECT 1 FROM app WHERE name = $1 FOR UPDATE", app).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return unknown(app)
	}
	return err
}

// taken names what is there already.
func taken(err error, what string) error {
	if pgdb.Taken(err) {
		return fmt.Errorf("%w: %.140s", access.ErrExists, what)
	}
	return err
}
