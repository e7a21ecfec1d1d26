package mailboxdb

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/millis"
)

var _ mailbox.Changes = (*Store)(nil)

// changedSlice is how many positions Changed reads in one transaction, which takes some milliseconds.
const changedSlice = 2000

// Changed implements mailbox.Changes. Places are positions.
func (s *Store) Changed(ctx context.Context, since time.Time, place int64) (list []mailbox.Change, next int64, err error) {
	first, last := s.kept()
	from := max(place+1, first)
	to := min(from+changedSlice-1, last)
	err = s.read(ctx, "", func(c *sqlite.Conn) error {
		list = list[:0]
		return s.readChanged(c, from, to, millis.Of(since), &list)
	})
	if err != nil {
		return nil, 0, storeError("list what has changed", err)
	}
	if next = to; to >= last {
		next = 0
	}
	return list, next, nil
}

// kept returns the range of positions that may have copies.
func (s *Store) kept() (first, last int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	first = 1
	if list := s.sealed.all(); len(list) > 0 {
		first = max(first, list[0].number<<s.cfg.sliceBits)
	} else if len(s.tails) > 0 {
		first = max(first, s.tails[0].pos(0))
	}
	return first, s.shownPos
}

func (s *Store) readChanged(c *sqlite.Conn, from, to, since int64, list *[]mailbox.Change) error {
	copies, err := s.copiesOn(c)
	if err != nil {
		return err
	}
	name, err := c.Prepare("SELECT r.name, a.name FROM recipient r JOIN app a ON a.key = r.app WHERE r.key = ?1")
	if err != nil {
		return err
	}
	for pos := from; pos <= to; pos++ {
		r, ok, err := copies.read(pos)
		if err != nil {
			return err
		}
		if !ok || max(r.created, r.delivered, r.settled) < since {
			continue
		}
		name.BindInt64(1, int64(r.recipient))
		err = each(name, func(st *sqlite.Stmt) error {
			*list = append(*list, mailbox.Change{App: st.ColumnText(1), Record: r.record(st.ColumnText(0), 0)})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
