// Package mailboxdb stores mailboxes in one SQLite file: a log of notifications, with its index in memory. DESIGN.md in internal/store
// gives the reasons.
package mailboxdb

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var (
	//go:embed schema/0001_mailbox.sql
	schema1 string
	//go:embed schema/0002_nacks.sql
	schema2 string
	//go:embed schema/0003_replies.sql
	schema3 string
	//go:embed schema/0004_escalations.sql
	schema4 string
	//go:embed schema/0005_settlements.sql
	schema5 string
	//go:embed schema/0006_packs.sql
	schema6 string
	//go:embed schema/0007_attempts.sql
	schema7 string
	//go:embed schema/0008_inboxes.sql
	schema8 string
)

func migrations() []string {
	return []string{schema1, schema2, schema3, schema4, schema5, schema6, schema7, schema8}
}

const appID = 0x47644d62 // "GdMb": application_id of mailbox files

// Config configures a mailbox file. The zero value of every field is a good default.
type Config struct {
	MaxPending int   // unsettled notifications of one recipient; 0: 1000
	MinFree    int64 // bytes of disk below which publishes are refused; 0: 256 MB
	Ballast    int64 // bytes of a file beside the database that is deleted when the disk is full; 0: a quarter of MinFree, at most 32 MB
	MaxIdle    int   // recipients with nothing pending that are kept in memory; 0: 131072
	NoAttempts bool  // do not record attempts to deliver copies to connections
	Tellers    int   // goroutines that report commits to the observer, each for recipients of its own; 0: half as many as there are cores

	VFS   string           // of the database, for fault injection
	Guard sqlitedb.Guard   // of the file
	Fatal func(error)      // called once when the disk did not confirm a write: exit loudly
	Now   func() time.Time // the clock of the store; nil: the monotonic clock anchored now
	Log   *slog.Logger     // nil: discards

	minPacked int  // publishes with at least so many copies are packed; 0: 2. Fewer in tests
	sliceBits uint // 2^sliceBits rows are sealed together; 0: 16. Fixed for a file; smaller in tests
}

