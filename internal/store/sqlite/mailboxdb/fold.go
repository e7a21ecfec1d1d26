package mailboxdb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"
)

// Limits of folding in one commit. A slice whose copies have all ended takes four commits, so that sealing keeps up with any load.
const (
	foldStretches = 32
	foldWaiting   = 500 // rows that change
)

// fold writes the outcomes of a slice's copies, stretch by stretch, and marks the rows of pending ones. Afterwards these rows say
// themselves whether their copies are pending, and the slice's rows in settlement are no longer needed.
func (s *Store) fold(ctx context.Context, t *tail) error {
	for from := t.pos(0); from < t.pos(1<<t.bits); {
		next := from
		s.still.Lock()
		err := s.db.DoBulk(ctx, foldWaiting, func(c *sqlite.Conn) (err error) {
			next, err = s.foldSome(c, t, from)
			return err
		})
		s.still.Unlock()
		if err != nil {
			return fmt.Errorf("fold what was settled: %w", err)
		}
		from = next
	}
	return nil
}

// foldSome folds a few stretches and returns where the next one begins. Only the writer may call it.
func (s *Store) foldSome(c *sqlite.Conn, t *tail, from int64) (next int64, err error) {
	defer s.packRead.forget() // it may be undone alone
	folding, waiting := s.folding, 0
	for n := 0; n < foldStretches && waiting < foldWaiting && from < t.pos(1<<t.bits); n++ {
		last := from + s.stretch() - 1
		if last > folding {
			wait, err := s.foldStretch(c, t, from, folding)
			if err != nil {
				return from, err
			}
			waiting, folding = waiting+wait, last
		}
		from = last + 1
	}
	if folding > s.folding {
		if err := s.saveMeta("folded_pos", folding); err != nil {
			return from, err
		}
		s.folding = folding
	}
	return from, nil
}

// foldStretch folds the stretch that begins at first, and returns how many of its copies are pending. Rows up to folded already say whether
// their copies are pending.
func (s *Store) foldStretch(c *sqlite.Conn, t *tail, first, folded int64) (wait int, err error) {
	list := s.stretchOf(t, first)
	ended, waiting := false, s.toMark[:0]
	for i := range list {
		pos := first + int64(i)
		switch {
		case list[i].as != 0:
			ended = true
		case pos > folded && t.keys[pos-t.pos(0)] != 0: // other rows were folded before, or do not exist
			waiting = append(waiting, pos)
		}
	}
	s.toMark, wait = waiting, len(waiting)
	if err := s.sayWaiting(c, waiting); err != nil || !ended {
		return wait, err
	}
	st, err := c.Prepare("INSERT OR REPLACE INTO outcome(first, data) VALUES (?1, ?2)")
	if err != nil {
		return wait, err
	}
	st.BindInt64(1, first)
	st.BindBytes(2, encodeOutcomes(list))
	return wait, exec(st)
}

// sayWaiting marks rows as pending. Packed copies get a row for the mark.
func (s *Store) sayWaiting(c *sqlite.Conn, list []int64) error {
	waits, err := c.Prepare("UPDATE notification SET open = 1 WHERE pos = ?1 AND open = 2")
	if err != nil {
		return err
	}
	leave := leaving{s: s}
	for _, pos := range list {
		waits.BindInt64(1, pos)
		if err := exec(waits); err != nil {
			return err
		}
		if c.Changes() > 0 {
			continue
		}
		err := leave.outIf(pos, func(r *row) bool {
			open := r.apart // false: the copy has ended while the disk was full
			r.apart = false
			return open
		})
		if err != nil {
			return err
		}
	}
	return leave.save()
}

// stretchOf returns the outcomes of a stretch's copies, including the open transaction's changes.
func (s *Store) stretchOf(t *tail, first int64) []outcome {
	list := make([]outcome, s.stretch())
	if t.outcomes != nil { // the writer alone changes it
		copy(list, t.outcomes[(first-t.pos(0))/s.stretch()])
	}
	for i := range s.tx.settled {
		if place := s.tx.settled[i].pos - first; place >= 0 && place < int64(len(list)) {
			list[place] = s.tx.settled[i].outcome
		}
	}
	return list
}

// dropSettlements deletes the commits' settlements of sealed slices.
func (s *Store) dropSettlements(ctx context.Context, before int64) error {
	for from := s.oldestSettlement; from < before; {
		to := min(from+pruneSlice, before)
		err := s.db.DoBulk(ctx, int(to-from), func(c *sqlite.Conn) error {
			st, err := c.Prepare("DELETE FROM settlement WHERE key < ?1")
			if err != nil {
				return err
			}
			st.BindInt64(1, to)
			return exec(st)
		})
		if err != nil {
			return fmt.Errorf("drop what was folded: %w", err)
		}
		from, s.oldestSettlement = to, to
	}
	return nil
}
