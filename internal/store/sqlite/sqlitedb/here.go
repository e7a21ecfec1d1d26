package sqlitedb

import (
	"fmt"
	"runtime/debug"
)

// SubmitHere is Submit for a caller that waits for the op: if nobody commits now, it commits the queue on the caller's goroutine. Where
// there is little to do, waking the writer and waiting for it would cost as much as the commit. It reports whether it has committed; if
// not, the writer does.
func (db *DB) SubmitHere(app string, op Op) bool {
	db.w.enqueue(queued{op: op, app: app}, false)
	return db.w.commitHere()
}

// commitHere commits the queue, unless another goroutine is committing.
func (w *writer) commitHere() bool {
	if !w.turn.TryLock() {
		w.notify() // the goroutine that commits may not have seen the last op
		return false
	}
	defer w.turn.Unlock()
	defer EndOnPanic()
	w.take()
	if w.left {
		w.notify() // the caller's own op may be among what is left
	}
	return w.commitTaken(true) // ops queued meanwhile have woken the writer, which waits for the turn
}

// EndOnPanic is deferred: it ends the process if work that the caller does in another goroutine's place panics, as the panic would
// there, even if the caller recovers from panics: by then memory may differ from the disk.
func EndOnPanic() {
	if r := recover(); r != nil {
		what := fmt.Sprintf("%v\n\n%s", r, debug.Stack())
		go func() { panic(what) }()
		select {}
	}
}
