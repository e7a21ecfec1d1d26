package sqlitedb

// Enqueue and CommitHere are the two halves of SubmitHere.
func (db *DB) Enqueue(app string, op Op) { db.w.enqueue(queued{op: op, app: app}, false) }

func (db *DB) CommitHere() bool { return db.w.commitHere() }
