package mailboxdb

import (
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// OpenApart is what a row has in open that does not say itself whether it is settled: Ends does.
const OpenApart = openApart

// End is how a copy ended.
type End struct {
	As        notification.Status
	Attempts  uint32
	At        int64 // ms
	Delivered int64 // ms; ≤ 0: not known
}

// Ends tells how copies ended whose rows do not say so, from one snapshot of the file, for who copies it elsewhere.
type Ends struct {
	c       *sqlite.Conn
	folded  int64
	settled map[int64]outcome // after folded; nil: not read yet
	first   int64
	list    []outcome // of the stretch that begins at first
}

// EndsOn is Ends on a connection, until its snapshot ends.
func EndsOn(c *sqlite.Conn) (*Ends, error) {
	e := &Ends{c: c}
	err := sqlitedb.Each(c, "SELECT value FROM meta WHERE name = 'folded_pos'", nil, func(st *sqlite.Stmt) error {
		e.folded = st.ColumnInt64(0)
		return nil
	})
	return e, err
}

// Of is how the copy at a position ended; ok is false if it waits.
func (e *Ends) Of(pos int64) (end End, ok bool, err error) {
	o, err := e.of(pos)
	if err != nil {
		return end, false, fmt.Errorf("how the notification at %d ended: %w", pos, err)
	}
	return End{As: o.as, Attempts: o.attempts, At: o.at, Delivered: o.delivered}, o.as != 0, nil
}

func (e *Ends) of(pos int64) (o outcome, err error) {
	if pos > e.folded {
		if e.settled == nil {
			e.settled = make(map[int64]outcome)
			err = eachSettled(e.c, func(q *settled) { e.settled[q.pos] = q.outcome })
		}
		return e.settled[pos], err
	}
	if place := pos - e.first; place < 0 || place >= int64(len(e.list)) {
		e.list = nil
		err := sqlitedb.Each(e.c, selectOutcomes, []any{pos}, func(st *sqlite.Stmt) (err error) {
			e.first = st.ColumnInt64(0)
			e.list, err = decodeOutcomes(blob(st, 1))
			return err
		})
		if err != nil {
			return o, err
		}
	}
	if place := pos - e.first; place >= 0 && place < int64(len(e.list)) {
		o = e.list[place]
	}
	if o.as == 0 {
		err = errOutcomes
	}
	return o, err
}

// eachSettled reads what commits have settled, in their order.
func eachSettled(c *sqlite.Conn, yield func(*settled)) error {
	return sqlitedb.Each(c, "SELECT key, data FROM settlement ORDER BY key", nil, func(st *sqlite.Stmt) error {
		if err := decodeSettled(blob(st, 1), yield); err != nil {
			return fmt.Errorf("settlement %d: %w", st.ColumnInt64(0), err)
		}
		return nil
	})
}
