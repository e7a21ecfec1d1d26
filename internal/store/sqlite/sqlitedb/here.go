package sqlitedb

import (
	"fmt"
	"runtime/debug"
)

// SubmitHere is Submit for a caller that waits for the op. If no goroutine is committing, it commits the queue on the caller's goroutine:
// under low load, waking the writer and waiting for it would cost as much as the commit. It reports whether it has committed; if not, the
// writer does.
func (db *DB) SubmitHere(app string, op Op) bool {
	db.w.enqueue(queued{op: op, app: app}, false)
	return db.w.commitHere()
}

// commitHere commits the queue, unless another goroutine is committing.
func (w *writer) commitHere() bool {
	if !w.turn.TryLock() {
		w.notify() // the committing goroutine may not have seen the last op
		return false
	}
	defer w.turn.Unlock()
	defer EndOnPanic()
	w.take()
	if w.left {
		w.notify() // the caller's own op may be among the remaining ones
	}
	return w.commitTaken(true) // ops queued meanwhile have woken the writer, which waits for the lock turn
}

// EndOnPanic must be deferred around work that a caller does in another goroutine's place. If that work panics, it ends the process, as the
// panic would in that goroutine, even if the caller recovers from panics: memory may then differ from the disk.
func EndOnPanic() {
	if r := recover(); r != nil {
		what := fmt.Sprintf("%v\n\n%s", r, debug.Stack())
		go func() { panic(what) }()
		select {}
	}
}
