package appdb

import (
	"context"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/store/appjson"
)

var _ hook.Store = (*Store)(nil)

const selectHooks = "SELECT app, name, settings, created_at, updated_at FROM hook"

// Hooks reads all hooks.
func (s *Store) Hooks(ctx context.Context) (list []hook.Hook, err error) {
	err = s.db.Read(ctx, "read hooks", func(ctx context.Context, tx pgx.Tx) (err error) {
		list, err = collect(ctx, tx, readHook, selectHooks)
		return err
	})
	return list, err
}

func readHook(row pgx.CollectableRow) (h hook.Hook, err error) {
	var created, updated int64
	var set string
	if err := row.Scan(&h.App, &h.Name, &set, &created, &updated); err != nil {
		return h, err
	}
	h.CreatedAt, h.UpdatedAt = fromMillis(created), fromMillis(updated)
	return h, appjson.ReadHook(&h, set)
}

// UpdateHook changes or makes a hook of an app.
func (s *Store) UpdateHook(ctx context.Context, app, name string, change func(*hook.Hook, int) error) error {
	return s.change(ctx, "change hook "+name, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		if err := lockApp(ctx, tx, app); err != nil {
			return false, err
		}
		var others int
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM hook WHERE app = $1 AND name <> $2", app, name).Scan(&others); err != nil {
			return false, err
		}
		found, err := collect(ctx, tx, readHook, selectHooks+" WHERE app = $1 AND name = $2", app, name)
		if err != nil {
			return false, err
		}
		h := hook.Hook{App: app, Name: name}
		if len(found) > 0 {
			h = found[0]
		}
		if err := change(&h, others); err != nil {
			return false, err
		}
		set, err := appjson.Hook(&h)
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, `INSERT INTO hook (app, name, settings, created_at, updated_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (app, name) DO UPDATE SET settings = excluded.settings, created_at = excluded.created_at, updated_at = excluded.updated_at`,
			app, name, set, h.CreatedAt.UnixMilli(), h.UpdatedAt.UnixMilli())
		return true, err
	})
}

// DeleteHook deletes a hook of an app.
func (s *Store) DeleteHook(ctx context.Context, app, name string) (found bool, err error) {
	err = s.change(ctx, "delete hook "+name, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx, "DELETE FROM hook WHERE app = $1 AND name = $2", app, name)
		found = tag.RowsAffected() > 0
		return found, err
	})
	return found, err
}
