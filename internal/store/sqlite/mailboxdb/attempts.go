package mailboxdb

import (
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/attempts"
	"godwit.dev/godwit/internal/store/notes"
)

const selectAttempts = "SELECT data FROM attempt WHERE pos = ?1"

// saveTried adds attempts to a copy's earlier ones. Attempts may be lost: on a full disk they are not stored.
func (s *Store) saveTried(pos int64, list []attempts.Tried, ends bool) error {
	if len(list) == 0 || s.noRoom() {
		return nil
	}
	data, err := readTried(s.stmts.readTried, pos)
	if err != nil || len(data) >= attempts.Most && !ends {
		return err
	}
	for _, t := range list {
		data = t.Append(data)
	}
	s.stmts.saveTried.BindInt64(1, pos)
	s.stmts.saveTried.BindBytes(2, data)
	return exec(s.stmts.saveTried)
}

func readTried(stmt *sqlite.Stmt, pos int64) (data []byte, err error) {
	stmt.BindInt64(1, pos)
	err = each(stmt, func(st *sqlite.Stmt) error {
		data = blob(st, 0)
		return nil
	})
	return data, err
}

// keepTried stores the attempts of a copy that ends, as part of its outcome if they fit there. An outcome in the copy's row has no room for
// them.
func (s *Store) keepTried(pos int64, o *outcome, end *ending) error {
	if s.cfg.NoAttempts {
		return nil
	}
	via, list := end.mark.End(end.by, end.as, pos > s.folding)
	o.gateway, o.device = via.Gateway, via.Device
	return s.saveTried(pos, list, true)
}

// lateTried stores attempts that other sessions reported after the copy had ended.
func (s *Store) lateTried(r *recipient, m *notes.Mark) error {
	if s.cfg.NoAttempts {
		return nil
	}
	row, ok, err := s.row(m.Pos)
	if err != nil || !ok || row.recipient != r.key {
		return err
	}
	return s.saveTried(m.Pos, m.Tried(), true)
}

// recordPartial records a device's ack of a copy that other devices still have to acknowledge.
func (s *Store) recordPartial(r *recipient, e *entry, m notes.Mark, q *mailbox.Settle) error {
	if err := s.recordMarkAlone(r, e, m); err != nil || s.cfg.NoAttempts || q.Device == "" {
		return err
	}
	return s.saveTried(e.pos, []attempts.Tried{attempts.Acked(q)}, false)
}

// forgetTried deletes the attempts of packed copies that are being deleted.
func (s *Store) forgetTried(positions []int64) error {
	if len(positions) == 0 {
		return nil
	}
	st := s.stmts.nextTried
	st.BindInt64(1, positions[0])
	st.BindInt64(2, positions[len(positions)-1])
	some := false
	if err := each(st, func(*sqlite.Stmt) error { some = true; return nil }); err != nil || !some {
		return err
	}
	for _, pos := range positions {
		s.stmts.deleteTried.BindInt64(1, pos)
		if err := exec(s.stmts.deleteTried); err != nil {
			return err
		}
	}
	return nil
}

// tellTried adds the attempts of a record's copy to the record, including those not yet written.
func (s *Store) tellTried(c *sqlite.Conn, r *row, app string, to *mailbox.Record) error {
	mark := s.notes.PeekMark(r.pos) // read before the stored attempts: in the other order, attempts written in between would be missing
	st, err := c.Prepare(selectAttempts)
	if err != nil {
		return err
	}
	data, err := readTried(st, r.pos)
	if err != nil {
		return err
	}
	list, err := attempts.Decode(data)
	if err != nil {
		return err
	}
	var known []string
	if r.via.Device != 0 {
		if known, err = s.devicesOf(c, r.recipient, app, to.To); err != nil {
			return err
		}
	}
	mark.Tell(to)
	attempts.Tell(to, append(list, to.Tried...), r.via, known, "")
	return nil
}

// devicesOf returns the names of all devices of a recipient.
func (s *Store) devicesOf(c *sqlite.Conn, key uint32, app, name string) (names []string, err error) {
	st, err := c.Prepare("SELECT name FROM device WHERE recipient = ?1")
	if err != nil {
		return nil, err
	}
	st.BindInt64(1, int64(key))
	err = each(st, func(st *sqlite.Stmt) error {
		names = append(names, st.ColumnText(0))
		return nil
	})
	return append(names, s.notes.DevicesOf(app, name, 0)...), err
}
