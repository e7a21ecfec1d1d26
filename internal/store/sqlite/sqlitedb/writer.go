package sqlitedb

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lib "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/engine/stage"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// Limits of one commit and of the ops that may wait for the writer.
const (
	maxCommitOps   = 1000    // rows; a larger group saves nothing, unless the disk is slow: see grow
	maxCommitBytes = 4 << 20 // limits how long a commit delays others
	maxBulkRows    = 500     // background work is done in small slices, so that a publish never waits long for one
	maxBulkBytes   = 1 << 20
	maxQueuedBytes = 64 << 20 // bytes waiting for the writer; beyond that callers wait

	lazyDelay    = 5 * time.Millisecond  // how long a lazy op waits for another op's commit
	bulkPatience = 20 * time.Millisecond // after this delay a commit includes a slice of background work although publishes are queued
)

// Op is one piece of work in a commit.
type Op interface {
	// Apply does the work inside the transaction. An error undoes the whole transaction.
	Apply(c *sqlite.Conn) error
	// Done receives the result, once, unless a hook handles it. It must not block.
	Done(err error)
	// Size returns roughly how many rows and bytes the op writes.
	Size() (rows, bytes int)
}

// Hooks let the owner of a file take part in every commit. They run on the goroutine that commits, one at a time; each may be nil.
type Hooks struct {
	// Committed receives the ops of a commit, whose Done is not called then. The slice is reused. here: SubmitHere makes the commit.
	Committed func(ops []Op, here bool)
	// Failed receives the ops of a transaction that was rolled back, whose Done is not called then, and returns those to be retried
	// immediately. The slice is reused.
	Failed func(ops []Op, err error) (again []Op)
	// Lastly, if not nil, runs at the end of a transaction, after all ops have done their work.
	Lastly func(*sqlite.Conn) error
	// Count counts the stored rows, including the open transaction's changes, so that a repair can report how many are missing. The counts
	// are recorded beside the log with each commit.
	Count func(*sqlite.Conn) (Tally, error)
}

// Tally is what Hooks.Count counts.
type Tally = walfile.Tally

// FatalError reports that data may not have reached the disk although the operating system accepted it.
type FatalError struct{ Err error }

func (e *FatalError) Error() string { return "the disk did not confirm a write: " + e.Err.Error() }
func (e *FatalError) Unwrap() error { return e.Err }

// DamageError reports that a database differs from what was written.
type DamageError struct {
	Path string
	Err  error
}

func (e *DamageError) Error() string {
	return "the database " + e.Path + " is damaged, so nothing more is stored: " + e.Err.Error()
}

// Unwrap returns the cause, and the error that a capability reports to its callers.
func (e *DamageError) Unwrap() []error {
	what := strings.TrimPrefix(e.Err.Error(), filepath.Dir(e.Path)+string(filepath.Separator))
	return []error{e.Err, &mailbox.DamagedError{What: what}}
}

type queued struct {
	op   Op
	app  string
	lazy bool
}

type writer struct {
	db    *DB
	conn  *sqlite.Conn
	hooks Hooks

	mu      sync.Mutex
	shrunk  *sync.Cond // signalled when queued bytes shrink
	fast    []queued
	byApp   turns
	bulk    turns
	waits   time.Time // since when queued bulk work has waited for its next slice
	urgent  int       // entries of fast that are not lazy, and all of byApp
	bytes   int
	lazies  int       // lazy entries of fast
	lazier  time.Time // since when the first lazy entry has waited
	lazyDue bool
	timer   *time.Timer // wakes for lazy entries; running iff armed
	armed   bool
	closed  bool

	turn    sync.Mutex // held by the goroutine that commits, the writer's or a caller's: it owns conn, batch and disk
	dead    atomic.Pointer[refusalError]
	wake    chan struct{}
	done    chan struct{}
	commits atomic.Uint64
	restart atomic.Int64 // if not 0, the checkpointer wants the log restarted, which has so many bytes

	// The approximate number of bytes in the log that are not in the file yet, and the checkpointer's wake-up channel.
	uncopied   atomic.Int64
	copyNow    chan struct{}
	complained atomic.Int64

	batch lot
	left  bool          // the commit has no room for all urgent ops
	disk  time.Duration // time that recent commits took on the disk
}

func newWriter(db *DB) *writer {
	w := &writer{db: db, hooks: db.opts.Hooks, wake: make(chan struct{}, 1), done: make(chan struct{}), copyNow: make(chan struct{}, 1)}
	w.shrunk = sync.NewCond(&w.mu)
	w.timer = time.AfterFunc(time.Hour, w.lazyElapsed)
	w.timer.Stop()
	return w
}

