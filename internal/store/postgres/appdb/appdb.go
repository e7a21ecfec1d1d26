// Package appdb stores the settings of apps in a schema of a PostgreSQL database. Every node, and the command line, writes there; watchers
// notice changes within a second.
package appdb

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/appsql"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/sqltx"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns the scripts of the schema's tables, for code that reads or fills these without a store.
func Migrations() (fs.FS, error) {
	scripts, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read the tables of the app store: %w", err)
	}
	return scripts, nil
}

// Config configures the store. Only URL is required; the zero values of the other fields are good defaults.
type Config struct {
	URL string
	// Reach watches whether the database can be reached; nil: nothing does.
	Reach  *pgdb.Reach
	Schema string           // empty: godwit_app
	Now    func() time.Time // nil: the database's time
	Log    *slog.Logger     // nil: discards
}

const defaultSchema = "godwit_app"

// Store stores the settings of apps in a schema.
type Store struct {
	*appsql.Store
	db *pgdb.DB
}

// Open opens the schema and creates it if it does not exist.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Schema == "" {
		cfg.Schema = defaultSchema
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	migrations, err := Migrations()
	if err != nil {
		return nil, fmt.Errorf("open app store: %w", err)
	}
	db, err := pgdb.Open(ctx, pgdb.Config{URL: cfg.URL, Reach: cfg.Reach, Schema: cfg.Schema, Migrations: migrations, Now: cfg.Now, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("open app store: %w", err)
	}
	return &Store{Store: appsql.New(schema{db, cfg.Log}), db: db}, nil
}

// Close closes the connections.
func (s *Store) Close() error {
	s.db.Close()
	return nil
}

// DB is the database beneath.
func (s *Store) DB() *pgdb.DB { return s.db }

// schema is the appsql.DB of a schema.
type schema struct {
	db  *pgdb.DB
	log *slog.Logger
}

var _ appsql.DB = schema{}

// Read implements appsql.DB.
func (d schema) Read(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error {
	return d.db.Read(ctx, op, func(ctx context.Context, tx pgx.Tx) error { return f(ctx, pgdb.Common{Conn: tx}) })
}

// Change implements appsql.DB: it increases the version, which watchers read. It changes the version last, so that the version's row is
// locked only briefly. The lock lasts until the commit, so versions increase in the order of commits.
func (d schema) Change(ctx context.Context, op string, f func(context.Context, sqltx.Tx) (bool, error)) error {
	return d.change(ctx, op, func(ctx context.Context, tx pgx.Tx) (bool, error) { return f(ctx, pgdb.Common{Conn: tx}) })
}

func (d schema) change(ctx context.Context, op string, f func(context.Context, pgx.Tx) (wake bool, err error)) error {
	err := d.db.Do(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		wake, err := f(ctx, tx)
		if err != nil || !wake {
			return err
		}
		// At least the time, so that the version exceeds all earlier ones even if the last commits were lost.
		_, err = tx.Exec(ctx, "UPDATE version SET value = greatest(value + 1, $1)", d.db.Now().UnixMilli())
		return err
	})
	return d.db.Known(err)
}

// Note implements appsql.DB.
func (d schema) Note(ctx context.Context, _, op string, f func(context.Context, sqltx.Tx) error) error {
	return d.db.Known(d.db.Do(ctx, op, func(ctx context.Context, tx pgx.Tx) error { return f(ctx, pgdb.Common{Conn: tx}) }))
}

// Taken implements appsql.DB.
func (schema) Taken(err error) bool { return pgdb.Taken(err) }

// touchTold is the change of a key's last use from which watchers are woken: each then reads everything again.
const touchTold = time.Hour

// TouchKeys implements appsql.DB.
func (d schema) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	ids := slices.Sorted(maps.Keys(used))
	at := make([]int64, len(ids))
	for i, id := range ids {
		at[i] = used[id].UnixMilli()
	}
	return d.change(ctx, "note when keys were used", func(ctx context.Context, tx pgx.Tx) (tell bool, err error) {
		// In the order of ids, so that concurrent nodes wait for each other instead of deadlocking.
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
