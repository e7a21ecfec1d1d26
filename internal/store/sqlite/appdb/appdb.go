// Package appdb keeps apps, API keys, hooks, sources, templates, the settings of channels and who is signed in to the web page in an SQLite file of their own, so that the
// command line can change them beside a running server, which notices within a second.
package appdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/store/appjson"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// appID marks the file as ours: "GwAp".
const appID = 0x47774170

var migrations = []string{`
CREATE TABLE app (
	name       TEXT PRIMARY KEY,
	created_at INTEGER NOT NULL, -- milliseconds
	settings   TEXT NOT NULL,    -- JSON
	jwt_keys   TEXT NOT NULL     -- JSON, secrets included
) STRICT, WITHOUT ROWID;
CREATE TABLE api_key (
	id         TEXT PRIMARY KEY,
	app        TEXT NOT NULL,
	name       TEXT NOT NULL,
	roles      INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	last_used  INTEGER NOT NULL, -- 0: never
	prefix     TEXT NOT NULL,
	hash       BLOB NOT NULL     -- SHA-256
) STRICT, WITHOUT ROWID;
CREATE INDEX api_key_app ON api_key(app);
`, channelTable, hookTable, sourceTable, templateTable, sinkTable, versionTable, stayTable, deedTable, deedIndexes, deletedTable}

// Store is an access.Store on a file.
type Store struct{ db *sqlitedb.DB }

var _ access.Store = (*Store)(nil)

// Open opens or creates the file.
func Open(ctx context.Context, path string, log *slog.Logger) (*Store, error) {
	return OpenGuarded(ctx, path, sqlitedb.Guard{}, log)
}

// OpenGuarded is Open for a file with a guard.
func OpenGuarded(ctx context.Context, path string, g sqlitedb.Guard, log *slog.Logger) (*Store, error) {
	db, err := sqlitedb.Open(ctx, path, sqlitedb.Options{
		AppID: appID, Migrations: migrations, Guard: g, Shared: true, Log: log,
		Readers: 1,
		Hooks:   sqlitedb.Hooks{Count: tally},
	}, nil)
	if err == nil {
		if err = db.NoteCount(); err != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open app store: %w", err)
	}
	return &Store{db: db}, nil
}

// tally counts what there is: it is not much.
func tally(c *sqlite.Conn) (t sqlitedb.Tally, err error) {
	err = sqlitedb.Each(c, Tally, nil, func(s *sqlite.Stmt) error {
		t = sqlitedb.Tally{Stored: s.ColumnInt64(0), Open: s.ColumnInt64(1)}
		return nil
	})
	return t, err
}

// Tally is a query of how many apps, keys, channels, hooks, sources and templates there are. How many there ever were is not known.
const Tally = "SELECT 0, (SELECT count(*) FROM app) + (SELECT count(*) FROM api_key) + (SELECT count(*) FROM channel) + (SELECT count(*) FROM hook) + (SELECT count(*) FROM source) + (SELECT count(*) FROM template)"

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// DB is the database beneath.
func (s *Store) DB() *sqlitedb.DB { return s.db }

// Load reads everything in one snapshot.
func (s *Store) Load(ctx context.Context) (snap access.Snapshot, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		snap = access.Snapshot{}
		err := sqlitedb.Each(c, "SELECT name, created_at, settings, jwt_keys FROM app ORDER BY name", nil, func(row *sqlite.Stmt) error {
			app, err := readApp(row)
			snap.Apps = append(snap.Apps, app)
			return err
		})
		if err != nil {
			return err
		}
		err = sqlitedb.Each(c, "SELECT name FROM deleted_app", nil, func(row *sqlite.Stmt) error {
			snap.Erasing = append(snap.Erasing, row.ColumnText(0))
			return nil
		})
		if err != nil {
			return err
		}
		return sqlitedb.Each(c, "SELECT id, app, roles, created_at, last_used, prefix, hash, name FROM api_key", nil, func(row *sqlite.Stmt) error {
			k, err := readKey(row)
			snap.Keys = append(snap.Keys, k)
			return err
		})
	})
	if err != nil {
		return access.Snapshot{}, fmt.Errorf("read app store: %w", err)
	}
	return snap, nil
}

func readApp(row *sqlite.Stmt) (app access.App, err error) {
	app.Name = row.ColumnText(0)
	app.CreatedAt = fromMillis(row.ColumnInt64(1))
	return app, appjson.ReadApp(&app, row.ColumnText(2), row.ColumnText(3))
}

func readKey(row *sqlite.Stmt) (k access.StoredKey, err error) {
	k.ID, k.App, k.Prefix, k.Name = row.ColumnText(0), row.ColumnText(1), row.ColumnText(5), row.ColumnText(7)
	k.Roles = access.Role(row.ColumnInt64(2)) //nolint:gosec // four bits, written by us
	k.CreatedAt = fromMillis(row.ColumnInt64(3))
	if used := row.ColumnInt64(4); used != 0 {
		k.LastUsed = fromMillis(used)
	}
	if n := row.ColumnBytes(6, k.Hash[:]); n != len(k.Hash) {
		return k, fmt.Errorf("key %s: hash is damaged", k.ID)
	}
	return k, nil
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
