package digestdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqltx"
)

// copiesAtOnce is how many copies one transaction stores: the digests that it locks wait for each other.
const copiesAtOnce = 100

// copyOf is one recipient's copy of a lot.
type copyOf struct {
	lot *digest.Lot
	at  int // in the lot's recipients
}

func (c copyOf) to() string { return c.lot.To[c.at] }

// Gather implements digest.Store. Each transaction takes its copies in the order of recipients, so that two that want the same digests do not
// wait for each other.
func (s *Store) Gather(ctx context.Context, lots []*digest.Lot, now time.Time) error {
	var known, all []copyOf
	for _, l := range lots {
		l.Results = make([]digest.Result, len(l.To))
		for i := range l.To {
			if l.Known {
				known = append(known, copyOf{l, i})
			} else {
				all = append(all, copyOf{l, i})
			}
		}
	}
	if err := s.find(ctx, known, now); err != nil {
		return err
	}
	for part := range slices.Chunk(all, copiesAtOnce) {
		slices.SortStableFunc(part, func(a, b copyOf) int { return strings.Compare(a.to(), b.to()) })
		err := s.db.Change(ctx, "gather notifications", func(ctx context.Context, tx sqltx.Tx) error { return s.gather(ctx, tx, part, now) })
		if err != nil {
			return err
		}
	}
	return nil
}

// find finds duplicates among copies that do not gather.
func (s *Store) find(ctx context.Context, all []copyOf, now time.Time) error {
	if len(all) == 0 {
		return nil
	}
	return s.db.Read(ctx, "look for notifications that have gathered", func(ctx context.Context, tx sqltx.Tx) error {
		for _, c := range all {
			r, there, _, err := earlier(ctx, tx, c, now)
			if err != nil {
				return err
			}
			r.Absent = !there
			c.lot.Results[c.at] = r
		}
		return nil
	})
}

// gathering is one transaction that gathers.
type gathering struct {
	tx     sqltx.Tx
	now    time.Time
	bodies map[*digest.Lot]*body // that are stored
	newID  func() string
}

// body is the content that the items of a lot share in one transaction.
type body struct {
	id   string
	refs int
}

func (s *Store) gather(ctx context.Context, tx sqltx.Tx, part []copyOf, now time.Time) error {
	g := &gathering{tx: tx, now: now, bodies: make(map[*digest.Lot]*body), newID: s.newID}
	var order []*digest.Lot
	for _, c := range part {
		if g.bodies[c.lot] == nil {
			g.bodies[c.lot] = &body{id: s.newID()}
			order = append(order, c.lot)
		}
		r, err := g.add(ctx, c)
		if err != nil {
			return err
		}
		c.lot.Results[c.at] = r
	}
	for _, l := range order {
		if b := g.bodies[l]; b.refs > 0 {
			if _, err := tx.Exec(ctx, "INSERT INTO body (app, id, refs, body) VALUES ($1, $2, $3, $4)", l.App, b.id, int64(b.refs), l.Body); err != nil {
				return err
			}
		}
	}
	return nil
}

// earlier finds the item of the same id. again: it ended so long ago that the id is free.
func earlier(ctx context.Context, tx sqltx.Tx, c copyOf, now time.Time) (r digest.Result, there, again bool, err error) {
	err = tx.Each(ctx, "SELECT status, expires, settled, sum FROM item WHERE app = $1 AND recipient = $2 AND id = $3", []any{c.lot.App, c.to(), c.lot.ID}, func(row sqltx.Row) error {
		var status, expires, settled int64
		var sum []byte
		if err := row.Scan(&status, &expires, &settled, &sum); err != nil {
			return err
		}
		if settled > 0 && now.Sub(time.UnixMilli(settled)) > notification.DedupWindow {
			again = true
			return nil
		}
		there = true
		if !bytes.Equal(sum, c.lot.Sum) {
			r.Err = fmt.Errorf("gather notification %s for %s: %w", c.lot.ID, c.to(), mailbox.ErrConflict)
			return nil
		}
		r.AppendResult = mailbox.AppendResult{Status: shown(status, expires, now), Duplicate: true, ExpiresAt: moment(expires)}
		return nil
	})
	return r, there, again, err
}

// add puts one copy into a digest.
func (g *gathering) add(ctx context.Context, c copyOf) (digest.Result, error) {
	l := c.lot
	r, there, again, err := earlier(ctx, g.tx, c, g.now)
	switch {
	case err != nil || there:
		return r, err
	case l.Refused != nil:
		r.Err = l.Refused
		return r, nil
	case again:
		if _, err := g.tx.Exec(ctx, "DELETE FROM item WHERE app = $1 AND recipient = $2 AND id = $3 AND settled > 0", l.App, c.to(), l.ID); err != nil {
			return r, err
		}
	}
	d, err := g.open(ctx, c)
	if errors.Is(err, mailbox.ErrFull) {
		r.Err = err
		return r, nil
	}
	if err != nil {
		return r, err
	}
	return g.join(ctx, c, d)
}

// opened is an open digest, whose row is locked.
type opened struct {
	id                      string
	due, last, items, bytes int64
	fresh                   bool
}