func (c *Config) setDefaults() {
	if c.MaxPending == 0 {
		c.MaxPending = 1000
	}
	if c.MinFree == 0 {
		c.MinFree = 256 << 20
	}
	if c.Ballast == 0 {
		c.Ballast = min(32<<20, c.MinFree/4)
	}
	if c.MaxIdle == 0 {
		c.MaxIdle = 1 << 17
	}
	if c.Now == nil {
		c.Now = mailbox.Clock()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Tellers == 0 {
		c.Tellers = max(1, runtime.GOMAXPROCS(0)/2)
	}
	if c.minPacked == 0 {
		c.minPacked = minPacked
	}
	if c.sliceBits == 0 {
		c.sliceBits = sliceBits
	}
}

// sliceBits: 2^sliceBits rows are sealed together.
const sliceBits = 16

// minCopyAfter is the smallest size of the log in bytes at which it is copied into the file. The ballast must hold that much, and with a
// smaller log the disk would be busy with syncs alone.
const minCopyAfter = 1 << 20

// Store is a mailbox.Store.
type Store struct {
	cfg   Config
	db    *sqlitedb.DB
	obs   atomic.Pointer[mailbox.Observer]
	space *sqlitedb.Space

	// The index. One goroutine at a time commits. Only that goroutine changes the index, holding mu, so it may read the index without mu;
	// others hold mu to read it.
	mu     sync.RWMutex
	apps   map[string]*app
	tails  []*tail // tails of slices not sealed yet, oldest first; the last one is being filled
	sealed sealedSlices
	// still is held to read while no slice is sealed or dropped. The sealer and the pruner hold it for each of their steps.
	still sync.RWMutex

	shownPos int64 // last position committed
	folded   int64 // up to this position rows or outcomes have the copies' ends; after it settlements have them, and so do tails

	// Fields that only the goroutine that commits uses.
	stmts    statements
	tx       transaction
	pos      int64 // last position given out
	packing  packing
	packRead pack          // that was read last
	contents map[int64]int // number of unsettled copies of each shared content
	boxes    map[uint32]*box
	expiries expiryQueue
	arrived  int // copies since the last look at expiries
	due      dueQueue
	steps    escalations
	counters counters
	toMark   []int64 // positions
	folding  int64   // folded, including the open transaction's changes

	nextSettlement   int64 // key of the next one
	oldestSettlement int64 // of the sealer's goroutine

	notes   noting
	untold  chan *committed // commits that the observer has not been informed of
	spare   sync.Pool       // of *committed, empty
	telling sync.Mutex      // held by the goroutine that informs the observer
	wakes   chan struct{}   // the observer may have to be informed
	tellers tellers         // which inform the observer on machines with many cores
	closing chan struct{}   // closed when no more commits follow
	seals   chan struct{}   // there may be a slice to seal
	wg      sync.WaitGroup  // of the teller
	sealer  sync.WaitGroup
	stop    context.CancelFunc

	used             atomic.Bool  // there may be an inbox with something in it
	pending, waiting atomic.Int64 // unsettled copies: due and scheduled
	appends          atomic.Uint64
	freeInside       atomic.Int64 // reusable bytes inside the file, at the last check
	prune            pruner
	closeOnce        sync.Once
	closeErr         error
}

var _ mailbox.Store = (*Store)(nil)

// maxUntold is how many commits may wait for the observer before the writer waits, too.
const maxUntold = 4

// Open opens or creates a mailbox file and loads its pending copies.
func Open(ctx context.Context, path string, cfg Config) (*Store, error) {
	cfg.setDefaults()
	s := &Store{
		cfg: cfg, apps: make(map[string]*app), contents: make(map[int64]int), boxes: make(map[uint32]*box),
		untold: make(chan *committed, maxUntold), wakes: make(chan struct{}, 1), closing: make(chan struct{}), seals: make(chan struct{}, 1),
		spare: sync.Pool{New: func() any { return new(committed) }},
	}
	s.notes.NoAttempts = cfg.NoAttempts
	space, err := sqlitedb.NewSpace(path, cfg.MinFree, cfg.Ballast)
	if err != nil {
		return nil, fmt.Errorf("open mailbox: %w", err)
	}
	s.space = space
	s.db, err = sqlitedb.Open(ctx, path, sqlitedb.Options{
		AppID: appID, Migrations: migrations(), CopyAfter: max(cfg.Ballast/2, minCopyAfter), VFS: cfg.VFS, Guard: cfg.Guard, Fatal: cfg.Fatal, Log: cfg.Log,
		Hooks: sqlitedb.Hooks{Committed: s.committed, Failed: s.failed, Lastly: s.lastly, Count: s.tally},
	}, s.prepare)
	if err != nil {
		return nil, fmt.Errorf("open mailbox: %w", err)
	}
	s.space.Inside = func() int64 { return s.freeInside.Load() - s.db.Uncopied() }
	err = s.load(ctx)
	if err == nil {
		err = s.db.NoteCount()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open mailbox %s: %w", path, err), s.db.Close())
	}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.tellers.start(s, cfg.Tellers)
	s.wg.Go(s.tell)
	s.notes.start(s)
	s.sealer.Go(func() { s.keepSealed(ctx) })
	return s, nil
}

func (s *Store) prepare(c *sqlite.Conn) error { return s.stmts.prepare(c) }

// Close waits for calls under way, writes the queued operations and closes the file.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	s.notes.close()
	s.stop()
	s.sealer.Wait()
	if err := s.flushCounters(); err != nil {
		s.cfg.Log.Warn("counters were not written; the next start reads them from the rows", "error", err)
	}
	err := s.db.Close()
	close(s.closing)
	s.wg.Wait()
	return err
}

// DB is the database beneath.
func (s *Store) DB() *sqlitedb.DB { return s.db }

// Observe implements mailbox.Store. Commits are reported in their order: one after the other, or each recipient's.
func (s *Store) Observe(obs mailbox.Observer) { s.obs.Store(&obs) }

// Clock implements mailbox.Store.
func (s *Store) Clock() func() time.Time { return s.cfg.Now }

func (s *Store) now() int64 { return s.cfg.Now().UnixMilli() }

// Trim frees the memory of cached pages.
func (s *Store) Trim() { s.db.Trim() }

// Stats implements mailbox.Store.
func (s *Store) Stats() mailbox.Stats {
	free, full := s.space.State()
	return mailbox.Stats{
		Pending: s.pending.Load(), Scheduled: s.waiting.Load(), Queued: s.db.Queued(), Commits: s.db.Commits(),
		Appends: s.appends.Load(), FreeBytes: free, Full: full,
	}
}

// storeError wraps an error of a lower layer in the corresponding error for callers.
func storeError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqlitedb.ErrClosed):
		return fmt.Errorf("%s: %w", op, mailbox.ErrClosed)
	case sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull:
		return fmt.Errorf("%s: %w: %w", op, mailbox.ErrNoSpace, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}
