// Package appdb stores the settings of apps in an SQLite file of its own, so that the command line can change them beside a running server,
// which notices within a second.
package appdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/appsql"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/sqltx"
)

// appID is the SQLite application id of this file: "GwAp".
const appID = 0x47774170

// Store keeps the settings of apps in a file.
type Store struct {
	*appsql.Store
	db *sqlitedb.DB
}

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
	return &Store{Store: appsql.New(file{db}), db: db}, nil
}

// OpenFile opens or creates the file without a store, for code that fills it with rows. No server may use it meanwhile.
func OpenFile(ctx context.Context, path string, g sqlitedb.Guard, log *slog.Logger) (*sqlitedb.DB, error) {
	db, err := sqlitedb.Open(ctx, path, sqlitedb.Options{AppID: appID, Migrations: migrations, Guard: g, Log: log}, nil)
	if err != nil {
		return nil, fmt.Errorf("open app store: %w", err)
	}
	return db, nil
}

// tally counts the rows. There are few.
func tally(c *sqlite.Conn) (t sqlitedb.Tally, err error) {
	err = sqlitedb.Each(c, Tally, nil, func(s *sqlite.Stmt) error {
		t = sqlitedb.Tally{Stored: s.ColumnInt64(0), Open: s.ColumnInt64(1)}
		return nil
	})
	return t, err
}

// Tally is the query for two numbers: 0, since the number of rows ever created is unknown, and the number of apps, keys, channels, hooks,
// sources and templates.
const Tally = "SELECT 0, (SELECT count(*) FROM app) + (SELECT count(*) FROM api_key) + (SELECT count(*) FROM channel) + (SELECT count(*) FROM hook) + (SELECT count(*) FROM source) + (SELECT count(*) FROM template)"

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// DB is the database beneath.
func (s *Store) DB() *sqlitedb.DB { return s.db }

// file is the appsql.DB of a file.
type file struct{ db *sqlitedb.DB }

var _ appsql.DB = file{}

// Read implements appsql.DB.
func (d file) Read(ctx context.Context, _ string, f func(context.Context, sqltx.Tx) error) error {
	err := d.db.Read(ctx, func(c *sqlite.Conn) error { return f(ctx, sqlitedb.Common{Conn: c}) })
	if err != nil {
		return fmt.Errorf("read app store: %w", err)
	}
	return nil
}

// Change implements appsql.DB. It increases the version that watchers poll.
func (d file) Change(ctx context.Context, _ string, f func(context.Context, sqltx.Tx) (bool, error)) error {
	return d.db.Do(ctx, func(c *sqlite.Conn) error {
		wake, err := f(ctx, sqlitedb.Common{Conn: c})
		if err != nil || !wake {
			return err
		}
		// The version is at least the current time, so that it is new even if the row was lost.
		return sqlitedb.Each(c, `INSERT INTO version(one, value) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET value = max(value + 1, ?1)`,
			[]any{time.Now().UnixMilli()}, nil)
	})
}

// Note implements appsql.DB.
func (d file) Note(ctx context.Context, app, _ string, f func(context.Context, sqltx.Tx) error) error {
	return d.db.DoFor(ctx, app, func(c *sqlite.Conn) error { return f(ctx, sqlitedb.Common{Conn: c}) })
}

// Taken implements appsql.DB.
func (file) Taken(err error) bool {
	return sqlite.ErrCode(err) == sqlite.ResultConstraintPrimaryKey
}

// TouchKeys implements appsql.DB.
func (d file) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	return d.Change(ctx, "", func(ctx context.Context, tx sqltx.Tx) (bool, error) {
		for id, at := range used {
			if _, err := tx.Exec(ctx, "UPDATE api_key SET last_used = max(last_used, $1) WHERE id = $2", at.UnixMilli(), id); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}
