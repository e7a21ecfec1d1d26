// Package eventdb keeps the event log, and the progress of hooks in it, in a schema of a PostgreSQL database that several nodes share.
//
// Each node queues emitted events in chunks and stores the queue at most ten times a second. Followers on any node read the recent past
// from memory, to which other nodes' events are added four times a second, and the rest from the database.
package eventdb

import (
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/engine/fair"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/store/eventlog"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns the scripts of the schema's tables, for code that reads or fills these without a store.
func Migrations() (fs.FS, error) {
	scripts, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read the tables of the event log: %w", err)
	}
	return scripts, nil
}

const (
	readers = 3           // connections for readers of events that are not in memory; one app never occupies all of them
	conns   = readers + 3 // these and one each for storing, reading other nodes' events, and deleting
)

// Config configures the log. Only URL is required; the zero values of the other fields are good defaults.
type Config struct {
	URL string
	// Reach watches whether the database can be reached; nil: nothing does.
	Reach    *pgdb.Reach
	Schema   string           // empty: godwit_event
	Boot     string           // unique to this start of the server; empty: a random one
	MaxAge   time.Duration    // events older than this are deleted; 0: 24 h
	MaxBytes int64            // the oldest events are deleted when all together exceed this, in bytes; 0: 512 MB
	Now      func() time.Time // nil: the database's time
	Log      *slog.Logger     // nil: discards
}

// Log is an event.Log and a hook.ProgressStore.
type Log struct {
	cfg    Config
	db     *pgdb.DB
	queue  *eventlog.Queue
	tails  eventlog.Tails
	places *fair.Places // of readers
	since  int64        // see emitter
	batch  int64        // number of the newest commit of events that the database has confirmed; only the writer uses it
	whole  int64        // the last stored value of whole; only the writer uses it
	gone   atomic.Int64 // number of losses other than drops by the queue

	looking sync.Mutex // locked while the events of other nodes are read
	looked  time.Time  // when the last one ended
	failed  error      // of that one

	wanted  chan struct{} // somebody waits: look
	life    context.Context
	stop    context.CancelFunc
	closing chan struct{}
	closed  sync.WaitGroup
}

var _ event.Forgetful = (*Log)(nil)

// Open opens the schema, creates it if it does not exist, and starts the writer.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	if cfg.Schema == "" {
		cfg.Schema = "godwit_event"
	}
	if cfg.Boot == "" {
		cfg.Boot = rand.Text()
	}
	if cfg.MaxAge == 0 {
		cfg.MaxAge = 24 * time.Hour
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 512 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	migrations, err := Migrations()
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	l := &Log{cfg: cfg, queue: eventlog.NewQueue(0, nil), places: fair.NewPlaces(readers), wanted: make(chan struct{}, 1), closing: make(chan struct{})}
	l.db, err = pgdb.Open(ctx, pgdb.Config{URL: cfg.URL, Reach: cfg.Reach, Schema: cfg.Schema, Migrations: migrations, MaxConns: conns, Now: cfg.Now, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	head, err := l.head(ctx)
	if err == nil {
		err = l.begin(ctx, head)
	}
	if err != nil {
		l.db.Close()
		return nil, fmt.Errorf("open event log: %w", err)
	}
	l.tails.Start(head)
	l.life, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.closed.Go(l.write)
	l.closed.Go(l.follow)
	l.closed.Go(l.retain)
	return l, nil
}

// head reads the newest id assigned.
func (l *Log) head(ctx context.Context) (uint64, error) {
	var last int64
	err := l.db.Pool().QueryRow(ctx, "SELECT last FROM head").Scan(&last)
	return uint64(last), pgdb.Error("read where the log ends", err) // written by us, positive
}

// Emit queues events. It never blocks; when too much is queued the oldest events are dropped and counted.
func (l *Log) Emit(evs []event.Event) { l.queue.Emit(evs) }

// Last returns the newest assigned id that this node knows.
func (l *Log) Last() uint64 { return l.tails.Committed() }

// Stats returns the current figures.
func (l *Log) Stats() eventlog.Stats { return l.queue.Stats() }

// Metrics are the log's own.
func (l *Log) Metrics() prometheus.Collector { return l.queue }

// DB is the database beneath.
func (l *Log) DB() *pgdb.DB { return l.db }

// Close writes the queue, ends all followers and closes the connections.
func (l *Log) Close() error {
	if l.queue.Close() {
		close(l.closing)
		l.tails.Close()
		defer time.AfterFunc(closeFor, l.stop).Stop() // a call under way may be waiting for a database that has stopped answering
	}
	l.closed.Wait()
	l.stop()
	l.db.Close()
	return nil
}
