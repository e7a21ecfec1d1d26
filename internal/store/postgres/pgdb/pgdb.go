// Package pgdb has what the PostgreSQL stores share: connections to one schema, its migrations, transactions with retries, one clock for
// all nodes, and leases.
package pgdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Limits.
const (
	// connectWithin bounds one attempt to connect.
	connectWithin = 5 * time.Second
	// AnswerWithin bounds one transaction: a database that takes longer counts as away, also for callers without a deadline.
	AnswerWithin = 15 * time.Second
	// idleWithin is how long the server keeps the idle transaction of a node that was stopped or whose machine is lost: other nodes wait
	// for the rows that it has locked. A live node sends its next statement within milliseconds; a later one begins its transaction again.
	idleWithin = time.Second
	// defaultConns suffices for work that comes in batches; stores with more concurrent work set MaxConns.
	defaultConns = 4
)

// Config names the database and schema of a store's tables. URL and Schema are needed.
type Config struct {
	// Reach watches whether the database can be reached, for all its schemas; nil: nothing does.
	Reach      *Reach
	URL        string           // in libpq's forms: postgres://user@host/database, or key=value pairs
	Schema     string           // created if it is missing; it holds this store's tables alone
	Migrations fs.FS            // *.sql, applied in the order of their names, each once; a file that was released never changes
	MaxConns   int              // connections at most; 0: 4
	Settings   string           // SET statements for each connection; empty: none
	Now        func() time.Time // nil: the database's time
	Log        *slog.Logger     // nil: discards
}

// DB is a schema of a PostgreSQL database.
type DB struct {
	pool   *pgxpool.Pool
	schema string
	now    func() time.Time
	log    *slog.Logger
	clock  *clock // nil if Config.Now is set
	closed atomic.Bool
}

// ErrClosed is the error of all calls after Close.
var ErrClosed = errors.New("store is closed")

// Open connects, checks that the database is suitable for a store, and brings its schema up to date.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	db, err := open(ctx, cfg, func(ctx context.Context, db *DB) error { return db.migrate(ctx, cfg.Migrations) })
	if err != nil {
		return nil, fmt.Errorf("open schema %s: %w", cfg.Schema, err)
	}
	return db, nil
}

// Migrate brings a schema up to date, for code that reads or fills its tables without a store.
func Migrate(ctx context.Context, cfg Config) error {
	cfg.MaxConns, cfg.Now = 2, time.Now // checkSessions compares two
	db, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	db.Close()
	return nil
}

// Connect connects and checks as Open does, but uses no schema of its own and changes nothing.
func Connect(ctx context.Context, cfg Config) (*DB, error) {
	cfg.Schema = "pg_catalog"
	return open(ctx, cfg, func(context.Context, *DB) error { return nil })
}

func open(ctx context.Context, cfg Config, prepare func(context.Context, *DB) error) (db *DB, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	db = &DB{schema: cfg.Schema, now: cfg.Now, log: cfg.Log}
	if db.pool, err = newPool(ctx, cfg); err != nil {
		return nil, err
	}
	// The checks come first, so that a rejected database is not changed.
	for _, step := range []func(context.Context) error{
		db.checkServer,
		db.checkSessions,
		func(ctx context.Context) error { return prepare(ctx, db) },
		db.startClock,
	} {
		if err := step(ctx); err != nil {
			db.pool.Close()
			return nil, Explain(err)
		}
	}
	return db, nil
}

func newPool(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	if cfg.URL == "" || cfg.Schema == "" {
		return nil, errors.New("no address of a PostgreSQL database, or no name of a schema")
	}
	c, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, err // passwords are left out
	}
	c.MaxConns = int32(max(cfg.MaxConns, 0)) // tens
	if c.MaxConns == 0 {
		c.MaxConns = defaultConns
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = connectWithin
	}
	if c.ConnConfig.ValidateConnect == nil {
		// Among several hosts, connect to the primary, and not to a former one.
		c.ConnConfig.ValidateConnect = validateWritable
	}
	// Sent by SET rather than as startup parameters: a pooler in session mode rejects startup parameters that it does not know.
	settings := fmt.Sprintf("SET search_path = %s; SET application_name = %s; SET idle_in_transaction_session_timeout = %d",
		pgx.Identifier{cfg.Schema}.Sanitize(), quote(takeName(c.ConnConfig)), idleWithin.Milliseconds()) + ";" + serverKeepAlive + ";" + cfg.Settings
	c.ConnConfig.DialFunc = cfg.Reach.dial(dial(c.ConnConfig.ConnectTimeout))
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.PgConn().Exec(ctx, settings).ReadAll(); err != nil {
			return err
		}
		return readTimeline(ctx, conn)
	}
	return pgxpool.NewWithConfig(ctx, c)
}

// takeName removes the application name from the startup parameters and returns it.
func takeName(c *pgx.ConnConfig) string {
	name := c.RuntimeParams["application_name"]
	delete(c.RuntimeParams, "application_name")
	return cmp.Or(name, "godwit")
}

// Pool is the pool of connections. Their search_path is the schema.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// Schema is the name of the schema.
func (db *DB) Schema() string { return db.schema }

// Now is the time that all stores use: the database's, or Config.Now's.
func (db *DB) Now() time.Time { return db.now() }

// Clock is Now as a function.
func (db *DB) Clock() func() time.Time { return db.now }

// Close waits until all connections are unused, and closes them.
func (db *DB) Close() {
	if db.closed.Swap(true) {
		return
	}
	if db.clock != nil {
		db.clock.close()
	}
	db.pool.Close()
}
