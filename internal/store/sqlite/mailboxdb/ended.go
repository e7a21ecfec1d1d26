package mailboxdb

import (
	"fmt"

	"zombiezen.com/go/sqlite"
)

// stretch returns how many positions share one stored list of outcomes.
func (s *Store) stretch() int64 { return 1 << min(stretchBits, s.cfg.sliceBits) }

// ended records a copy's outcome: in the commit's row of settlements, or in the copy's own row if that has to hold it. On a full disk the
// copy's row or its pack holds it, since changing a row takes no further space.
func (s *Store) ended(pos int64, o outcome) error {
	if pos > s.folding && !s.noRoom() {
		s.tx.settled = append(s.tx.settled, settled{pos, o})
		return nil
	}
	if err := (&settled{pos, o}).write(s.stmts.settleNote); err != nil || s.stmts.conn.Changes() > 0 {
		return err
	}
	return s.endPacked(pos, &o)
}

// write writes the outcome to the row, by a statement of settleSQL.
func (q *settled) write(st *sqlite.Stmt) error {
	st.BindInt64(1, q.pos)
	st.BindInt64(2, int64(q.as))
	st.BindInt64(3, q.at)
	st.BindInt64(4, q.delivered)
	st.BindInt64(5, int64(q.attempts))
	return exec(st)
}

// noRoom reports whether the disk was full when the open transaction first checked.
func (s *Store) noRoom() bool {
	if !s.tx.looked {
		s.tx.looked, s.tx.full = true, s.space.Full()
	}
	return s.tx.full
}

// lastly completes the open transaction: it writes the inboxes that have changed, one row with all copies that the transaction settles, and deletes contents without
// unsettled copies.
func (s *Store) lastly(*sqlite.Conn) error {
	if err := s.flushBoxes(); err != nil {
		return err
	}
	if err := s.deleteContents(); err != nil || len(s.tx.settled) == 0 {
		return err
	}
	s.tx.encoded = encodeSettled(s.tx.encoded[:0], s.tx.settled)
	st := s.stmts.insertSettlement
	st.BindInt64(1, s.nextSettlement)
	st.BindBytes(2, s.tx.encoded)
	if err := exec(st); err != nil {
		return fmt.Errorf("store what was settled: %w", err)
	}
	return nil
}

// showEnded makes a commit's settlements visible to readers. The caller holds mu.
func (s *Store) showEnded() {
	s.folded = s.folding
	if len(s.tx.settled) == 0 {
		return
	}
	s.nextSettlement++
	for i := range s.tx.settled {
		q := &s.tx.settled[i]
		if t := s.tailOf(q.pos); t != nil {
			t.end(q.pos, q.outcome, s.stretch())
		}
	}
}

// tailOf returns the tail that covers a position; nil: its slice is sealed.
func (s *Store) tailOf(pos int64) *tail {
	number := pos >> s.cfg.sliceBits
	for i := len(s.tails) - 1; i >= 0 && s.tails[i].number >= number; i-- {
		if s.tails[i].number == number {
			return s.tails[i]
		}
	}
	return nil
}

// end records the outcome of a copy of the slice.
func (t *tail) end(pos int64, o outcome, stretch int64) {
	place := pos - t.pos(0)
	if t.outcomes == nil {
		t.outcomes = make([][]outcome, (int64(1)<<t.bits)/stretch)
	}
	list := &t.outcomes[place/stretch]
	if *list == nil {
		*list = make([]outcome, stretch)
	}
	(*list)[place%stretch] = o
}

// endOf returns the outcome of a copy of the slice; its status is 0 if the copy has not ended.
func (t *tail) endOf(pos, stretch int64) (o outcome) {
	place := pos - t.pos(0)
	if t.outcomes == nil || t.outcomes[place/stretch] == nil {
		return o
	}
	return t.outcomes[place/stretch][place%stretch]
}

// copies reads the current state of copies, on one connection.
type copies struct {
	s                    *Store
	note, packs, outcome *sqlite.Stmt
	own                  bool // the connection is the writer's, which sees the open transaction's changes

	pack  pack  // that was read last
	first int64 // of the stretch read last
	list  []outcome
}

const selectOutcomes = "SELECT first, data FROM outcome WHERE first <= ?1 ORDER BY first DESC LIMIT 1"

