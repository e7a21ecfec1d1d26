package sqlitedb

import (
	"fmt"
	"runtime/debug"
)

// Enqueue is Submit for who calls CommitHere next: nobody is woken.
func (db *DB) Enqueue(app string, op Op) { db.w.enqueue(queued{op: op, app: app}, false) }

// CommitHere commits what is queued on the caller's goroutine, if nobody commits now: where there is little to do, waking the writer
// and waiting for it would cost as much as the commit. It reports whether it has committed; if not, the writer does.
func (db *DB) CommitHere() bool {
	w := db.w
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
