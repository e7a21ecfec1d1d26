// Package eventdb keeps the event log in an SQLite file of its own, so that a flood of events never stalls a publish.
//
// Events are encoded into chunks as they are emitted, one open chunk per app. Every 25 ms a writer stores all chunks
// in one transaction, a row each, and hands them to the followers, who read the recent past from memory and the rest
// from the file. A crash loses the events of the last moments, but not the notifications, which are in the mailbox.
// The log knows since when it may lack events, so that package reconcile can make them anew.
package eventdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/eventlog"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// appID is the SQLite application id of this file: "GwEv".
const appID = 0x47774576

var migrations = []string{`
CREATE TABLE chunk (
	id   INTEGER PRIMARY KEY, -- of its last event
	app  TEXT NOT NULL,
	data BLOB NOT NULL        -- see eventlog.Chunk
) STRICT;
CREATE INDEX chunk_app ON chunk(app, id);
CREATE TABLE log (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	last_id INTEGER NOT NULL  -- newest id given out: ids grow even when all chunks are deleted and the clock is set back
) STRICT;
INSERT INTO log VALUES (1, 0);
`, hookTable, hookOwnerTable, gapColumns, sinkTable, goneColumn}

// Options of a log. The zero value of each field is a good default.
type Options struct {
	MaxAge   time.Duration // events older than this are deleted; 0: 24 h
	MaxBytes int64         // the oldest events are deleted if the file holds more than this; 0: 512 MB

	// Free returns the free disk space in bytes. Below MinFree the log does not grow: each new event replaces old ones. Nil: not watched.
	Free    func() int64
	MinFree int64

	Guard sqlitedb.Guard   // of the file
	Now   func() time.Time // the clock that all stores share; nil: the monotonic clock anchored now
	Log   *slog.Logger     // nil: discards
}

// Log is an event.Log on a file.
type Log struct {
	opts Options
	db   *sqlitedb.DB

	queue  *eventlog.Queue
	tails  eventlog.Tails
	packer eventlog.Packer // the writer's
	last   uint64          // newest id given out before
	lost   int64           // see gapColumns; before this process
	stop   chan struct{}
	done   chan struct{}
}

var _ event.Forgetful = (*Log)(nil)

// Open opens or creates the file and starts the goroutine that writes.
func Open(ctx context.Context, path string, o Options) (*Log, error) {
	if o.MaxAge == 0 {
		o.MaxAge = 24 * time.Hour
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 512 << 20
	}
	if o.Now == nil {
		o.Now = mailbox.Clock()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{opts: o, stop: make(chan struct{}), done: make(chan struct{})}
	var err error
	l.db, err = sqlitedb.Open(ctx, path, sqlitedb.Options{
		AppID: appID, Migrations: migrations, Guard: o.Guard, Lax: true, Log: o.Log,
		Readers: 2, WALRestart: 8 << 20, WALCap: 64 << 20,
	}, l.prepare)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	if err := l.begin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open event log: %w", err), l.db.Close())
	}
	l.queue = eventlog.NewQueue(l.last, o.Now)
	l.tails.Start(l.last)
	go l.run()
	return l, nil
}

// OpenFile opens or creates the file without a store, for code that fills it with rows. No server may use it meanwhile.
func OpenFile(ctx context.Context, path string, g sqlitedb.Guard, log *slog.Logger) (*sqlitedb.DB, error) {
	db, err := sqlitedb.Open(ctx, path, sqlitedb.Options{AppID: appID, Migrations: migrations, Guard: g, Log: log}, nil)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	return db, nil
}

// prepare reads the state of the log. Commits need not reach the disk: a crash may lose the last events anyway, and an fsync every 25 ms
// would slow down the mailbox's fsyncs.
func (l *Log) prepare(c *sqlite.Conn) error {
	if err := sqlitex.ExecuteTransient(c, "PRAGMA synchronous=normal", nil); err != nil {
		return err
	}
	return sqlitedb.EachOnce(c, "SELECT last_id FROM log", nil, func(row *sqlite.Stmt) error {
		l.last = uint64(row.ColumnInt64(0)) // written by us, positive
		return nil
	})
}

// Emit queues events. It never blocks; if the queue is full the oldest events are dropped and counted.
func (l *Log) Emit(evs []event.Event) { l.queue.Emit(evs) }

// Last returns the newest assigned id.
func (l *Log) Last() uint64 { return l.queue.Last() }

// Stats returns the current figures.
func (l *Log) Stats() eventlog.Stats { return l.queue.Stats() }

// Metrics are the log's own.
func (l *Log) Metrics() prometheus.Collector { return l.queue }

// DB is the database beneath.
func (l *Log) DB() *sqlitedb.DB { return l.db }

// Trim frees the memory of cached pages.
func (l *Log) Trim() { l.db.Trim() }

// Close writes the queued events, ends all followers and closes the file.
func (l *Log) Close() error {
	if !l.queue.Close() {
		<-l.done
		return nil
	}
	close(l.stop)
	<-l.done
	l.tails.Close()
	return l.db.Close()
}
