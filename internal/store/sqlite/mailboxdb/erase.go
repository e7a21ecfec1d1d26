package mailboxdb

import (
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/mailbox"
)

// eraseSlice is how many rows of an erased recipient one commit deletes.
const eraseSlice = 250

// Erase implements mailbox.Store. The recipient is gone with the first commit; its settled rows follow in slices,
// which a restart continues. It fails with mailbox.ErrNotFound for an unknown recipient.
func (s *Store) Erase(ctx context.Context, appName, name string) error {
	s.notes.forget(appName, name)
	op := &eraseOp{waitOp: newWaitOp(), s: s, app: appName, name: name}
	if err := s.run(ctx, op, op.done, false); err != nil {
		return storeError("erase recipient "+name, err)
	}
	if !op.found {
		return fmt.Errorf("recipient %s: %w", name, mailbox.ErrNotFound)
	}
	return storeError("erase recipient "+name, s.deleteHistory(ctx, op.key))
}

// eraseOp takes a recipient and what is pending for it out of the store.
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
	s.touch(r)
	for i := range r.list {
		if e := &r.list[i]; !e.is(flagLeaving) {
			if err := s.dropPending(r, e); err != nil {
				return err
			}
		}
	}
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
	s.mu.Lock()
	r.gone = true
	delete(r.app.recipients, r.name)
	s.mu.Unlock()
	s.tx.undo = append(s.tx.undo, func() {
		r.gone = false
		r.app.recipients[r.name] = r
	})
	return s.saveMeta("last_pos", s.pos)
}

// dropPending deletes a pending copy without a trace.
func (s *Store) dropPending(r *recipient, e *entry) error {
	if err := s.deleteRow(e.pos); err != nil {
		return err
	}
	if err := s.releaseContent(e.contentPos(), e.offset == soleCopy); err != nil {
		return err
	}
	if e.is(flagScheduled) {
		s.tx.scheduled--
	} else {
		s.tx.pending--
	}
	r.active--
	s.mu.Lock()
	e.set(flagLeaving)
	s.mu.Unlock()
	return nil
}

// deleteHistory deletes the rows of an erased recipient.
func (s *Store) deleteHistory(ctx context.Context, key uint32) error {
	var rows []int64
	err := s.read(ctx, func(c *sqlite.Conn) error {
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
		err := s.db.DoBulk(ctx, len(chunk), func(c *sqlite.Conn) error {
			st, err := c.Prepare("DELETE FROM notification WHERE pos = ?1 AND recipient = ?2")
			if err != nil {
				return err
			}
			for _, pos := range chunk {
				st.BindInt64(1, pos)
				st.BindInt64(2, int64(key))
				if err := exec(st); err != nil {
					return err
				}
			}
			return deleteBeside(c, span{from: slices.Min(chunk), to: slices.Max(chunk)})
		})
		if err != nil {
			return err
		}
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

// resumeErasures ends what a crash interrupted.
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
			err = s.deleteHistory(ctx, key)
		}
	}
	return err
}