// Submit adds an op to the next commit. It waits while too much is queued. Ops of one app are applied in the order in which they were
// submitted. Apps take turns, so that an app that writes much delays only itself. Ops without an app, "", are for work that must not wait
// for these turns.
func (db *DB) Submit(app string, op Op) { db.w.submit(queued{op: op, app: app}, false) }

// SubmitLazy is Submit for an op that may wait up to 5 ms to share another op's commit. SubmitLazy never waits itself.
func (db *DB) SubmitLazy(op Op) { db.w.submit(queued{op: op, lazy: true}, false) }

// SubmitBulk submits background work, which yields to everything else. An op should have at most 500 rows or 1 MB.
func (db *DB) SubmitBulk(op Op) { db.w.submit(queued{op: op}, true) }

// Commits counts transactions since opening.
func (db *DB) Commits() uint64 { return db.w.commits.Load() }

// Queued counts ops waiting for the writer.
func (db *DB) Queued() int {
	db.w.mu.Lock()
	defer db.w.mu.Unlock()
	return len(db.w.fast) + db.w.byApp.ops + db.w.bulk.ops
}

// submit queues an op and wakes the writer, unless the op is lazy.
func (w *writer) submit(q queued, bulk bool) {
	if w.enqueue(q, bulk) && !q.lazy {
		w.notify()
	}
}

// enqueue queues an op; false: the op is refused, and its Done has been called.
func (w *writer) enqueue(q queued, bulk bool) bool {
	_, bytes := q.op.Size()
	queue := &w.byApp
	if bulk {
		queue = &w.bulk
	}
	w.mu.Lock()
	for !q.lazy && w.crowded(queue, q.app) && w.refusal() == nil {
		w.shrunk.Wait()
	}
	if err := w.refusal(); err != nil {
		w.mu.Unlock()
		q.op.Done(err)
		return false
	}
	defer w.mu.Unlock()
	w.bytes += bytes
	switch {
	case bulk:
		if w.bulk.ops == 0 {
			w.waits = time.Now()
		}
		w.bulk.add(q.app, q.op, bytes)
	case q.lazy:
		w.fast = append(w.fast, q)
		if w.lazies++; w.lazies == 1 {
			w.lazier = time.Now()
		}
		if !w.armed {
			w.armed = true
			w.timer.Reset(lazyDelay)
		}
	case q.app != "":
		w.byApp.add(q.app, q.op, bytes)
		w.urgent++
	default:
		w.fast = append(w.fast, q)
		w.urgent++
	}
	return true
}

// crowded reports whether an op must wait before it is queued. An app may have as many bytes queued as are left for others.
func (w *writer) crowded(queue *turns, app string) bool {
	left := maxQueuedBytes - w.bytes
	own := 0
	if t := queue.of[app]; app != "" && t != nil {
		own = t.bytes
	}
	return left < 0 || own > 0 && own > left
}

func (w *writer) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// lazyElapsed requests a commit if a lazy entry has waited long enough. The entries for which the timer was set may have been committed
// with others since.
func (w *writer) lazyElapsed() {
	w.mu.Lock()
	left := lazyDelay - time.Since(w.lazier)
	w.lazyDue = w.lazies > 0 && left <= 0
	if w.armed = w.lazies > 0 && left > 0; w.armed && !w.closed {
		w.timer.Reset(left)
	}
	due := w.lazyDue
	w.mu.Unlock()
	if due {
		w.notify()
	}
}

func (w *writer) run() {
	defer close(w.done)
	stage.Mark("writer of "+filepath.Base(w.db.path), 0)
	for {
		w.turn.Lock()
		if n := w.restart.Swap(0); n > 0 {
			w.restartLog(n)
		}
		more := w.take()
		did := w.commitTaken(false)
		if !did && !more {
			return // with turn locked, so that nothing is committed any more
		}
		w.turn.Unlock()
		if !did {
			<-w.wake
		}
	}
}

// commitTaken commits the ops that were taken; false: there were none. The caller holds turn.
func (w *writer) commitTaken(here bool) bool {
	if len(w.batch.ops) == 0 {
		return false
	}
	w.commit(here)
	w.batch.empty()
	return true
}

