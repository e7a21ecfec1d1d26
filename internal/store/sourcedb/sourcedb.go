// Package sourcedb stores what sources keep beside their settings, on either database: the positions of feeds, and entries in quarantine.
package sourcedb

import (
	"context"
	"embed"
	"io/fs"
	"strings"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/store/sqltx"
)

//go:embed sqlite postgres
var migrations embed.FS

// Migrations returns the migrations for each database.
func Migrations() (sqlite, postgres fs.FS) { return sqltx.Migrations(migrations) }

// DB is a database with the tables. op names a transaction in errors. A transaction's function may run again from the start.
type DB interface {
	Read(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error
	Change(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error
}

// Store implements source.Records.
type Store struct{ db DB }

var _ source.Records = (*Store)(nil)

// New makes the store of a database.
func New(db DB) *Store { return &Store{db} }

// Position implements source.Records.
func (s *Store) Position(ctx context.Context, at setting.Place) (position []byte, err error) {
	err = s.db.Read(ctx, "read a source's position", func(ctx context.Context, tx sqltx.Tx) error {
		position = nil
		return tx.Each(ctx, "SELECT position FROM position WHERE app = $1 AND source = $2", []any{at.App, at.Name}, func(row sqltx.Row) error { return row.Scan(&position) })
	})
	return position, err
}

// Note implements source.Records.
func (s *Store) Note(ctx context.Context, at setting.Place, position []byte) error {
	return s.db.Change(ctx, "note a source's position", func(ctx context.Context, tx sqltx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO position (app, source, position) VALUES ($1, $2, $3) ON CONFLICT (app, source) DO UPDATE SET position = excluded.position", at.App, at.Name, position)
		return err
	})
}

// SetAside implements source.Records.
func (s *Store) SetAside(ctx context.Context, at setting.Place, entries []source.SetAside) error {
	return s.db.Change(ctx, "put entries into quarantine", func(ctx context.Context, tx sqltx.Tx) error {
		var last int64
		err := tx.Each(ctx, "SELECT coalesce(max(number), 0) FROM quarantine WHERE app = $1 AND source = $2", []any{at.App, at.Name}, func(row sqltx.Row) error { return row.Scan(&last) })
		if err != nil {
			return err
		}
		for i := range entries {
			e := &entries[i]
			last++
			_, err := tx.Exec(ctx, "INSERT INTO quarantine (app, source, number, at, place, why, text) VALUES ($1, $2, $3, $4, $5, $6, $7)",
				at.App, at.Name, last, e.At.UnixMilli(), plain(e.From), plain(e.Why), append([]byte{}, e.Text...))
			if err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "DELETE FROM quarantine WHERE app = $1 AND source = $2 AND number <= $3", at.App, at.Name, last-source.MaxSetAside)
		return err
	})
}

// plain is a text that both databases take.
func plain(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "?"), "?") }

// Quarantine implements source.Records.
func (s *Store) Quarantine(ctx context.Context, at setting.Place, below int64, limit int) (list []source.SetAside, err error) {
	err = s.db.Read(ctx, "read a source's quarantine", func(ctx context.Context, tx sqltx.Tx) (err error) {
		list, err = sqltx.Collect(ctx, tx, func(row sqltx.Row) (e source.SetAside, err error) {
			var ms int64
			err = row.Scan(&e.Number, &ms, &e.From, &e.Why, &e.Text)
			e.At = time.UnixMilli(ms).UTC()
			return e, err
		}, "SELECT number, at, place, why, text FROM quarantine WHERE app = $1 AND source = $2 AND ($3 = 0 OR number < $3) ORDER BY number DESC LIMIT $4", at.App, at.Name, below, int64(limit))
		return err
	})
	return list, err
}

// Forget implements source.Records.
func (s *Store) Forget(ctx context.Context, at setting.Place, all bool) error {
	return s.db.Change(ctx, "empty a source's quarantine", func(ctx context.Context, tx sqltx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM quarantine WHERE app = $1 AND source = $2", at.App, at.Name)
		if err == nil && all {
			_, err = tx.Exec(ctx, "DELETE FROM position WHERE app = $1 AND source = $2", at.App, at.Name)
		}
		return err
	})
}

// EraseApp deletes everything of an app.
func (s *Store) EraseApp(ctx context.Context, app string) error {
	return s.db.Change(ctx, "erase the sources of an app", func(ctx context.Context, tx sqltx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM quarantine WHERE app = $1", app)
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM position WHERE app = $1", app)
		}
		return err
	})
}
