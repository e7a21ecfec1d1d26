package mailboxdb

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// loaders is how many connections read the file at start.
const loaders = 4

// load rebuilds the index: apps, pending copies, their recipients, counters, and the ids of slices that are not sealed.
func (s *Store) load(ctx context.Context) error {
	began := time.Now()
	l := &loader{s: s, apps: make(map[int64]*app), byKey: make(map[uint32]*recipient)}
	for _, part := range []func(context.Context) error{l.loadMeta, l.loadApps, l.makeTails, l.loadSettlements, l.loadOpen, l.loadRecipients, l.loadSteps, l.place, l.loadTails} {
		if err := part(ctx); err != nil {
			return fmt.Errorf("read the index back: %w", err)
		}
	}
	s.pos, s.shownPos, s.tx.firstPos = l.last, l.last, l.last+1
	s.folded, s.folding = l.folded, l.folded
	s.counters.from = l.flushed
	s.cfg.Log.Debug("mailbox loaded", "pending", s.pending.Load(), "scheduled", s.waiting.Load(), "took", time.Since(began))
	return nil
}

type loader struct {
	s       *Store
	apps    map[int64]*app
	byKey   map[uint32]*recipient
	open    []loadedRow
	newest  map[uint32]uint64 // seq of rows after flushed
	flushed int64
	folded  int64
	last    int64 // the highest assigned position
}

type loadedRow struct {
	recipient uint32
	seq       uint64
	sendAt    int64
	e         entry
}

func (l *loader) loadMeta(ctx context.Context) error {
	kept := int64(0)
	return l.s.db.Read(ctx, func(c *sqlite.Conn) error {
		for _, q := range []struct {
			sql string
			to  *int64
		}{
			{"SELECT value FROM meta WHERE name = 'flushed_pos'", &l.flushed},
			{"SELECT value FROM meta WHERE name = 'folded_pos'", &l.folded},
			{"SELECT EXISTS (SELECT 1 FROM inbox)", &kept},
			{"SELECT max((SELECT value FROM meta WHERE name = 'last_pos'), coalesce((SELECT max(pos) FROM notification), 0), " + lastPacked + ")", &l.last},
		} {
			n, err := sqlitex.ResultInt64(c.Prep(q.sql))
			if err != nil {
				return err
			}
			*q.to = n
		}
		l.s.used.Store(kept > 0)
		l.last = max(l.last, l.flushed, l.folded)
		n, err := l.s.sealed.load(c, l.s.cfg.sliceBits)
		l.last = max(l.last, n)
		return err
	})
}

func (l *loader) loadApps(ctx context.Context) error {
	return l.query(ctx, "SELECT key, name FROM app", nil, func(st *sqlite.Stmt) error {
		a := &app{key: st.ColumnInt64(0), name: st.ColumnText(1)}
		l.apps[a.key], l.s.apps[a.name] = a, a
		return nil
	})
}

func (l *loader) query(ctx context.Context, sql string, args []any, fn func(*sqlite.Stmt) error) error {
	return l.s.db.Read(ctx, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, sql, args, fn)
	})
}

