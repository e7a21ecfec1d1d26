// Package campaigndb stores endpoints and campaigns in a schema of a PostgreSQL database, which several nodes may share. Both are in one
// schema because one transaction makes a campaign's deliveries from endpoints.
package campaigndb

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns the scripts of the schema's tables, for code that reads or fills these without a store.
func Migrations() (fs.FS, error) {
	scripts, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read the tables of the campaign store: %w", err)
	}
	return scripts, nil
}

// Config configures the store. Only URL is required; the zero values of the other fields are good defaults.
type Config struct {
	URL string
	// Reach watches whether the database can be reached; nil: nothing does.
	Reach    *pgdb.Reach
	Schema   string           // empty: godwit_campaign
	MaxConns int              // limits connections; 0: 8; each campaign that is being sent has a few transactions at once
	Now      func() time.Time // nil: the database's time
	Log      *slog.Logger     // nil: discards
}

// Store keeps endpoints and campaigns.
type Store struct {
	db       *pgdb.DB
	log      *slog.Logger
	together together
	closed   atomic.Bool

	sendEpochs sync.Map // by app: the epoch since which this store owns the sends of its escalations
}

var _ endpoint.Store = (*Store)(nil)

// All reads follow an index, a few hundred rows at a time. The planner cannot know that nearly every endpoint has a tag: to find the first
// 50, it read all of a million entries from the index and sorted them. Counts of a whole audience are planned without these settings.
const (
	settings   = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET max_parallel_workers_per_gather = 0; SET jit = off"
	planFreely = "SET LOCAL enable_seqscan = on; SET LOCAL enable_bitmapscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on"
)

// Open opens the schema and creates it if it does not exist.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Schema == "" {
		cfg.Schema = "godwit_campaign"
	}
	if cfg.MaxConns == 0 {
		cfg.MaxConns = 8
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	migrations, err := Migrations()
	if err != nil {
		return nil, fmt.Errorf("open campaign store: %w", err)
	}
	db, err := pgdb.Open(ctx, pgdb.Config{URL: cfg.URL, Reach: cfg.Reach, Schema: cfg.Schema, Migrations: migrations, MaxConns: cfg.MaxConns, Settings: settings, Now: cfg.Now, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("open campaign store: %w", err)
	}
	return &Store{db: db, log: cfg.Log}, nil
}

// Close waits for operations under way and closes the connections.
func (s *Store) Close() error {
	if !s.closed.Swap(true) {
		s.together.end()
		s.db.Close()
	}
	return nil
}

// DB is the database beneath.
func (s *Store) DB() *pgdb.DB { return s.db }

// now returns the time in the precision of stored times.
func (s *Store) now() time.Time { return s.db.Now().UTC().Truncate(time.Millisecond) }

// do runs f in a transaction. It returns f's own errors unchanged.
func (s *Store) do(ctx context.Context, op string, f func(context.Context, pgx.Tx) error) error {
	return s.db.Known(s.db.Do(ctx, op, f))
}

// one reads a single row into to; found is false if there is no row.
func one(ctx context.Context, tx pgx.Tx, sql string, args []any, to ...any) (found bool, err error) {
	err = tx.QueryRow(ctx, sql, args...).Scan(to...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// text makes a provider's text fit for a text column.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}
