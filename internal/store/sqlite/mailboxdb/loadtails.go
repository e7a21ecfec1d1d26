package mailboxdb

import (
	"context"
	"math"
	"slices"

	"zombiezen.com/go/sqlite"
)

// lastPacked is an SQL expression for the position of the last packed copy.
const lastPacked = "coalesce((SELECT first + length(ends) / 6 - 1 FROM pack ORDER BY first DESC LIMIT 1), 0)"

func (l *loader) eachPack(ctx context.Context, from, to int64, yield func(*pack) error) error {
	return l.s.db.Read(ctx, func(c *sqlite.Conn) error {
		st, err := c.Prepare(selectPacks)
		if err != nil {
			return err
		}
		return eachPack(st, from, to, yield)
	})
}

// ended reports whether a copy has ended although its row may not say so.
func (l *loader) ended(pos int64) bool {
	t := l.s.tailOf(pos)
	return t != nil && t.endOf(pos, l.s.stretch()).as != 0
}

// readRecent reads the pending copies among the rows and packs that do not say which copies are pending.
func (l *loader) readRecent(ctx context.Context, from, to int64) ([]loadedRow, error) {
	rows, err := l.readOpen(ctx, "open = 2", from, to)
	if err != nil || from >= to {
		return rows, err
	}
	err = l.eachPack(ctx, from, to-1, func(p *pack) error {
		e := p.shared.entry()
		for pos := max(from, p.shared.pos); pos <= min(p.last(), to-1); pos++ {
			if r, ok := p.row(pos); ok && r.apart && !l.ended(pos) {
				e.pos, e.offset = pos, r.offset
				rows = append(rows, loadedRow{recipient: r.recipient, seq: r.seq, e: e})
			}
		}
		return nil
	})
	slices.SortFunc(rows, func(a, b loadedRow) int { return int(a.e.pos - b.e.pos) })
	return rows, err
}

// loadTails reads the ids of the slices that are not sealed.
func (l *loader) loadTails(ctx context.Context) error {
	s := l.s
	return inParallel(int64(len(s.tails)), func(_ int, from, to int64) error {
		for _, t := range s.tails[from:to] {
			err := s.db.Read(ctx, func(c *sqlite.Conn) error {
				return (&tailLoader{l: l, t: t, c: c, names: make(map[uint32]string)}).load()
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// tailLoader fills a tail from rows and packs, in the order of positions.
type tailLoader struct {
	l     *loader
	t     *tail
	c     *sqlite.Conn
	names map[uint32]string // app names by recipient key, for recipients that the loader does not have
	packs []*pack           // that are still to come
	upTo  int64             // the last packed position already added: rows before it are of copies that left their packs

	hash    uint32 // of id in app
	app, id string
}

func (x *tailLoader) load() error {
	first, last := x.t.pos(0), x.t.pos(1<<x.t.bits)-1
	packs, err := x.c.Prepare(selectPacks)
	if err != nil {
		return err
	}
	err = eachPack(packs, first, last, func(p *pack) error {
		x.packs = append(x.packs, p)
		return nil
	})
	if err != nil {
		return err
	}
	st := x.c.Prep("SELECT pos, recipient, id FROM notification WHERE pos >= ?1 AND pos <= ?2 ORDER BY pos")
	st.BindInt64(1, first)
	st.BindInt64(2, last)
	err = each(st, func(st *sqlite.Stmt) error {
		pos := st.ColumnInt64(0)
		if err := x.packsBefore(pos); err != nil || pos <= x.upTo {
			return err
		}
		return x.add(pos, uint32(st.ColumnInt64(1)), st.ColumnText(2))
	})
	if err != nil {
		return err
	}
	return x.packsBefore(math.MaxInt64)
}

// packsBefore adds the copies of the packs that begin at or before a position.
func (x *tailLoader) packsBefore(pos int64) error {
	for len(x.packs) > 0 && x.packs[0].shared.pos <= pos {
		p := x.packs[0]
		for i, c := range p.copies {
			if err := x.add(p.shared.pos+int64(i), c.recipient, p.shared.id); err != nil {
				return err
			}
		}
		x.upTo, x.packs = p.last(), x.packs[1:]
	}
	return nil
}

func (x *tailLoader) add(pos int64, key uint32, id string) error {
	app, err := x.appOf(key)
	if err != nil {
		return err
	}
	if app != x.app || id != x.id {
		x.app, x.id, x.hash = app, id, 0
		if app != "" { // otherwise its recipient is being erased, and only the erasure looks for the row, by recipient
			x.hash = idHash(app, id)
		}
	}
	x.t.add(pos, indexKey(x.hash, key))
	return nil
}

// appOf returns the app of a recipient; "": the recipient is erased.
func (x *tailLoader) appOf(key uint32) (string, error) {
	if r := x.l.byKey[key]; r != nil {
		return r.app.name, nil
	}
	if name, ok := x.names[key]; ok {
		return name, nil
	}
	st := x.c.Prep("SELECT app FROM recipient WHERE key = ?1")
	st.BindInt64(1, int64(key))
	err := each(st, func(st *sqlite.Stmt) error {
		if a := x.l.apps[st.ColumnInt64(0)]; a != nil {
			x.names[key] = a.name
		}
		return nil
	})
	return x.names[key], err
}
