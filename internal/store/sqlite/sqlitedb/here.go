package sqlitedb

import (
	"fmt"
	"runtime/debug"
)

// SubmitHere is Submit for who waits for the op: if nobody commits now, what is queued is committed on the caller's goroutine. Where
// there is little to do, waking the writer and waiting for it would cost as much as the commit. It reports whether it has committed; if
// not, the writer does.
func (db *DB) SubmitHere(app string, op Op) bool {
	db.w.enqueue(queued{op: op, app: app}, false)
	return db.w.commitHere()
}

// commitHere commits what is queued, if nobody does now.
func (w *writer) commitHere() bool {
	if !w.turn.TryLock() {
		w.notify() // whoever commits may not have seen what was queued last
		return false
	}
	defer w.turn.Unlock()
	defer EndOnPanic()
	w.take()
	return w.commitTaken(true) // what is queued meanwhile has woken the writer, who waits for the turn
}

// EndOnPanic is deferred: it ends the process if what the caller does in a goroutine's place panics, as it would there, whatever the
// caller does about panics of its own: what is in memory may differ from what is on disk by then.
func EndOnPanic() {
	if r := recover(); r != nil {
		what := fmt.Sprintf("%v\n\n%s", r, debug.Stack())
		go func() { panic(what) }()
		select {}
	}
}
