package mailboxdb

import (
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

const selectNack = "SELECT count, reason FROM nack WHERE pos = ?1"

// countNack counts a client's rejection of a copy and reports whether the copy has reached the limit of nacks. A nack without a reason
// keeps the earlier reason.
func (s *Store) countNack(pos int64, reason string) (enough bool, err error) {
	count, before, err := readNack(s.stmts.readNack, pos)
	if err != nil {
		return false, err
	}
	if count++; reason == "" {
		reason = before
	}
	if err := s.moveOut(pos); err != nil { // a packed copy first gets a row: nacks belong to rows
		return false, err
	}
	st := s.stmts.saveNack
	st.BindInt64(1, pos)
	st.BindInt64(2, count)
	st.BindText(3, reason)
	return count >= notification.MaxNacks, exec(st)
}

func readNack(stmt *sqlite.Stmt, pos int64) (count int64, reason string, err error) {
	stmt.BindInt64(1, pos)
	err = each(stmt, func(st *sqlite.Stmt) error {
		count, reason = st.ColumnInt64(0), st.ColumnText(1)
		return nil
	})
	return count, reason, err
}

// readNacks adds the nacks of a record's copy to the record: their number and the last reason.
func readNacks(stmt *sqlite.Stmt, to *mailbox.Record) error {
	count, reason, err := readNack(stmt, to.Pos)
	to.Nacks, to.Reason = uint32(count), reason
	return err
}
