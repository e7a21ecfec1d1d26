package appdb

import (
	"context"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/store/appjson"
)

var _ source.Store = (*Store)(nil)

const selectSources = "SELECT app, kind, settings, created_at, updated_at FROM source"

// Sources reads all sources.
func (s *Store) Sources(ctx context.Context) (list []source.Source, err error) {
	err = s.db.Read(ctx, "read sources", func(ctx context.Context, tx pgx.Tx) (err error) {
		list, err = collect(ctx, tx, readSource, selectSources)
		return err
	})
	return list, err
}

func readSource(row pgx.CollectableRow) (s source.Source, err error) {
	var created, updated int64
	var set string
	if err := row.Scan(&s.App, &s.Kind, &set, &created, &updated); err != nil {
		return s, err
	}
	s.CreatedAt, s.UpdatedAt = fromMillis(created), fromMillis(updated)
	return s, appjson.ReadSource(&s, set)
}

// UpdateSource changes or makes a source of an app.
func (s *Store) UpdateSource(ctx context.Context, app, kind string, change func(*source.Source) error) error {
	return s.change(ctx, "change source "+kind, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		if err := lockApp(ctx, tx, app); err != nil {
			return false, err
		}
		found, err := collect(ctx, tx, readSource, selectSources+" WHERE app = $1 AND kind = $2", app, kind)
		if err != nil {
			return false, err
		}
		one := source.Source{App: app, Kind: kind}
		if len(found) > 0 {
			one = found[0]
		}
		if err := change(&one); err != nil {
			return false, err
		}
		set, err := appjson.Source(&one)
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, `INSERT INTO source (app, kind, settings, created_at, updated_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (app, kind) DO UPDATE SET settings = excluded.settings, created_at = excluded.created_at, updated_at = excluded.updated_at`,
			app, kind, set, one.CreatedAt.UnixMilli(), one.UpdatedAt.UnixMilli())
		return true, err
	})
}

// DeleteSource deletes a source of an app.
func (s *Store) DeleteSource(ctx context.Context, app, kind string) (found bool, err error) {
	err = s.change(ctx, "delete source "+kind, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx, "DELETE FROM source WHERE app = $1 AND kind = $2", app, kind)
		found = tag.RowsAffected() > 0
		return found, err
	})
	return found, err
}
