package sqlitedb

import "zombiezen.com/go/sqlite"

// Trim frees the memory of cached pages, for times without load. It does not wait.
func (db *DB) Trim() {
	db.SubmitBulk(trimOp{})
	for range cap(db.readers) {
		select {
		case conn := <-db.readers:
			if conn != nil {
				_ = pragmas(conn, shrink) // pages that cannot be freed now stay cached
			}
			db.readers <- conn
		default:
			return
		}
	}
}

const shrink = "shrink_memory"

// trimOp frees the writing connection's pages, between commits, where it delays nothing.
type trimOp struct{}

func (trimOp) Apply(c *sqlite.Conn) error { return pragmas(c, shrink) }
func (trimOp) Done(error)                 {}
func (trimOp) Size() (rows, bytes int)    { return 1, 0 }