// inParallel calls read for parts of [0, n) on several goroutines.
func inParallel(n int64, read func(part int, from, to int64) error) error {
	var wg sync.WaitGroup
	errs := make([]error, loaders)
	for i := range int64(loaders) {
		from, to := n*i/loaders, n*(i+1)/loaders
		if from < to {
			wg.Go(func() { errs[i] = read(int(i), from, to) })
		}
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// loadOpen reads the pending rows and, after the flushed position, the seqs of all rows. Most rows lie near the end of the log, so the
// parts are cut by rows rather than by positions. After the folded position, rows do not say whether they are pending.
func (l *loader) loadOpen(ctx context.Context) error {
	cuts, err := l.cuts(ctx)
	if err != nil {
		return err
	}
	parts := make([][]loadedRow, 2*loaders)
	newest := make([]map[uint32]uint64, loaders)
	err = inParallel(loaders, func(part int, _, _ int64) (err error) {
		from, to := cuts[part], cuts[part+1]
		parts[part], err = l.readOpen(ctx, "open = 1", from, to)
		if err != nil {
			return err
		}
		recent := max(l.last-l.folded, 0)
		parts[loaders+part], err = l.readRecent(ctx, l.folded+1+recent*int64(part)/loaders, l.folded+1+recent*int64(part+1)/loaders)
		if err != nil {
			return err
		}
		newest[part] = make(map[uint32]uint64)
		return l.readNewest(ctx, max(from, l.flushed+1), to, newest[part])
	})
	if err != nil {
		return err
	}
	l.newest = newest[0]
	for _, m := range newest[1:] {
		for key, seq := range m {
			l.newest[key] = max(l.newest[key], seq)
		}
	}
	l.open = slices.Concat(parts...)
	return nil
}

// cuts divides the positions so that each loader gets about the same number of open rows.
func (l *loader) cuts(ctx context.Context) ([]int64, error) {
	total := int64(0)
	cuts := make([]int64, loaders+1)
	cuts[loaders] = l.last + 1
	err := l.query(ctx, "SELECT count(*) FROM notification WHERE open = 1", nil, func(st *sqlite.Stmt) error {
		total = st.ColumnInt64(0)
		return nil
	})
	for i := range loaders - 1 {
		if err != nil {
			break
		}
		cuts[i+1] = cuts[i]
		err = l.query(ctx, "SELECT pos FROM notification WHERE open = 1 ORDER BY pos LIMIT 1 OFFSET ?1",
			[]any{total * int64(i+1) / loaders}, func(st *sqlite.Stmt) error {
				cuts[i+1] = st.ColumnInt64(0)
				return nil
			})
	}
	return cuts, err
}

func (l *loader) readOpen(ctx context.Context, which string, from, to int64) (rows []loadedRow, err error) {
	err = l.query(ctx, `SELECT pos, recipient, open, status, ack, priority, 0, body_offset, seq, 0, send_at, expires_at,
		delivered_at, 0, 0, '', collapse_key FROM notification WHERE `+which+` AND pos >= ?1 AND pos < ?2 ORDER BY pos`,
		[]any{from, to}, func(st *sqlite.Stmt) error {
			r := scanRow(st)
			if r.apart && l.ended(r.pos) {
				return nil
			}
			rows = append(rows, loadedRow{recipient: r.recipient, seq: r.seq, sendAt: r.sendAt, e: r.entry()})
			return nil
		})
	return rows, err
}

func (l *loader) readNewest(ctx context.Context, from, to int64, newest map[uint32]uint64) error {
	err := l.query(ctx, "SELECT recipient, seq FROM notification WHERE pos >= ?1 AND pos < ?2", []any{from, to}, func(st *sqlite.Stmt) error {
		key, seq := uint32(st.ColumnInt64(0)), uint64(st.ColumnInt64(1))
		if seq > newest[key] {
			newest[key] = seq
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.eachPack(ctx, from, to-1, func(p *pack) error {
		for _, c := range p.copies {
			newest[c.recipient] = max(newest[c.recipient], c.seq)
		}
		return nil
	})
}

// loadRecipients reads recipients with pending copies or a counter to update.
func (l *loader) loadRecipients(ctx context.Context) error {
	wanted := make(map[uint32]struct{}, len(l.newest))
	for i := range l.open {
		wanted[l.open[i].recipient] = struct{}{}
	}
	for key := range l.newest {
		wanted[key] = struct{}{}
	}
	keys := make([]uint32, 0, len(wanted))
	for key := range wanted {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	found := make([]*recipient, len(keys))
	err := inParallel(int64(len(keys)), func(_ int, from, to int64) error {
		return l.s.db.Read(ctx, func(c *sqlite.Conn) error {
			st := c.Prep("SELECT app, name, last_seq FROM recipient WHERE key = ?1")
			for i := from; i < to; i++ {
				st.BindInt64(1, int64(keys[i]))
				err := each(st, func(st *sqlite.Stmt) error {
					found[i] = l.recipient(keys[i], st)
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, r := range found {
		if r != nil {
			l.byKey[r.key] = r
			r.app.add(r)
		}
	}
	return nil
}

func (l *loader) recipient(key uint32, st *sqlite.Stmt) *recipient {
	r := &recipient{app: l.apps[st.ColumnInt64(0)], name: st.ColumnText(1), key: key, lastSeq: uint64(st.ColumnInt64(2)), slot: -1}
	if seq := l.newest[key]; seq > r.lastSeq {
		r.lastSeq = seq
	}
	r.shown = r.lastSeq
	return r
}

// place adds the pending copies to their recipients' lists, in seq order, and to the queues.
func (l *loader) place(context.Context) error {
	s := l.s
	for i := range l.open {
		o := &l.open[i]
		if o.e.offset != soleCopy {
			s.contents[o.e.contentPos()]++
		}
		r := l.byKey[o.recipient]
		if r == nil {
			continue // being erased
		}
		r.list = append(r.list, o.e)
		r.active++
		if o.e.is(flagScheduled) {
			s.due.add(scheduled{at: o.sendAt, r: r, pos: o.e.pos})
			s.waiting.Add(1)
		} else {
			s.pending.Add(1)
		}
		s.expiries.wakeBy(r, o.e.expires())
	}
	l.sortBySeq()
	for _, r := range l.byKey {
		if _, moved := l.newest[r.key]; moved {
			r.dirty = true
			s.counters.dirty = append(s.counters.dirty, r)
		}
		s.counters.idle(r)
	}
	l.open = nil
	return nil
}

// sortBySeq restores the seq order, since scheduled copies may have become due after later ones were stored.
func (l *loader) sortBySeq() {
	seqs := make(map[int64]uint64)
	late := make(map[*recipient]struct{})
	newest := make(map[uint32]uint64)
	for i := range l.open {
		o := &l.open[i]
		if o.seq > 0 && o.seq < newest[o.recipient] {
			late[l.byKey[o.recipient]] = struct{}{}
		}
		newest[o.recipient] = max(newest[o.recipient], o.seq)
	}
	delete(late, nil)
	if len(late) == 0 {
		return
	}
	for i := range l.open {
		seqs[l.open[i].e.pos] = l.open[i].seq
	}
	for r := range late {
		slices.SortStableFunc(r.list, func(a, b entry) int { return compareSeq(seqs[a.pos], seqs[b.pos]) })
	}
}

func compareSeq(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// makeTails allocates tails for the slices that are not sealed.
func (l *loader) makeTails(ctx context.Context) error {
	s := l.s
	bits := s.cfg.sliceBits
	first, last := s.sealed.next(), l.last>>bits
	const oldest = "SELECT min(p) FROM (SELECT min(pos) AS p FROM notification WHERE pos >= ?1 UNION ALL SELECT min(first) FROM pack WHERE first >= ?1)"
	err := l.query(ctx, oldest, []any{first << bits}, func(st *sqlite.Stmt) error {
		if st.ColumnType(0) == sqlite.TypeNull {
			first = max(first, last)
		} else {
			first = max(first, st.ColumnInt64(0)>>bits)
		}
		return nil
	})
	if err != nil || first > last {
		return err
	}
	s.tails = make([]*tail, last-first+1)
	for i := range s.tails {
		s.tails[i] = newTail(first+int64(i), bits)
	}
	return nil
}

// loadSettlements reads the commits' settlements of these slices.
func (l *loader) loadSettlements(ctx context.Context) error {
	s := l.s
	s.oldestSettlement, s.nextSettlement = 1, 1
	first, beyond := true, 0 // outcomes have been loaded for the tails with numbers below beyond
	err := l.query(ctx, "SELECT key, data FROM settlement ORDER BY key", nil, func(st *sqlite.Stmt) error {
		key := st.ColumnInt64(0)
		if first {
			first, s.oldestSettlement = false, key
		}
		s.nextSettlement = key + 1
		err := decodeSettled(blob(st, 1), func(q *settled) {
			if q.pos <= l.folded || q.pos > l.last {
				return
			}
			t := s.tailOf(q.pos)
			if t == nil { // pruned
				return
			}
			t.end(q.pos, q.outcome, s.stretch())
			for ; beyond < len(s.tails) && s.tails[beyond].number < t.number; beyond++ {
				s.tails[beyond].settlements = key
			}
		})
		if err != nil {
			return fmt.Errorf("settlement %d: %w", key, err)
		}
		return nil
	})
	for ; beyond < len(s.tails)-1; beyond++ {
		s.tails[beyond].settlements = s.nextSettlement
	}
	return err
}
