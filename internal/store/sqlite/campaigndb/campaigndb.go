// Package campaigndb stores endpoints and campaigns in an SQLite file of their own, so that a campaign never stalls a publish. They share
// one file because a campaign creates its deliveries from endpoints in one transaction.
package campaigndb

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// appID is the SQLite application id of this file: "GwCa".
const appID = 0x47774361

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations returns the scripts in the order of their names. Never change a released one; append.
func migrations() ([]string, error) {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	scripts := make([]string, len(entries))
	for i, e := range entries {
		b, err := fs.ReadFile(migrationFiles, "migrations/"+e.Name())
		if err != nil {
			return nil, err
		}
		scripts[i] = string(b)
	}
	return scripts, nil
}

// Config says how the store is opened. The zero value of each field is a good default.
type Config struct {
	// Free returns the free disk space in bytes. Below MinFree the store refuses new data. Nil: not watched.
	Free    func() int64
	MinFree int64

	// Fatal is called once if data that was reported as written may not be on disk: see sqlitedb.Options.
	Fatal func(error)
	Guard sqlitedb.Guard   // of the file
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: discards
}

// Store keeps endpoints and campaigns.
type Store struct {
	db    *sqlitedb.DB
	cfg   Config
	swept time.Time // of names; the writer's

	owners sync.Map // apps by campaign number, of campaigns that were read
}

var _ endpoint.Store = (*Store)(nil)

// Open opens or creates the file. It holds subscribers' secrets, so only its owner may read it.
func Open(ctx context.Context, path string, cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	scripts, err := migrations()
	if err != nil {
		return nil, fmt.Errorf("open campaign store: %w", err)
	}
	db, err := sqlitedb.Open(ctx, path, sqlitedb.Options{
		AppID: appID, Migrations: scripts, Guard: cfg.Guard, Fatal: cfg.Fatal, Log: cfg.Log,
		Hooks: sqlitedb.Hooks{Count: countAll},
	}, nil)
	if err == nil {
		if err = db.NoteCount(); err != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open campaign store: %w", err)
	}
	return &Store{db: db, cfg: cfg}, nil
}

// OpenFile opens or creates the file without a store, for code that fills it with rows. No server may use it meanwhile.
func OpenFile(ctx context.Context, path string, g sqlitedb.Guard, log *slog.Logger) (*sqlitedb.DB, error) {
	scripts, err := migrations()
	if err != nil {
		return nil, fmt.Errorf("open campaign store: %w", err)
	}
	db, err := sqlitedb.Open(ctx, path, sqlitedb.Options{AppID: appID, Migrations: scripts, Guard: g, Log: log}, nil)
	if err != nil {
		return nil, fmt.Errorf("open campaign store: %w", err)
	}
	return db, nil
}

// Close writes the queued operations and closes the file.
func (s *Store) Close() error { return s.db.Close() }

// DB is the database beneath.
func (s *Store) DB() *sqlitedb.DB { return s.db }

// Trim frees the memory of cached pages.
func (s *Store) Trim() { s.db.Trim() }

// now returns the time with the precision of stored times.
func (s *Store) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Millisecond) }

// checkSpace refuses new data while the disk is short of space.
func (s *Store) checkSpace() error {
	if s.cfg.Free != nil && s.cfg.Free() < s.cfg.MinFree {
		return mailbox.ErrNoSpace
	}
	return nil
}

// known converts database errors to those that the server distinguishes for clients.
func known(err error) error {
	switch {
	case errors.Is(err, sqlitedb.ErrClosed):
		return mailbox.ErrClosed
	case sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull:
		return fmt.Errorf("%w: %w", mailbox.ErrNoSpace, err)
	}
	return err
}

// countAll returns the number of endpoints ever created, and the number of existing ones.
func countAll(c *sqlite.Conn) (t sqlitedb.Tally, err error) {
	const q = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'endpoint'), 0), (SELECT coalesce(sum(n), 0) FROM endpoint_count)"
	err = sqlitedb.Each(c, q, nil, func(s *sqlite.Stmt) error {
		t = sqlitedb.Tally{Stored: s.ColumnInt64(0), Open: s.ColumnInt64(1)}
		return nil
	})
	return t, err
}
