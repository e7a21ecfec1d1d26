package mailboxdb

import (
	"context"
	"errors"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

const (
	pruneLook  = 2000 // rows examined by one call of Prune
	pruneSlice = 500  // rows deleted by one commit
)

// pruner holds the progress of one pass through the log.
type pruner struct {
	mu   sync.Mutex
	next int64 // position
}

// span is a range of positions; all rows in it are to be deleted.
type span struct{ from, to int64 }

// packPart lists copies to remove from a pack.
type packPart struct {
	first int64
	old   []int64 // positions
}

// prunable are about pruneSlice copies.
type prunable struct {
	spans []span
	packs []packPart
	rows  int
}

// errEnough ends a reading.
var errEnough = errors.New("enough was read")

// Prune implements mailbox.Store. One call examines a part of the log; more is false when a pass has reached rows that are too young. A
// slice's index is dropped with its last row.
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
	if err := s.deleteOld(ctx, lists, since); err != nil {
		return false, storeError("prune notifications", err)
	}
	if err := s.dropEmptySlices(ctx, next); err != nil {
		return false, storeError("drop index slices", err)
	}
	p.next = next
	return next != 0, nil
}

// deleteOld deletes the old rows that were found, list by list.
func (s *Store) deleteOld(ctx context.Context, lists []prunable, since int64) error {
	for _, p := range lists {
		err := s.db.DoBulk(ctx, min(p.rows, pruneSlice), func(c *sqlite.Conn) error {
			if err := s.thinPacks(p.packs, since); err != nil {
				return err
			}
			return deleteSpans(c, p.spans, since)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// flushForPrune writes the counters if old rows lie after the position up to which counters are exact: after a crash such rows would still
// be needed to bring the counters up to date.
func (s *Store) flushForPrune(ctx context.Context, since int64) error {
	wanted := false
	err := s.db.Read(ctx, func(c *sqlite.Conn) error {
		for _, sql := range []string{
			"SELECT created_at FROM notification WHERE pos > (SELECT value FROM meta WHERE name = 'flushed_pos') ORDER BY pos LIMIT 1",
			"SELECT created_at FROM pack WHERE first > (SELECT value FROM meta WHERE name = 'flushed_pos') ORDER BY first LIMIT 1",
		} {
			err := sqlitedb.Each(c, sql, nil, func(st *sqlite.Stmt) error {
				wanted = wanted || st.ColumnInt64(0) <= since
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !wanted {
		return err
	}
	return s.flushCounters()
}

// prunable examines copies from a position on. next is where to continue; 0: at the start, since all further copies are too young.
func (s *Store) prunable(ctx context.Context, from, since int64) (lists []prunable, next int64, err error) {
	err = s.read(ctx, "", func(c *sqlite.Conn) error {
		lists, next = nil, 0
		copies, err := s.copiesOn(c)
		if err != nil {
			return err
		}
		flushed, err := sqlitex.ResultInt64(c.Prep("SELECT value FROM meta WHERE name = 'flushed_pos'"))
		if err != nil {
			return err
		}
		look := &pruneLooker{copies: copies, since: since, to: flushed}
		if err := look.atPacks(c, from); err != nil {
			return err
		}
		err = look.atRows(c, from)
		if lists = look.lists; look.more && !look.young {
			next = look.to + 1
		}
		return err
	})
	return lists, next, err
}

// pruneLooker finds what is old.
type pruneLooker struct {
	copies *copies
	since  int64
	to     int64 // the last position to examine
	more   bool  // there are others after it
	young  bool  // one copy was too young. Copies are in order of creation, and settled later
	lists  []prunable
}

// atPacks examines packs, as many as have about pruneLook copies together.
func (k *pruneLooker) atPacks(c *sqlite.Conn, from int64) error {
	st, err := c.Prepare(selectPacks)
	if err != nil {
		return err
	}
	left := pruneLook
	err = eachPack(st, from, k.to, func(p *pack) error {
		if left <= 0 {
			k.to, k.more = p.shared.pos-1, true
			return errEnough
		}
		left -= len(p.copies)
		k.young = k.young || p.shared.created > k.since
		part := packPart{first: p.shared.pos}
		for pos := part.first; pos <= p.last(); pos++ {
			r, ok := p.row(pos)
			if ok && r.apart {
				o, err := k.copies.outcomeOf(pos)
				if err != nil {
					return err
				}
				r.end(&o)
			}
			if ok && !r.open && r.settled < k.since {
				part.old = append(part.old, pos)
			}
		}
		if len(part.old) > 0 {
			k.list().addPack(part)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return err
}

// atRows looks at pruneLook rows.
func (k *pruneLooker) atRows(c *sqlite.Conn, from int64) error {
	st, err := c.Prepare("SELECT pos, open, settled_at, created_at FROM notification WHERE pos >= ?1 AND pos <= ?2 ORDER BY pos LIMIT ?3")
	if err != nil {
		return err
	}
	st.BindInt64(1, from)
	st.BindInt64(2, k.to)
	st.BindInt64(3, pruneLook)
	rows, last := 0, int64(0)
	err = each(st, func(st *sqlite.Stmt) error {
		rows++
		last = st.ColumnInt64(0)
		k.young = k.young || st.ColumnInt64(3) > k.since
		open, settled := st.ColumnInt32(1), st.ColumnInt64(2)
		if open == openApart {
			o, err := k.copies.outcomeOf(last)
			if err != nil {
				return err
			}
			if o.as != 0 {
				open, settled = 0, o.at
			}
		}
		if open == 0 && settled < k.since {
			k.list().add(last)
		}
		return nil
	})
	if rows == pruneLook {
		k.to, k.more = last, true
	}
	return err
}

// list returns the list to add to.
func (k *pruneLooker) list() *prunable {
	if n := len(k.lists); n == 0 || k.lists[n-1].rows >= pruneSlice {
		k.lists = append(k.lists, prunable{})
	}
	return &k.lists[len(k.lists)-1]
}

func (p *prunable) addPack(part packPart) {
	p.rows += len(part.old)
	p.packs = append(p.packs, part)
}

// add adds a row. It extends the last span only if that ends at the position just before: a packed copy between two rows may have got a row
// of its own by the time they are deleted.
func (p *prunable) add(pos int64) {
	p.rows++
	if n := len(p.spans); n > 0 && p.spans[n-1].to == pos-1 {
		p.spans[n-1].to = pos
		return
	}
	p.spans = append(p.spans, span{pos, pos})
}

// thinPacks removes copies from packs, and packs that have no copy left.
func (s *Store) thinPacks(parts []packPart, since int64) error {
	s.packRead.forget() // the cached pack would be wrong if only this change is rolled back
	defer s.packRead.forget()
	p := &s.packRead
	for _, part := range parts {
		ok, err := p.find(s.stmts.readPack, part.first)
		if err != nil {
			return err
		}
		if !ok {
			continue // erased meanwhile
		}
		for _, pos := range part.old {
			// As for rows, the grace period allows an acknowledgement since the search: then the copy has a row, or the pack has the new
			// time.
			if r, ok := p.row(pos); ok && (r.apart || r.settled < since) {
				p.end(pos)[0] = endOut
			}
		}
		if err := s.savePack(p); err != nil {
			return err
		}
		if err := s.forgetTried(part.old); err != nil {
			return err
		}
	}
	return nil
}

func deleteSpans(c *sqlite.Conn, spans []span, since int64) error {
	// An expired copy may have been acknowledged, within the grace period, since the search: then the row has the new time.
	st, err := c.Prepare("DELETE FROM notification WHERE pos >= ?1 AND pos <= ?2 AND (open = 2 OR settled_at < ?3)")
	if err != nil {
		return err
	}
	tried, err := c.Prepare("DELETE FROM attempt WHERE pos >= ?1 AND pos <= ?2 AND NOT EXISTS (SELECT 1 FROM notification WHERE notification.pos = attempt.pos)")
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
		tried.BindInt64(1, sp.from)
		tried.BindInt64(2, sp.to)
		if err := exec(tried); err != nil {
			return err
		}
	}
	if len(spans) == 0 {
		return nil
	}
	return deleteBeside(c, span{spans[0].from, spans[len(spans)-1].to})
}

// dropEmptySlices drops the index of slices before a position (0: all) that have no rows left.
func (s *Store) dropEmptySlices(ctx context.Context, before int64) error {
	for _, slice := range s.sealed.all() {
		if before != 0 && slice.number >= before>>s.cfg.sliceBits {
			continue
		}
		empty := true
		err := s.db.Read(ctx, func(c *sqlite.Conn) error {
			st, err := c.Prepare("SELECT 1 FROM notification WHERE pos >= ?1 AND pos < ?2 UNION ALL SELECT 1 FROM pack WHERE first >= ?1 AND first < ?2 LIMIT 1")
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
		if err := s.dropSlice(ctx, slice); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) dropSlice(ctx context.Context, slice *sealedSlice) error {
	s.still.Lock()
	defer s.still.Unlock()
	err := s.db.DoBulk(ctx, pruneSlice, func(c *sqlite.Conn) error { return s.deleteSlice(c, slice.number) })
	if err == nil {
		s.sealed.remove(slice)
	}
	return err
}

func (s *Store) deleteSlice(c *sqlite.Conn, number int64) error {
	for _, sql := range []string{
		"DELETE FROM block WHERE key >= ?1 << 20 AND key < (?1 + 1) << 20",
		"DELETE FROM slice WHERE number = ?1",
		"DELETE FROM outcome WHERE first >= ?1 << ?2 AND first < (?1 + 1) << ?2",
		"DELETE FROM attempt WHERE pos >= ?1 << ?2 AND pos < (?1 + 1) << ?2",
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
	// The deleted newest slice held the row of the last assigned position, which must now be stored elsewhere.
	return s.saveMeta("last_pos", s.pos)
}
