// Package objectdb keeps objects and registrations in an SQLite file of their own, with a writer of its own: a flood of
// signals never stalls a publish. docs/adr/0017 gives the reasons for its design.
package objectdb

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

//go:embed schema/0001_objects.sql
var schema1 string

const appID = 0x47644f62 // "GdOb": application_id of object files

// Config configures the file. The zero value of every field is a good default.
type Config struct {
	MinFree int64       // bytes of disk below which puts and new registrations are refused; 0: 256 MB
	VFS     string      // of the database, for fault injection
	Fatal   func(error) // called once when the disk did not confirm a write: exit loudly
	Guard   sqlitedb.Guard
	Log     *slog.Logger // nil: discards
}

// Store is a objectstore.Store.
type Store struct {
	db      *sqlitedb.DB
	space   *sqlitedb.Space
	obs     atomic.Pointer[objectstore.Observer]
	any     atomic.Bool          // true if a client may be stored; while false, hellos need no read
	changes []objectstore.Change // changes of the current commit; only the goroutine that commits uses them
	rows    int64                // rows: stored objects, added: those that the open transaction has added; likewise
	added   int64
}

var _ objectstore.Store = (*Store)(nil)

// Open opens or creates the file.
func Open(ctx context.Context, path string, cfg Config) (*Store, error) {
	if cfg.MinFree == 0 {
		cfg.MinFree = 256 << 20
	}
	s := &Store{}
	var err error
	if s.space, err = sqlitedb.NewSpace(path, cfg.MinFree, 0); err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	s.db, err = sqlitedb.Open(ctx, path, sqlitedb.Options{
		AppID: appID, Migrations: []string{schema1}, VFS: cfg.VFS, Guard: cfg.Guard, Fatal: cfg.Fatal, Log: cfg.Log,
		Hooks: sqlitedb.Hooks{Committed: s.committed, Failed: s.failed, Count: s.tally},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	err = s.read(ctx, "", "look for registrations", func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT 1 FROM client LIMIT 1", nil, func(*sqlite.Stmt) error { s.any.Store(true); return nil })
	})
	if err == nil {
		err = s.countRows(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open object store: %w", err), s.db.Close())
	}
	return s, nil
}

// OpenFile opens or creates the file without a store, for code that fills it with rows. No server may use it meanwhile.
func OpenFile(ctx context.Context, path string, g sqlitedb.Guard, log *slog.Logger) (*sqlitedb.DB, error) {
	db, err := sqlitedb.Open(ctx, path, sqlitedb.Options{AppID: appID, Migrations: []string{schema1}, Guard: g, Log: log}, nil)
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	return db, nil
}

// Close writes the queued operations and closes the file.
func (s *Store) Close() error { return s.db.Close() }

// DB is the database beneath.
func (s *Store) DB() *sqlitedb.DB { return s.db }

// Commits counts commits since opening.
func (s *Store) Commits() uint64 { return s.db.Commits() }

// Observe implements objectstore.Store. Commits are reported one by one, in order, each before the next one is made.
func (s *Store) Observe(obs objectstore.Observer) { s.obs.Store(&obs) }

// committed informs the observer of a commit's changes before the callers get their results.
func (s *Store) committed(ops []sqlitedb.Op, _ bool) {
	s.rows, s.added = s.rows+s.added, 0
	if obs := s.obs.Load(); obs != nil {
		for _, op := range ops {
			if p, ok := op.(*putOp); ok {
				s.changes = p.changes(s.changes)
			}
		}
		if len(s.changes) > 0 {
			(*obs).Changed(s.changes)
			clear(s.changes)
			s.changes = s.changes[:0]
		}
	}
	for _, op := range ops {
		op.Done(nil)
	}
}

// failed forgets the objects that a rolled-back transaction had added.
func (s *Store) failed(ops []sqlitedb.Op, err error) (again []sqlitedb.Op) {
	s.added = 0
	for _, op := range ops {
		op.Done(err)
	}
	return nil
}

// tally counts objects, which are never deleted.
func (s *Store) tally(*sqlite.Conn) (sqlitedb.Tally, error) {
	n := s.rows + s.added
	return sqlitedb.Tally{Stored: n, Open: n}, nil
}

// countRows counts the stored rows, unless the count was recorded at the last close.
func (s *Store) countRows(ctx context.Context) error {
	t, ok := s.db.Counted()
	s.rows = t.Open
	if ok {
		return nil
	}
	err := s.read(ctx, "", "count objects", func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT count(*) FROM object", nil, func(row *sqlite.Stmt) error { s.rows = row.ColumnInt64(0); return nil })
	})
	if err == nil {
		err = s.db.NoteCount()
	}
	return err
}

// storeError wraps errors of the file in the errors that the mailbox package defines.
func storeError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqlitedb.ErrClosed):
		err = fmt.Errorf("%w: %w", mailbox.ErrClosed, err)
	case sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull:
		err = fmt.Errorf("%w: %w", mailbox.ErrNoSpace, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

func (s *Store) read(ctx context.Context, app, op string, fn func(*sqlite.Conn) error) error {
	return storeError(op, s.db.ReadFor(ctx, app, fn))
}

func columnBytes(row *sqlite.Stmt, col int) []byte {
	n := row.ColumnLen(col)
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	row.ColumnBytes(col, b)
	return b
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
