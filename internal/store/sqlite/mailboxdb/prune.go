package mailboxdb

import (
	"context"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/millis"
)

const (
	pruneLook  = 2000 // rows looked at by one call of Prune
	pruneSlice = 500  // rows deleted by one commit
)

// pruner remembers how far a pass over the log has come.
type pruner struct {
	mu   sync.Mutex
	next int64 // position
}

// span is a range of positions with rows to delete.
type span struct{ from, to int64 }

// Prune implements mailbox.Store. One call looks at a part of the log; more is false when a pass has reached rows that
// are too young. Dropped with a slice's last row is its index.
func (s *Store) Prune(ctx context.Context, retainedSince time.Time) (more bool, err error) {
	p := &s.prune
	p.mu.Lock()
	defer p.mu.Unlock()
	since := millis.Of(retainedSince)
	from := p.next
	if err := s.flushForPrune(ctx, since); err != nil {
		return false, storeError("prune notifications", err)
	}
	spans, next, err := s.prunable(ctx, from, since)
	if err != nil {
		return false, storeError("prune notifications", err)
	}
	for _, sp := range spans {
		err := s.db.DoBulk(ctx, pruneSlice, func(c *sqlite.Conn) error { return deleteSpan(c, sp, since) })
		if err != nil {
			return false, storeError("prune notifications", err)
		}
	}
	if err := s.dropEmptySlices(ctx, next); err != nil {
		return false, storeError("drop index slices", err)
	}
	p.next = next
	return next != 0, nil
}

// flushForPrune writes the counters if old rows lie past the position up to which they are exact: such rows are still
// needed to bring the counters up to date after a crash.
func (s *Store) flushForPrune(ctx context.Context, since int64) error {
	wanted := false
	err := s.db.Read(ctx, func(c *sqlite.Conn) error {
		st, err := c.Prepare(`SELECT created_at FROM notification
			WHERE pos > (SELECT value FROM meta WHERE name = 'flushed_pos') ORDER BY pos LIMIT 1`)
		if err != nil {
			return err
		}
		return each(st, func(st *sqlite.Stmt) error {
			wanted = st.ColumnInt64(0) <= since
			return nil
		})
	})
	if err != nil || !wanted {
		return err
	}
	return s.flushCounters()
}

// prunable looks at rows from a position on. next is where to go on; 0: at the start, since all further rows are young.
func (s *Store) prunable(ctx context.Context, from, since int64) (spans []span, next int64, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		st, err := c.Prepare(`SELECT pos, open, settled_at, created_at FROM notification
			WHERE pos >= ?1 AND pos <= (SELECT value FROM meta WHERE name = 'flushed_pos') ORDER BY pos LIMIT ?2`)
		if err != nil {
			return err
		}
		st.BindInt64(1, from)
		st.BindInt64(2, pruneLook)
		rows, deletable := 0, 0
		young := false
		err = each(st, func(st *sqlite.Stmt) error {
			rows++
			pos := st.ColumnInt64(0)
			next = pos + 1
			// Rows are in order of creation, and settled after that.
			young = young || st.ColumnInt64(3) > since
			if st.ColumnBool(1) || st.ColumnInt64(2) >= since {
				return nil
			}
			if deletable%pruneSlice == 0 {
				spans = append(spans, span{from: pos})
			}
			deletable++
			spans[len(spans)-1].to = pos
			return nil
		})
		if rows < pruneLook || young {
			next = 0
		}
		return err
	})
	return spans, next, err
}

func deleteSpan(c *sqlite.Conn, sp span, since int64) error {
	st, err := c.Prepare("DELETE FROM notification WHERE pos >= ?1 AND pos <= ?2 AND open = 0 AND settled_at < ?3")
	if err != nil {
		return err
	}
	st.BindInt64(1, sp.from)
	st.BindInt64(2, sp.to)
	st.BindInt64(3, since)
	if err := exec(st); err != nil {
		return err
	}
	return deleteBeside(c, sp)
}

// dropEmptySlices drops the index of slices before a position (0: all) that have no row left.
func (s *Store) dropEmptySlices(ctx context.Context, before int64) error {
	for _, slice := range s.sealed.all() {
		if before != 0 && slice.number >= before>>s.cfg.sliceBits {
			continue
		}
		empty := true
		err := s.db.Read(ctx, func(c *sqlite.Conn) error {
			st, err := c.Prepare("SELECT 1 FROM notification WHERE pos >= ?1 AND pos < ?2 LIMIT 1")
			if err != nil {
				return err
			}
			st.BindInt64(1, slice.number<<s.cfg.sliceBits)
			st.BindInt64(2, (slice.number+1)<<s.cfg.sliceBits)
			return each(st, func(*sqlite.Stmt) error {
				empty = false
				return nil
			})
		})
		if err != nil {
			return err
		}
		if !empty {
			continue
		}
		err = s.db.DoBulk(ctx, pruneSlice, func(c *sqlite.Conn) error { return s.deleteSlice(c, slice.number) })
		if err != nil {
			return err
		}
		s.sealed.remove(slice)
	}
	return nil
}

func (s *Store) deleteSlice(c *sqlite.Conn, number int64) error {
	for _, sql := range []string{
		"DELETE FROM block WHERE key >= ?1 << 20 AND key < (?1 + 1) << 20",
		"DELETE FROM slice WHERE number = ?1",
	} {
		st, err := c.Prepare(sql)
		if err != nil {
			return err
		}
		st.BindInt64(1, number)
		if err := exec(st); err != nil {
			return err
		}
	}
	// The newest slice ends the positions given out, which must be remembered without it.
	return s.saveMeta("last_pos", s.pos)
}
