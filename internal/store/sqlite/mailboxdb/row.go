package mailboxdb

import (
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/attempts"
	"godwit.dev/godwit/internal/store/content"
)

// row is the stored form of one copy.
type row struct {
	pos          int64
	recipient    uint32
	open         bool // not known to be settled
	apart        bool // the row does not say whether the copy is settled
	status       notification.Status
	ack          notification.AckMode
	asks         bool // for a reply
	priority     notification.Priority
	attempts     uint32
	offset       int16
	seq          uint64
	created      int64
	sendAt       int64
	expires      int64
	delivered    int64 // not known if ≤ 0
	settled      int64 // open if ≤ 0
	hash         int64
	id, collapse string
	via          attempts.Via // of how it ended apart
}

func scanRow(s *sqlite.Stmt) (r row) {
	r.pos = s.ColumnInt64(0)
	r.recipient = uint32(s.ColumnInt64(1))
	open := s.ColumnInt32(2)
	r.open, r.apart = open != 0, open == openApart
	r.status = notification.Status(s.ColumnInt32(3))
	r.setAck(s.ColumnInt32(4))
	r.priority = notification.Priority(s.ColumnInt32(5))
	r.attempts = uint32(s.ColumnInt64(6))
	r.offset = int16(s.ColumnInt32(7))
	r.seq = uint64(s.ColumnInt64(8))
	r.created, r.sendAt, r.expires = s.ColumnInt64(9), s.ColumnInt64(10), s.ColumnInt64(11)
	r.delivered, r.settled, r.hash = s.ColumnInt64(12), s.ColumnInt64(13), s.ColumnInt64(14)
	r.id, r.collapse = s.ColumnText(15), s.ColumnText(16)
	return r
}

// setAck reads the column ack.
func (r *row) setAck(ack int32) {
	r.ack, r.asks = notification.AckMode(ack&^asksBit), ack&asksBit != 0
}

// columns returns the values of the columns open and ack.
func (r *row) columns() (open, ack int64) {
	switch {
	case r.apart:
		open = openApart
	case r.open:
		open = 1
	}
	if ack = int64(r.ack); r.asks {
		ack |= asksBit
	}
	return open, ack
}

// openApart is the value of column open if the row does not say whether the copy is settled. 1: pending; 0: settled.
const openApart = 2

// readRow reads the row of a position; ok is false if there is none.
func readRow(stmt *sqlite.Stmt, pos int64) (r row, ok bool, err error) {
	stmt.BindInt64(1, pos)
	err = each(stmt, func(s *sqlite.Stmt) error {
		r, ok = scanRow(s), true
		return nil
	})
	if err != nil {
		return row{}, false, fmt.Errorf("read notification at %d: %w", pos, err)
	}
	return r, ok, nil
}

func (r *row) contentPos() int64 {
	if r.offset == soleCopy {
		return r.pos
	}
	return r.pos - int64(r.offset)
}

func (r *row) entry() entry {
	e := entry{pos: r.pos, bits: uint64(r.expires)<<flagBits | modeFlags(r.priority, r.ack), collapse: collapseHash(r.collapse), offset: r.offset}
	if r.status == notification.Scheduled {
		e.set(flagScheduled)
	}
	if r.delivered > 0 {
		e.set(flagDelivered)
	}
	if r.asks {
		e.set(flagAsks)
	}
	return e
}

// record returns the copy's state at now: an overdue copy is expired even if its row does not say so yet.
func (r *row) record(to string, now int64) mailbox.Record {
	rec := mailbox.Record{
		ID: r.id, To: to, Status: r.status, Ack: r.ack, Priority: r.priority, Seq: r.seq, CreatedAt: fromMS(r.created),
		SendAt: fromMS(r.sendAt), ExpiresAt: fromMS(r.expires), DeliveredAt: fromMS(r.delivered), SettledAt: fromMS(r.settled),
		Attempts: r.attempts, Pos: r.pos,
	}
	if r.open && r.expires <= now {
		rec.Status, rec.SettledAt = notification.Expired, rec.ExpiresAt
	}
	return rec
}

// contents reads contents, each once.
type contents struct {
	stmt *sqlite.Stmt
	read map[int64]*notification.Notification
}

// item returns a session's item for a row. ok is false if the content is gone, since the copy was settled meanwhile.
func (c *contents) item(r *row, app, to string) (item mailbox.Item, ok bool, err error) {
	item = mailbox.Item{Pos: r.pos, Recipient: to, Seq: r.seq, Attempts: r.attempts}
	pos := r.contentPos()
	if item.N = c.read[pos]; item.N != nil {
		return item, true, nil
	}
	n := &notification.Notification{
		App: app, ID: r.id, Priority: r.priority, Ack: r.ack, CollapseKey: r.collapse, CreatedAt: fromMS(r.created),
		SendAt: fromMS(r.sendAt), ExpiresAt: fromMS(r.expires),
	}
	if r.asks {
		n.ReplyBy = n.ExpiresAt
	}
	c.stmt.BindInt64(1, pos)
	err = each(c.stmt, func(s *sqlite.Stmt) (err error) {
		n.Content, err = content.Decode(blob(s, 0))
		ok = true
		return err
	})
	if err != nil {
		return item, false, fmt.Errorf("read content at %d: %w", pos, err)
	}
	if ok && r.offset != soleCopy {
		if c.read == nil {
			c.read = make(map[int64]*notification.Notification)
		}
		c.read[pos] = n
	}
	item.N = n
	return item, ok, nil
}
