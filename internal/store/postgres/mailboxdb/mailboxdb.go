// Package mailboxdb stores mailboxes in a PostgreSQL schema, for any number of nodes at once. DESIGN.md in internal/store/postgres gives
// the reasons for its design.
package mailboxdb

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/engine/stage"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/notes"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

//go:embed schema/*.sql
var schema embed.FS

// Migrations returns the scripts of the schema's tables, for code that reads or fills these without a store.
func Migrations() (fs.FS, error) {
	scripts, err := fs.Sub(schema, "schema")
	if err != nil {
		return nil, fmt.Errorf("read the tables of the mailboxes: %w", err)
	}
	return scripts, nil
}

// Config configures the mailboxes' store. Only URL is required; the zero values of the other fields are good defaults.
type Config struct {
	URL string
	// Reach watches whether the database can be reached; nil: nothing does.
	Reach      *pgdb.Reach
	Schema     string           // "" is godwit_mailbox
	MaxPending int              // limits the unsettled notifications of one recipient; 0: 1000
	Tellers    int              // goroutines that report a large commit of a lane; 0: half of the cores, divided by the lanes
	Lanes      int              // commits under way at once, at most shards; 0: 2. More rows in each commit save work; more commits do not
	Node       string           // this node's name, for the record of attempts
	NoAttempts bool             // attempts to deliver copies to connections are not recorded
	Now        func() time.Time // the store's one clock; nil: the database's
	Log        *slog.Logger     // nil: discards

	hour          time.Duration // the period that the tables of an hour cover; shorter in tests
	rewriteWithin time.Duration // see sizes.go; longer in tests
	parkFor       time.Duration // see stuck.go; longer in tests
}

func (c *Config) setDefaults() {
	if c.Schema == "" {
		c.Schema = defaultSchema
	}
	if c.MaxPending == 0 {
		c.MaxPending = 1000
	}
	if c.Lanes <= 0 {
		c.Lanes = 2
	}
	c.Lanes = min(c.Lanes, shards)
	if c.Tellers <= 0 {
		c.Tellers = max(1, runtime.GOMAXPROCS(0)/2/c.Lanes)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.hour == 0 {
		c.hour = time.Hour
	}
	if c.parkFor == 0 {
		c.parkFor = parkFor
	}
	if c.rewriteWithin == 0 {
		c.rewriteWithin = rewriteWithin
	}
}

// readers is the number of connections in addition to the lanes': for reads, upkeep and notes.
const readers = 6

// Store is a mailbox.Store.
type Store struct {
	cfg    Config
	db     *pgdb.DB
	now    func() time.Time
	obs    atomic.Pointer[mailbox.Observer]
	tables tables
	lanes  []*lane
	notes  notes.Notes
	counts counts
	sizes  sizes

	divert atomic.Pointer[func([]*mailbox.Settle) bool] // nil: there is no other node

	dues, expiries deadlines

	closing   chan struct{}
	wg        sync.WaitGroup // waits for the lanes and the notes
	closeOnce sync.Once

	commits, appends atomic.Uint64
	used             atomic.Bool // inboxes have or had items
	full             atomic.Bool // the database's disk was full a moment ago
}

var (
	_ mailbox.Store    = (*Store)(nil)
	_ mailbox.Diverter = (*Store)(nil)
)

// Open opens the mailboxes of a database, and creates missing tables.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg.setDefaults()
	migrations, err := Migrations()
	if err != nil {
		return nil, fmt.Errorf("open mailboxes: %w", err)
	}
	db, err := pgdb.Open(ctx, pgdb.Config{
		URL: cfg.URL, Reach: cfg.Reach, Schema: cfg.Schema, Migrations: migrations, MaxConns: cfg.Lanes + readers, Settings: settings, Now: cfg.Now, Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("open mailboxes: %w", err)
	}
	s := &Store{cfg: cfg, db: db, now: db.Clock(), closing: make(chan struct{})}
	s.notes.NoAttempts = cfg.NoAttempts
	s.tables.s = s
	s.dues.column, s.dues.of = "send_at", "seq = 0"
	s.expiries.column, s.expiries.of = "expires_at", "true"
	if err := s.tables.ensure(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("open mailboxes: %w", err)
	}
	if err := s.lookUsed(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("open mailboxes: look into inboxes: %w", err)
	}
	for i := range cfg.Lanes {
		l := newLane(s, i)
		s.lanes = append(s.lanes, l)
		s.wg.Go(func() {
			stage.Mark("lane", i)
			l.run()
		})
	}
	s.wg.Go(s.keepNoting)
	s.wg.Go(s.tables.keep)
	return s, nil
}

// Close writes what is queued and closes the connections. Calls under way end first.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		for _, l := range s.lanes {
			l.close()
		}
		close(s.closing)
		s.wg.Wait()
		s.writeNotes(s.notes.TakeAll())
		s.db.Close()
	})
	return nil
}

// settings of connections: PostgreSQL makes one plan for all parameters, and plans use indexes, since new tables have no statistics.
const settings = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off"

// openAt joins q(recipient, pos) with pending p along its key, row by row. The planner considers a table with few live rows cheaper to read
// whole, however many dead rows it has. Rows are many, and dead rows remain while any transaction is open, so this took a tenth of a second
// for each commit. The planner does not recognize a list of one element as an equality, by which it could merge tables.
const openAt = "p.recipient = ANY(ARRAY[q.recipient]) AND p.pos = q.pos"

func (s *Store) closed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// Observe implements mailbox.Store. Each lane reports the changes of its own recipients.
func (s *Store) Observe(obs mailbox.Observer) { s.obs.Store(&obs) }

// Divert implements mailbox.Diverter.
func (s *Store) Divert(by func([]*mailbox.Settle) bool) { s.divert.Store(&by) }

// Clock implements mailbox.Store.
func (s *Store) Clock() func() time.Time { return s.now }

func (s *Store) nowMS() int64 { return s.now().UnixMilli() }

// LookAgain implements mailbox.Store: other nodes publish copies that become due here.
func (s *Store) LookAgain() time.Duration { return time.Second }

// storeError converts errors of lower layers to the errors that callers expect.
func (s *Store) storeError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case pgdb.NoSpace(err):
		s.full.Store(true)
		return fmt.Errorf("%s: %w: %w", op, mailbox.ErrNoSpace, err)
	case errors.Is(err, pgdb.ErrClosed) || s.closed() && !errors.Is(err, mailbox.ErrClosed):
		return fmt.Errorf("%s: %w: %w", op, mailbox.ErrClosed, err)
	case pgdb.Away(err), errors.Is(err, errStuck):
		return fmt.Errorf("%s: %w: %w", op, mailbox.ErrAway, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// readyWithin limits the answer of a database that counts as ready: load balancers ask every second or two.
const readyWithin = 2 * time.Second

// Ready implements mailbox.Store.
func (s *Store) Ready(ctx context.Context) error {
	if s.closed() {
		return fmt.Errorf("commit: %w", mailbox.ErrClosed)
	}
	ctx, cancel := pgdb.Within(ctx, readyWithin)
	defer cancel()
	var one int
	err := s.db.Pool().QueryRow(ctx, "SELECT 1").Scan(&one)
	return s.storeError("ask whether it is ready", pgdb.Late(ctx, err))
}
