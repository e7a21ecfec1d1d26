package mailboxdb

import (
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// asksBit is added to the ack mode in a row of a notification that asks for a reply.
const asksBit = 16

func ackColumn(n *notification.Notification) int64 {
	if n.ReplyBy.IsZero() {
		return int64(n.Ack)
	}
	return int64(n.Ack) | asksBit
}

const selectReply = "SELECT status, content_type, data FROM reply WHERE pos = ?1"

// saveReply stores a client's reply, in the transaction that settles the copy. It is deleted together with the copy's row, since copies
// with a question are not packed.
func (s *Store) saveReply(pos int64, r *notification.Reply) error {
	st := s.stmts.saveReply
	st.BindInt64(1, pos)
	st.BindInt64(2, int64(r.Status))
	st.BindText(3, r.ContentType)
	if len(r.Data) == 0 {
		st.BindZeroBlob(4, 0)
	} else {
		st.BindBytes(4, r.Data)
	}
	return exec(st)
}

// readReply adds the client's reply to a record.
func readReply(c *sqlite.Conn, to *mailbox.Record) error {
	if to.Status != notification.Replied {
		return nil
	}
	st, err := c.Prepare(selectReply)
	if err != nil {
		return err
	}
	st.BindInt64(1, to.Pos)
	return each(st, func(st *sqlite.Stmt) error {
		to.Reply = &notification.Reply{Status: st.ColumnInt(0), ContentType: st.ColumnText(1), Data: blob(st, 2)}
		return nil
	})
}

// besides are the tables, keyed by position, that have data for only a few copies.
var besides = [...]string{"nack", "reply"}

// deleteBeside deletes the rows of these tables for deleted copies in a range of positions.
func deleteBeside(c *sqlite.Conn, sp span) error {
	for _, table := range besides {
		st, err := c.Prepare("DELETE FROM " + table + ` WHERE pos >= ?1 AND pos <= ?2
			AND NOT EXISTS (SELECT 1 FROM notification WHERE notification.pos = ` + table + ".pos)")
		if err != nil {
			return err
		}
		st.BindInt64(1, sp.from)
		st.BindInt64(2, sp.to)
		if err := exec(st); err != nil {
			return err
		}
	}
	return nil
}
