// Package objectdb keeps objects and registrations in a schema of a PostgreSQL database, which several nodes may share.
// DESIGN.md beside the package of the stores gives the reasons for its design.
package objectdb

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns the scripts of the schema's tables, for code that reads or fills these without a store.
func Migrations() (fs.FS, error) {
	scripts, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read the tables of the object store: %w", err)
	}
	return scripts, nil
}

// Config names the database. The zero value of every field but URL is a good default.
type Config struct {
	URL string
	// Reach watches whether the database can be reached; nil: nothing does.
	Reach    *pgdb.Reach
	Schema   string           // empty: godwit_object
	MaxConns int              // 0: 8; three of them are for writing
	Now      func() time.Time // nil: the database's time
	Log      *slog.Logger     // nil: discards
}

// Store is an objectstore.Store, and an objectstore.Shared one.
type Store struct {
	db  *pgdb.DB
	obs atomic.Pointer[objectstore.Observer]

	puts    *lane[*putOp]
	saves   *lane[*saveOp]
	touches *lane[*touchOp]
	closed  atomic.Bool
}

var (
	_ objectstore.Store  = (*Store)(nil)
	_ objectstore.Shared = (*Store)(nil)
)

// Open opens the schema, and creates it if it is missing.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Schema == "" {
		cfg.Schema = "godwit_object"
	}
	if cfg.MaxConns == 0 {
		cfg.MaxConns = 8
	}
	migrations, err := Migrations()
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	db, err := pgdb.Open(ctx, pgdb.Config{URL: cfg.URL, Reach: cfg.Reach, Schema: cfg.Schema, Migrations: migrations, MaxConns: cfg.MaxConns, Now: cfg.Now, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	s := &Store{db: db}
	s.puts = newLane(func(op *putOp) int { return len(op.batch) }, s.writePuts)
	s.saves = newLane(func(*saveOp) int { return 2 }, s.writeSaves)
	s.touches = newLane(func(op *touchOp) int { return len(op.batch) }, s.writeTouches)
	return s, nil
}

// Close writes the queued operations and closes the connections.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.puts.close()
	s.saves.close()
	s.touches.close()
	s.db.Close()
	return nil
}

// DB is the database beneath.
func (s *Store) DB() *pgdb.DB { return s.db }

// Observe implements objectstore.Store. All changes are reported from one goroutine, and only those of this node.
func (s *Store) Observe(obs objectstore.Observer) { s.obs.Store(&obs) }

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