// commit commits the batch, including ops that are added meanwhile.
func (w *writer) commit(here bool) {
	for ops, first := w.batch.ops, true; len(ops) > 0; first = false {
		if dead := w.dead.Load(); dead != nil {
			finish(ops, dead.error)
			return
		}
		err := w.transact(ops, first)
		if first {
			ops = w.batch.ops
		}
		if err == nil {
			w.commits.Add(1)
			w.wrote(int64(w.batch.bytes))
			if w.hooks.Committed != nil {
				w.hooks.Committed(ops, here)
			} else {
				finish(ops, nil)
			}
			return
		}
		err = w.judge(err)
		if w.hooks.Failed == nil {
			finish(ops, err)
			return
		}
		ops = w.hooks.Failed(ops, err)
	}
}

func finish(ops []Op, err error) {
	for _, op := range ops {
		op.Done(err)
	}
}

func (w *writer) transact(ops []Op, grows bool) error {
	if err := step(w.conn, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	began := time.Now()
	err := w.apply(ops)
	if grows && err == nil {
		err = w.grow(began)
	}
	if err == nil && w.hooks.Lastly != nil {
		err = w.hooks.Lastly(w.conn)
	}
	if err == nil && w.hooks.Count != nil {
		var t Tally
		t, err = w.hooks.Count(w.conn)
		w.db.file.Count(t)
	}
	if err == nil {
		began = time.Now()
		if err = step(w.conn, "COMMIT"); err == nil {
			w.took(time.Since(began))
			return nil
		}
		err = fmt.Errorf("commit: %w", err)
	}
	if !w.conn.AutocommitEnabled() {
		if rerr := step(w.conn, "ROLLBACK"); rerr != nil {
			err = errors.Join(err, fmt.Errorf("roll back: %w", rerr))
		}
	}
	return err
}

func (w *writer) apply(ops []Op) error {
	for _, op := range ops {
		if err := op.Apply(w.conn); err != nil {
			return err
		}
	}
	return nil
}

// refusalError is the reason why all writes are refused.
type refusalError struct{ error }

func (w *writer) refusal() error {
	if dead := w.dead.Load(); dead != nil {
		return dead.error
	}
	if w.closed {
		return ErrClosed
	}
	return nil
}

// judge ends writing for good if an error means that the file or the disk cannot be trusted any more; it returns the error, wrapped
// accordingly.
func (w *writer) judge(err error) error {
	var fatal *FatalError
	var damage *DamageError
	switch code := sqlite.ErrCode(err); {
	case err == nil, errors.As(err, &fatal), errors.As(err, &damage):
	case code == sqlite.ResultIOErrFsync || code == sqlite.ResultIOErrDirFsync:
		err = &FatalError{Err: err}
		w.refuse(err, "the disk did not confirm a write; writing stops", w.db.opts.Fatal)
	case isDamage(code):
		err = &DamageError{Path: w.db.path, Err: err}
		w.refuse(err, damageFound, w.db.opts.Guard.Damaged)
	}
	return err
}

func isDamage(code sqlite.ResultCode) bool {
	return code == resultIOErrData || code.ToPrimary() == sqlite.ResultCorrupt || code.ToPrimary() == sqlite.ResultNotADB
}

// resultIOErrData is the result of a read that got a page with a wrong checksum.
const resultIOErrData = sqlite.ResultCode(lib.SQLITE_IOERR_DATA)

// damaged is called for pages that differ from the written ones, whoever read them.
func (w *writer) damaged(err error) {
	w.refuse(&DamageError{Path: w.db.path, Err: err}, damageFound, w.db.opts.Guard.Damaged)
}

const damageFound = "the database is damaged; writing stops. godwit doctor --verify tells more"

// refuse ends writing for good: after a failed fsync or with damaged pages the disk's contents are unknown, so no write may be retried.
func (w *writer) refuse(err error, what string, tell func(error)) {
	w.mu.Lock()
	first := w.dead.CompareAndSwap(nil, &refusalError{err})
	w.shrunk.Broadcast()
	w.mu.Unlock()
	if !first {
		return
	}
	if what != "" {
		w.db.opts.Log.Error(what, //nolint:sloglint // one of two constants
			"path", w.db.path, "error", err)
	}
	if tell != nil {
		tell(err)
	}
}

// Refusal returns the reason why writes are refused, or nil.
func (db *DB) Refusal() error {
	if dead := db.w.dead.Load(); dead != nil {
		return dead.error
	}
	return nil
}

func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.timer.Stop()
	w.shrunk.Broadcast()
	w.mu.Unlock()
	w.notify()
	<-w.done
}
