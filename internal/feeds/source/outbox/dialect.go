package outbox

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"strings"
	"time"
)

const (
	answerWithin = 10 * time.Second // a statement
)

// dialect is what differs between the databases' SQL.
type dialect struct {
	label   string
	about   string
	finding string
	none    string // a condition that no row meets
	lock    string // after a SELECT, so that another transaction's rows are passed over
	holds   bool   // a page is read and finished in one transaction; otherwise one that finishes it, since it locks out all writers
	current bool   // a locking SELECT sees what commits while it reads, so rows of one writer may be missing before later ones
	quote   func(name string) string
	param   func(n int) string             // the nth parameter, from 1 on
	text    func(expression string) string // the same text for a value whenever it is read
	cut     func(expression string) string // the first maxBody + 1 characters as text
	age     func(expression string) string // seconds since a time
}

// conn is a connection to a database. After an error, and after its context has ended, it can only be closed.
type conn interface {
	// columns returns the columns of a table, and indexes the first column of each of its indexes.
	columns(ctx context.Context, t *table) ([]column, error)
	indexes(ctx context.Context, t *table) ([]index, error)
	// query calls each with the values of rows as texts, valid during the call; nil is NULL. It ends early when each returns false.
	query(ctx context.Context, sql string, args []arg, each func(values [][]byte) bool) error
	// exec executes a statement in a transaction, and returns the number of rows that it has changed.
	exec(ctx context.Context, sql string, args []arg) (int64, error)
	// begin begins a transaction. sole reports that no other reader of the table has one, whose rows would be passed over. The database knows
	// readers by a lock named after the table, and frees that after the rows.
	begin(ctx context.Context) (sole bool, err error)
	commit(ctx context.Context) error
	// rollback ends a transaction that was not committed; without one it does nothing.
	rollback()
	// wait returns when the database tells of new rows, or after a time. It reports whether it was woken.
	wait(ctx context.Context, most time.Duration) (woken bool, err error)
	close()
}

//go:embed schema/*.sql
var schemas embed.FS

// schemaOf is the table of a dialect as SQL.
func schemaOf(name string) string {
	text, _ := schemas.ReadFile("schema/" + name + ".sql") // is there, as a test makes sure
	return string(text)
}

// quoted is an identifier of standard SQL.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// lockOf is the number of the lock that readers of a table hold.
func lockOf(table string) int64 {
	sum := sha256.Sum256([]byte("godwit outbox " + table))
	return int64(binary.BigEndian.Uint64(sum[:])) // any number will do
}

// rest waits until a time has passed.
func rest(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
