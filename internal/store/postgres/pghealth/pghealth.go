// Package pghealth reads the state of the stores' PostgreSQL server from PostgreSQL's own statistics, for metrics and for people who
// diagnose a problem. Scrub alone changes something: it rewrites tables.
package pghealth

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// lookWithin limits one reading: a database that takes longer counts as away, and the other metrics are served without it.
const lookWithin = 2 * time.Second

// Config names the database to examine. URL is needed.
type Config struct {
	URL string
	// Reach watches whether the database can be reached; nil: nothing does.
	Reach *pgdb.Reach
	Log   *slog.Logger // nil: discards
}

// Health reads the state of a database regularly.
type Health struct {
	db    *pgdb.DB
	log   *slog.Logger
	desc  descriptions
	pause time.Duration // between tries of Scrub
}

// Open connects to the database, on connections of its own, so that stores never wait for one of them.
func Open(ctx context.Context, cfg Config) (*Health, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	db, err := pgdb.Connect(ctx, pgdb.Config{URL: cfg.URL, Reach: cfg.Reach, MaxConns: 2, Now: time.Now, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("look at PostgreSQL: %w", err)
	}
	return &Health{db: db, log: cfg.Log, desc: newDescriptions(), pause: scrubPause}, nil
}

// Close closes the connections.
func (h *Health) Close() error {
	h.db.Close()
	return nil
}