// open finds the open digest of a copy, or begins one.
func (g *gathering) open(ctx context.Context, c copyOf) (d opened, err error) {
	l := c.lot
	for range 3 { // another node may begin or seal the same one
		var found bool
		err := g.tx.Each(ctx, "SELECT id, due, last, items, bytes FROM digest WHERE app = $1 AND recipient = $2 AND category = $3 AND key = $4 AND state = 1"+g.tx.Lock(),
			[]any{l.App, c.to(), l.Category, l.Key}, func(row sqltx.Row) error {
				found = true
				return row.Scan(&d.id, &d.due, &d.last, &d.items, &d.bytes)
			})
		if err != nil || found {
			return d, err
		}
		// The condition on category makes SQLite choose the index of open digests.
		count, err := sqltx.Collect(ctx, g.tx, sqltx.One[int64], "SELECT count(*) FROM digest WHERE app = $1 AND recipient = $2 AND category >= '' AND state = 1", l.App, c.to())
		if err != nil {
			return d, err
		}
		if count[0] >= digest.MaxOpen {
			return d, fmt.Errorf("gather notification %s for %s: %w: %d digests of the recipient wait", l.ID, c.to(), mailbox.ErrFull, count[0])
		}
		d = opened{id: g.newID(), due: g.now.Add(l.Window).UnixMilli(), fresh: true}
		n, err := g.tx.Exec(ctx, `INSERT INTO digest (app, id, recipient, category, key, state, opened, due, sealed, ended, last, items, bytes)
			VALUES ($1, $2, $3, $4, $5, 1, $6, $7, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING`, l.App, d.id, c.to(), l.Category, l.Key, g.now.UnixMilli(), d.due)
		if err != nil || n == 1 {
			return d, err
		}
	}
	return d, fmt.Errorf("gather notification %s for %s: its digest changes too fast", l.ID, c.to())
}

// join adds the item, and seals a digest that is full.
func (g *gathering) join(ctx context.Context, c copyOf, d opened) (r digest.Result, err error) {
	l := c.lot
	if l.Collapse != "" {
		if r.Replaced, err = g.end(ctx, l.App, &d, replaced, "item.digest = $2 AND item.collapse = $3", d.id, l.Collapse); err != nil {
			return r, err
		}
	}
	size := int64(len(l.Body))
	full := func() bool { return d.items+1 >= int64(l.Most) || d.bytes+size >= digest.MaxBytes }
	if full() { // what has expired does not count
		if r.Expired, err = g.end(ctx, l.App, &d, expired, "item.digest = $2 AND item.expires <= $3", d.id, g.now.UnixMilli()); err != nil {
			return r, err
		}
	}
	expires := l.Expires
	if expires.IsZero() {
		expires = time.UnixMilli(d.due).Add(notification.DefaultTTL)
	}
	b := g.bodies[l]
	n, err := g.tx.Exec(ctx, `INSERT INTO item (app, recipient, id, digest, n, status, created, expires, settled, collapse, sum, body, size)
		VALUES ($1, $2, $3, $4, $5, 4, $6, $7, 0, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
		l.App, c.to(), l.ID, d.id, d.last+1, l.Created.UnixMilli(), expires.UnixMilli(), l.Collapse, l.Sum, b.id, size)
	if err != nil {
		return r, err
	}
	if n == 0 { // another node was quicker: this one is a duplicate
		r, there, _, err := earlier(ctx, g.tx, c, g.now)
		if err == nil && !there {
			err = fmt.Errorf("gather notification %s for %s: another publish of it has just been erased", l.ID, c.to())
		}
		return r, err
	}
	b.refs++
	r.Digest, r.Opened, r.Due, r.Until = d.id, d.fresh, full(), d.due
	r.AppendResult = mailbox.AppendResult{Status: notification.Gathered, ExpiresAt: expires}
	state, due, sealed := digest.Open, d.due, int64(0)
	if r.Due {
		state, due, sealed = digest.Sealed, g.now.UnixMilli(), g.now.UnixMilli()
	}
	_, err = g.tx.Exec(ctx, "UPDATE digest SET state = $3, due = $4, sealed = $5, last = $6, items = $7, bytes = $8 WHERE app = $1 AND id = $2",
		l.App, d.id, int64(state), due, sealed, d.last+1, d.items+1, d.bytes+size)
	return r, err
}

// end settles items of an open digest, and returns their ids.
func (g *gathering) end(ctx context.Context, app string, d *opened, as int64, condition string, args ...any) ([]string, error) {
	gone, err := ids(ctx, g.tx, app, condition, args...)
	if err != nil || len(gone) == 0 {
		return nil, err
	}
	size, err := sqltx.Collect(ctx, g.tx, sqltx.One[int64], "SELECT coalesce(CAST(sum(size) AS bigint), 0) FROM item WHERE item.app = $1 AND item.status = 4 AND "+condition, append([]any{app}, args...)...)
	if err != nil {
		return nil, err
	}
	d.items -= int64(len(gone))
	d.bytes -= size[0]
	return gone, settle(ctx, g.tx, app, as, g.now, condition, args...)
}
