// Package pghealth tells how the PostgreSQL server is that stores are kept in: for metrics as it goes, and for people who ask
// what is wrong. It reads what PostgreSQL says of itself. Scrub alone changes something: it writes tables anew.
package pghealth

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// lookWithin bounds one look: a database that does not answer in that time is away, and who asked for metrics gets the others.
const lookWithin = 2 * time.Second

// Config says which database to look at. URL is needed.
type Config struct {
	URL string
	// Reach is what watches whether the database can be reached; nil: nothing does.
	Reach *pgdb.Reach
	Log   *slog.Logger // nil: discards
}

// Health looks at a database again and again.
type Health struct {
	db    *pgdb.DB
	log   *slog.Logger
	desc  descriptions
	pause time.Duration // between tries of Scrub
}

// Open connects to the database, on connections of its own, so that no store waits for one of them.
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
