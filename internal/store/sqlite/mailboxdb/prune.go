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

// span is a range of positions whose rows are to be deleted, all of them.
type span struct{ from, to int64 }

// prunable are spans of up to pruneSlice rows.
type prunable struct {
	spans []span
	rows  int
}

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
	lists, next, err := s.prunable(ctx, from, since)
	if err != nil {
		return false, storeError("prune notifications", err)
	}
	for _, p := range lists {
		err := s.db.DoBulk(ctx, p.rows, func(c *sqlite.Conn) error { return deleteSpans(c, p.spans, since) })
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
func (s *Store) prunable(ctx context.Context, from, since int64) (lists []prunable, next int64, err error) {
	err = s.read(ctx, "", func(c *sqlite.Conn) error {
		lists, next = nil, 0
		copies, err := s.copiesOn(c)
		if err != nil {
			return err
		}
		st, err := c.Prepare(`SELECT pos, open, settled_at, created_at FROM notification
			WHERE pos >= ?1 AND pos <= (SELECT value FROM meta WHERE name = 'flushed_pos') ORDER BY pos LIMIT ?2`)
		if err != nil {
			return err
		}
		st.BindInt64(1, from)
		st.BindInt64(2, pruneLook)
		rows, young, joins := 0, false, false
		err = each(st, func(st *sqlite.Stmt) error {
			rows++
			pos := st.ColumnInt64(0)
			next = pos + 1
			// Rows are in order of creation, and settled after that.
			young = young || st.ColumnInt64(3) > since
			open, settled := st.ColumnInt32(1), st.ColumnInt64(2)
			if open == openApart {
				o, err := copies.outcomeOf(pos)
				if err != nil {
					return err
				}
				if o.as != 0 {
					open, settled = 0, o.at
				}
			}
			if open != 0 || settled >= since {
				joins = false
				return nil
			}
			if n := len(lists); n == 0 || lists[n-1].rows == pruneSlice {
				lists, joins = append(lists, prunable{}), false
			}
			lists[len(lists)-1].add(pos, joins)
			joins = true
			return nil
		})
		if rows < pruneLook || young {
			next = 0
		}
		return err
	})
	return lists, next, err
}

// add adds a row, which joins the one before it if there is none between them that stays.
func (p *prunable) add(pos int64, joins bool) {
	p.rows++
	if joins {
		p.spans[len(p.spans)-1].to = pos
		return
	}
	p.spans = append(p.spans, span{pos, pos})
}

func deleteSpans(c *sqlite.Conn, spans []span, since int64) error {
	// An acknowledgement in the grace after its expiry may have come since the row was looked at: then the row says so.
	st, err := c.Prepare("DELETE FROM notification WHERE pos >= ?1 AND pos <= ?2 AND (open = 2 OR settled_at < ?3)")
	if err != nil {
		return err
	}
	for _, sp := range spans {
		st.BindInt64(1, sp.from)
		st.BindInt64(2, sp.to)
		st.BindInt64(3, since)
		if err := exec(st); err != nil {
			return err
		}
	}
	return deleteBeside(c, span{spans[0].from, spans[len(spans)-1].to})
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
		"DELETE FROM outcome WHERE first >= ?1 << ?2 AND first < (?1 + 1) << ?2",
	} {
		st, err := c.Prepare(sql)
		if err != nil {
			return err
		}
		st.BindInt64(1, number)
		if st.BindParamCount() > 1 {
			st.BindInt64(2, int64(s.cfg.sliceBits))
		}
		if err := exec(st); err != nil {
			return err
		}
	}
	// The newest slice ends the positions given out, which must be remembered without it.
	return s.saveMeta("last_pos", s.pos)
}
