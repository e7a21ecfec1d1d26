package mailboxdb

import (
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// OpenApart is the value of a row's column open if the row does not say whether its copy is settled; Ends returns that.
const OpenApart = openApart

// End is the outcome of a copy.
type End struct {
	As        notification.Status
	Attempts  uint32
	At        int64 // ms
	Delivered int64 // ms; ≤ 0: not known
}

// Ends returns outcomes of copies whose rows do not have them, from one snapshot of the file, for code that copies the data elsewhere.
type Ends struct {
	c       *sqlite.Conn
	folded  int64
	settled map[int64]outcome // outcomes of positions after folded; nil: not read yet
	first   int64
	list    []outcome // outcomes of the stretch that begins at first
}

// EndsOn returns the Ends of a connection, valid until its snapshot ends.
func EndsOn(c *sqlite.Conn) (*Ends, error) {
	e := &Ends{c: c}
	err := sqlitedb.Each(c, "SELECT value FROM meta WHERE name = 'folded_pos'", nil, func(st *sqlite.Stmt) error {
		e.folded = st.ColumnInt64(0)
		return nil
	})
	return e, err
}

// Of returns the outcome of the copy at a position; ok is false if it is pending.
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

// Packed is a copy without a row of its own, with the values that its row would have. If Open is OpenApart, Ends returns its outcome.
type Packed struct {
	Pos, Recipient, Seq, Open, Status, Ack, Priority, BodyOffset int64
	Created, Expires, Delivered, Settled, Hash                   int64
	ID, CollapseKey                                              string
}

// EachPacked calls yield with the packed copies between two positions, in order.
func EachPacked(c *sqlite.Conn, from, to int64, yield func(*Packed) error) error {
	st, err := c.Prepare(selectPacks)
	if err != nil {
		return err
	}
	return eachPack(st, from, to, func(p *pack) error {
		for pos := max(from, p.shared.pos); pos <= min(p.last(), to); pos++ {
			r, ok := p.row(pos)
			if !ok {
				continue
			}
			open, ack := r.columns()
			err := yield(&Packed{
				Pos: pos, Recipient: int64(r.recipient), Seq: int64(r.seq), Open: open, Status: int64(r.status), Ack: ack, Priority: int64(r.priority),
				BodyOffset: int64(r.offset), Created: r.created, Expires: r.expires, Delivered: r.delivered, Settled: r.settled, Hash: r.hash,
				ID: r.id, CollapseKey: r.collapse,
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// CountPacked counts them all.
func CountPacked(c *sqlite.Conn) (n int64, err error) {
	err = sqlitedb.Each(c, "SELECT ends FROM pack", nil, func(st *sqlite.Stmt) error {
		for ends := blob(st, 0); len(ends) >= endBytes; ends = ends[endBytes:] {
			if ends[0] != endOut {
				n++
			}
		}
		return nil
	})
	return n, err
}

// eachSettled reads the settlements that commits have stored, in order.
func eachSettled(c *sqlite.Conn, yield func(*settled)) error {
	return sqlitedb.Each(c, "SELECT key, data FROM settlement ORDER BY key", nil, func(st *sqlite.Stmt) error {
		if err := decodeSettled(blob(st, 1), yield); err != nil {
			return fmt.Errorf("settlement %d: %w", st.ColumnInt64(0), err)
		}
		return nil
	})
}
