package sqlitedb

import (
	"context"
	"sync/atomic"

	"zombiezen.com/go/sqlite"
)

// funcOp is a function as an op; it fails alone, through a savepoint.
type funcOp struct {
	fn    func(*sqlite.Conn) error
	rows  int
	err   error
	state atomic.Int32 // 0: queued, 1: taken, 2: abandoned
	done  chan error
}

func (o *funcOp) Apply(c *sqlite.Conn) error {
	if !o.state.CompareAndSwap(0, 1) && o.state.Load() == 2 {
		return nil
	}
	if err := step(c, "SAVEPOINT op"); err != nil {
		return err
	}
	if o.err = o.fn(c); o.err != nil {
		if c.AutocommitEnabled() { // SQLite itself has undone everything
			return o.err
		}
		if err := step(c, "ROLLBACK TO op"); err != nil {
			return err
		}
	}
	return step(c, "RELEASE op")
}

func (o *funcOp) Done(err error) {
	if o.err != nil {
		err = o.err
	}
	o.done <- err
}

func (o *funcOp) Size() (rows, bytes int) { return o.rows, 256 * o.rows }

// Do runs fn inside the next commit and returns once that is on disk. If fn fails, only its changes are undone. fn may run again if the
// commit fails because of another op. Once fn has started, Do waits for it even if ctx ends.
func (db *DB) Do(ctx context.Context, fn func(*sqlite.Conn) error) error {
	return db.DoFor(ctx, "", fn)
}

// DoFor is Do for an app; apps take turns.
func (db *DB) DoFor(ctx context.Context, app string, fn func(*sqlite.Conn) error) error {
	return db.do(ctx, app, &funcOp{fn: fn, rows: 1, done: make(chan error, 1)}, false)
}

// DoBulk is Do for background work of about so many rows (at most 500), which yields to everything else.
func (db *DB) DoBulk(ctx context.Context, rows int, fn func(*sqlite.Conn) error) error {
	return db.DoBulkFor(ctx, "", rows, fn)
}

// DoBulkFor is DoBulk for an app; apps take turns in background work, too.
func (db *DB) DoBulkFor(ctx context.Context, app string, rows int, fn func(*sqlite.Conn) error) error {
	return db.do(ctx, app, &funcOp{fn: fn, rows: rows, done: make(chan error, 1)}, true)
}

func (db *DB) do(ctx context.Context, app string, op *funcOp, bulk bool) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	db.w.submit(queued{op: op, app: app}, bulk)
	select {
	case err := <-op.done:
		return db.w.judge(err) // the error undid only this function's changes, so it has not been judged yet
	case <-ctx.Done():
		if op.state.CompareAndSwap(0, 2) {
			return context.Cause(ctx)
		}
		return <-op.done
	}
}
