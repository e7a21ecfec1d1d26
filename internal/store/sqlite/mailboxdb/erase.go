package mailboxdb

import (
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// eraseSlice is how many rows of an erased recipient one commit deletes.
const eraseSlice = 250

// Erase implements mailbox.Store. The first commit removes the recipient and its pending copies. Other rows follow in slices, between which
// other operations run. After a restart the erasure continues. It fails with mailbox.ErrNotFound for an unknown recipient.
func (s *Store) Erase(ctx context.Context, appName, name string) error {
	s.notes.Forget(appName, name)
	op := &eraseOp{waitOp: newWaitOp(), s: s, app: appName, name: name}
	if err := s.run(ctx, op, op.done, false); err != nil {
		return storeError("erase recipient "+name, err)
	}
	if !op.found {
		return fmt.Errorf("recipient %s: %w", name, mailbox.ErrNotFound)
	}
	// Once begun, an erasure is completed even if its caller has stopped waiting.
	return storeError("erase recipient "+name, s.deleteRows(context.WithoutCancel(ctx), op.key))
}

// eraseOp removes a recipient from the store and records that its rows must be deleted.
type eraseOp struct {
	waitOp
	s         *Store
	app, name string
	found     bool
	key       uint32
}

func (op *eraseOp) Apply(c *sqlite.Conn) error {
	s := op.s
	r, err := s.known(op.app, op.name)
	if op.found = r != nil; err != nil || !op.found {
		return err
	}
	op.key = r.key
	for _, sql := range []string{
		"DELETE FROM device WHERE recipient = ?1", "DELETE FROM recipient WHERE key = ?1", "INSERT INTO erasure(recipient) VALUES (?1)",
	} {
		st, err := c.Prepare(sql)
		if err != nil {
			return err
		}
		st.BindInt64(1, int64(r.key))
		if err := exec(st); err != nil {
			return err
		}
	}
	s.touch(r)
	s.mu.Lock()
	for i := range r.list {
		e := &r.list[i]
		switch {
		case e.is(flagLeaving):
			continue
		case e.is(flagScheduled):
			s.tx.scheduled--
		default:
			s.tx.pending--
		}
		r.active--
		e.set(flagLeaving)
	}
	r.gone = true
	r.app.drop(r)
	s.mu.Unlock()
	s.tx.undo = append(s.tx.undo, func() {
		r.gone = false
		r.app.add(r)
	})
	return s.saveMeta("last_pos", s.pos)
}

// deleteRows deletes the rows of an erased recipient, including their replies, nacks and other dependent rows.
func (s *Store) deleteRows(ctx context.Context, key uint32) error {
	var rows []int64
	err := s.read(ctx, "", func(c *sqlite.Conn) error {
		rows = rows[:0]
		return s.eachOf(c, key, 1<<63-1, func(pos int64) bool {
			rows = append(rows, pos)
			return true
		})
	})
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(rows, eraseSlice) {
		op := &eraseRowsOp{waitOp: newWaitOp(), s: s, key: key, rows: chunk}
		if err := s.run(ctx, op, op.done, true); err != nil {
			return err
		}
	}
	if err := s.eraseInbox(ctx, key); err != nil {
		return err
	}
	return s.db.DoBulk(ctx, 1, func(c *sqlite.Conn) error {
		st, err := c.Prepare("DELETE FROM erasure WHERE recipient = ?1")
		if err != nil {
			return err
		}
		st.BindInt64(1, int64(key))
		return exec(st)
	})
}

// eraseRowsOp deletes a slice of an erased recipient's rows.
type eraseRowsOp struct {
	waitOp
	s    *Store
	key  uint32
	rows []int64
}

func (op *eraseRowsOp) Apply(*sqlite.Conn) error {
	s := op.s
	for _, pos := range op.rows {
		if err := op.erase(pos); err != nil {
			return err
		}
		if err := s.erasePacked(pos, op.key); err != nil {
			return err
		}
	}
	return nil
}

func (op *eraseRowsOp) erase(pos int64) error {
	s := op.s
	row, ok, err := s.row(pos)
	if err != nil || !ok || row.recipient != op.key { // pruned meanwhile
		return err
	}
	if err := s.deleteRow(pos); err != nil {
		return err
	}
	if !row.open { // the content was deleted when the copy was settled
		return nil
	}
	if err := s.deleteStep(pos); err != nil {
		return err
	}
	return s.releaseContent(row.contentPos(), row.offset == soleCopy, true)
}

// resumeErasures finishes erasures that a crash interrupted.
func (s *Store) resumeErasures(ctx context.Context) error {
	var keys []uint32
	err := s.db.Read(ctx, func(c *sqlite.Conn) error {
		st, err := c.Prepare("SELECT recipient FROM erasure")
		if err != nil {
			return err
		}
		return each(st, func(st *sqlite.Stmt) error {
			keys = append(keys, uint32(st.ColumnInt64(0)))
			return nil
		})
	})
	for _, key := range keys {
		if err == nil {
			err = s.deleteRows(ctx, key)
		}
	}
	return err
}
