package appdb

import (
	"context"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/store/appjson"
)

var _ sink.Store = (*Store)(nil)

const selectSinks = "SELECT app, kind, settings, created_at, updated_at FROM sink"

// Sinks reads all sinks.
func (s *Store) Sinks(ctx context.Context) (list []sink.Sink, err error) {
	err = s.db.Read(ctx, "read sinks", func(ctx context.Context, tx pgx.Tx) (err error) {
		list, err = collect(ctx, tx, readSink, selectSinks)
		return err
	})
	return list, err
}

func readSink(row pgx.CollectableRow) (s sink.Sink, err error) {
	var created, updated int64
	var set string
	if err := row.Scan(&s.App, &s.Kind, &set, &created, &updated); err != nil {
		return s, err
	}
	s.CreatedAt, s.UpdatedAt = fromMillis(created), fromMillis(updated)
	return s, appjson.ReadSink(&s, set)
}

// UpdateSink changes or makes a sink of an app.
func (s *Store) UpdateSink(ctx context.Context, app, kind string, change func(*sink.Sink) error) error {
	return s.change(ctx, "change sink "+kind, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		if err := lockApp(ctx, tx, app); err != nil {
			return false, err
		}
		found, err := collect(ctx, tx, readSink, selectSinks+" WHERE app = $1 AND kind = $2", app, kind)
		if err != nil {
			return false, err
		}
		one := sink.Sink{App: app, Kind: kind}
		if len(found) > 0 {
			one = found[0]
		}
		if err := change(&one); err != nil {
			return false, err
		}
		set, err := appjson.Sink(&one)
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, `INSERT INTO sink (app, kind, settings, created_at, updated_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (app, kind) DO UPDATE SET settings = excluded.settings, created_at = excluded.created_at, updated_at = excluded.updated_at`,
			app, kind, set, one.CreatedAt.UnixMilli(), one.UpdatedAt.UnixMilli())
		return true, err
	})
}

// DeleteSink deletes a sink of an app.
func (s *Store) DeleteSink(ctx context.Context, app, kind string) (found bool, err error) {
	err = s.change(ctx, "delete sink "+kind, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx, "DELETE FROM sink WHERE app = $1 AND kind = $2", app, kind)
		found = tag.RowsAffected() > 0
		return found, err
	})
	return found, err
}
