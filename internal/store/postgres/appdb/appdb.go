// Package appdb keeps apps, API keys, hooks, sources, templates, the settings of channels and who is signed in to the web page in a schema of a PostgreSQL database. Every node, and the
// command line, writes there; who follows notices within a second.
package appdb

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/store/appjson"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

//go:embed migrations/*.sql
var files embed.FS

// Config says where the database is. The zero value of every field but URL is a good default.
type Config struct {
	URL string
	// Reach is what watches whether the database can be reached; nil: nothing does.
	Reach  *pgdb.Reach
	Schema string           // empty: godwit_app
	Now    func() time.Time // nil: the database's time
	Log    *slog.Logger     // nil: discards
}

const defaultSchema = "godwit_app"

// Store is an access.Store, a hook.Store, a source.Store, a template.Store and a channel.Store.
type Store struct {
	db  *pgdb.DB
	log *slog.Logger
}

var _ access.Store = (*Store)(nil)

// Open opens the schema and makes it where there is none.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Schema == "" {
		cfg.Schema = defaultSchema
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	migrations, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, fmt.Errorf("open app store: %w", err)
	}
	db, err := pgdb.Open(ctx, pgdb.Config{URL: cfg.URL, Reach: cfg.Reach, Schema: cfg.Schema, Migrations: migrations, Now: cfg.Now, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("open app store: %w", err)
	}
	return &Store{db: db, log: cfg.Log}, nil
}

// Close closes the connections.
func (s *Store) Close() error {
	s.db.Close()
	return nil
}

// DB is the database beneath.
func (s *Store) DB() *pgdb.DB { return s.db }

// change runs f in a transaction that ends with a new version, unless f fails or says that it has changed nothing. The version is last, so that its
// row is locked for as short as can be; and locked until the commit, so that versions grow in the order of commits.
func (s *Store) change(ctx context.Context, op string, f func(context.Context, pgx.Tx) (changed bool, err error)) error {
	err := s.db.Do(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		changed, err := f(ctx, tx)
		if err != nil || !changed {
			return err
		}
		// A time, so that it differs from all before even where the last commits were lost.
		_, err = tx.Exec(ctx, "UPDATE version SET value = greatest(value + 1, $1)", s.db.Now().UnixMilli())
		return err
	})
	return s.db.Known(err)
}

// Load reads everything in one snapshot.
func (s *Store) Load(ctx context.Context) (snap access.Snapshot, err error) {
	err = s.db.Read(ctx, "read app store", func(ctx context.Context, tx pgx.Tx) (err error) {
		if snap.Apps, err = collect(ctx, tx, readApp, "SELECT name, created_at, settings, jwt_keys FROM app ORDER BY name"); err != nil {
			return err
		}
		if snap.Erasing, err = collect(ctx, tx, pgx.RowTo[string], "SELECT name FROM deleted_app"); err != nil {
			return err
		}
		snap.Keys, err = collect(ctx, tx, readKey, "SELECT id, app, name, roles, created_at, last_used, prefix, hash FROM api_key")
		return err
	})
	if err != nil {
		return access.Snapshot{}, err
	}
	return snap, nil
}

// collect reads the rows of a query; nil where there is none.
func collect[T any](ctx context.Context, tx pgx.Tx, read pgx.RowToFunc[T], query string, args ...any) (list []T, err error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.AppendRows(list, rows, read)
}

func readApp(row pgx.CollectableRow) (app access.App, err error) {
	var created int64
	var set, keys string
	if err := row.Scan(&app.Name, &created, &set, &keys); err != nil {
		return app, err
	}
	app.CreatedAt = fromMillis(created)
	return app, appjson.ReadApp(&app, set, keys)
}

func readKey(row pgx.CollectableRow) (k access.StoredKey, err error) {
	var roles, created, used int64
	var hash []byte
	if err := row.Scan(&k.ID, &k.App, &k.Name, &roles, &created, &used, &k.Prefix, &hash); err != nil {
		return k, err
	}
	k.Roles, k.CreatedAt = access.Role(roles), fromMillis(created) //nolint:gosec // four bits, written by us
	if used != 0 {
		k.LastUsed = fromMillis(used)
	}
	if copy(k.Hash[:], hash) != len(k.Hash) || len(hash) != len(k.Hash) {
		return k, fmt.Errorf("key %s: hash is damaged", k.ID)
	}
	return k, nil
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