func (s *Store) copiesOn(c *sqlite.Conn) (*copies, error) {
	note, err := c.Prepare(selectNote)
	if err != nil {
		return nil, err
	}
	outcomes, err := c.Prepare(selectOutcomes)
	if err != nil {
		return nil, err
	}
	packs, err := c.Prepare(selectPack)
	if err != nil {
		return nil, err
	}
	return &copies{s: s, note: note, packs: packs, outcome: outcomes}, nil
}

// row reads the copy at a position, including the open transaction's changes; ok is false if there is none. Only the writer may call it.
func (s *Store) row(pos int64) (r row, ok bool, err error) {
	own := copies{s: s, note: s.stmts.readNote, packs: s.stmts.readPack, outcome: s.stmts.readOutcomes, own: true}
	return own.read(pos)
}

// read reads the copy at a position; ok is false if there is none.
func (v *copies) read(pos int64) (r row, ok bool, err error) {
	if r, ok, err = readRow(v.note, pos); err == nil && !ok {
		r, ok, err = v.packed(pos)
	}
	if err != nil || !ok || !r.apart {
		return r, ok, err
	}
	o, err := v.outcomeOf(pos)
	if err != nil {
		return row{}, false, fmt.Errorf("read notification at %d: %w", pos, err)
	}
	r.end(&o)
	return r, true, nil
}

// packed reads a copy without a row from its pack.
func (v *copies) packed(pos int64) (r row, ok bool, err error) {
	p := &v.pack
	if v.own {
		p = &v.s.packRead
	}
	if ok, err = p.find(v.packs, pos); err != nil || !ok {
		return row{}, false, err
	}
	r, ok = p.row(pos)
	return r, ok, nil
}

// outcomeOf returns the outcome of a copy whose row does not hold it.
func (v *copies) outcomeOf(pos int64) (o outcome, err error) {
	o, elsewhere := v.s.recentOutcome(pos, v.own)
	if !elsewhere {
		return o, nil
	}
	if place := pos - v.first; place < 0 || place >= int64(len(v.list)) {
		if err := v.load(pos); err != nil {
			return o, err
		}
	}
	if place := pos - v.first; place >= 0 && place < int64(len(v.list)) {
		o = v.list[place]
	}
	switch {
	case o.as != 0:
		return o, nil
	case v.own:
		return o, fmt.Errorf("how it ended is missing: %w", errOutcomes)
	}
	return o, errStale // the snapshot was taken before the slice was sealed, or the outcome is missing
}

// load reads the outcomes of the stretch that contains a position.
func (v *copies) load(pos int64) error {
	v.list = nil
	v.outcome.BindInt64(1, pos)
	return each(v.outcome, func(st *sqlite.Stmt) (err error) {
		v.first = st.ColumnInt64(0)
		v.list, err = decodeOutcomes(blob(st, 1))
		return err
	})
}

// recentOutcome returns the outcome of a copy in a slice that is not sealed. elsewhere: the file has the outcome. own: the caller is the
// writer.
func (s *Store) recentOutcome(pos int64, own bool) (o outcome, elsewhere bool) {
	if own && pos <= s.folding {
		return o, true
	}
	s.mu.RLock()
	if elsewhere = pos <= s.folded; !elsewhere {
		if t := s.tailOf(pos); t != nil {
			o = t.endOf(pos, s.stretch())
		}
	}
	s.mu.RUnlock()
	if !own || o.as != 0 {
		return o, elsewhere
	}
	for i := len(s.tx.settled) - 1; i >= 0; i-- {
		if s.tx.settled[i].pos == pos {
			return s.tx.settled[i].outcome, false
		}
	}
	return o, elsewhere
}

// end stores a copy's outcome in its row; an empty outcome leaves the row open.
func (r *row) end(o *outcome) {
	if o.as == 0 {
		return
	}
	r.open, r.status, r.settled, r.attempts, r.via = false, o.as, o.at, max(r.attempts, o.attempts), o.via()
	if r.delivered <= 0 && o.delivered > 0 {
		r.delivered = o.delivered
	}
}

// revive replaces the outcome in the row of an expired copy.
func (o *outcome) revive(r *row) {
	r.apart = false
	r.end(o)
}
