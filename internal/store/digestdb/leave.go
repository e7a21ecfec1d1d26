package digestdb

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/sqltx"
)

// Due implements digest.Store.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) (due []digest.Ref, next time.Time, err error) {
	err = s.db.Read(ctx, "look for digests that are due", func(ctx context.Context, tx sqltx.Tx) (err error) {
		next = time.Time{}
		due, err = sqltx.Collect(ctx, tx, func(row sqltx.Row) (r digest.Ref, err error) {
			err = row.Scan(&r.App, &r.ID)
			return r, err
		}, "SELECT app, id FROM digest WHERE state < 3 AND due <= $1 ORDER BY due LIMIT $2", now.UnixMilli(), int64(limit))
		if err != nil || len(due) > 0 {
			return err
		}
		return tx.Each(ctx, "SELECT due FROM digest WHERE state < 3 ORDER BY due LIMIT 1", nil, func(row sqltx.Row) error {
			var at int64
			err := row.Scan(&at)
			next = moment(at)
			return err
		})
	})
	return due, next, err
}

// Seal implements digest.Store. Each digest has a transaction of its own: publishers wait for it.
func (s *Store) Seal(ctx context.Context, due []digest.Ref, now time.Time) (leaving []digest.Leaving, err error) {
	sealed := make([]*digest.Leaving, len(due))
	err = inParallel(len(due), func(i int) error {
		return s.db.Change(ctx, "end the gathering of a digest", func(ctx context.Context, tx sqltx.Tx) (err error) {
			sealed[i], err = seal(ctx, tx, due[i], now)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	for _, l := range sealed {
		if l != nil {
			leaving = append(leaving, *l)
		}
	}
	return leaving, nil
}

const columns = "id, recipient, category, key, state, opened, due, sealed, ended, items"

func readDigest(app string) func(sqltx.Row) (digest.Digest, error) {
	return func(row sqltx.Row) (d digest.Digest, err error) {
		var state, opened, due, sealed, ended, items int64
		err = row.Scan(&d.ID, &d.To, &d.Category, &d.Key, &state, &opened, &due, &sealed, &ended, &items)
		d.App, d.State, d.Items = app, digest.State(state), int(items)
		d.Opened, d.Due, d.Sealed, d.Ended = moment(opened), moment(due), moment(sealed), moment(ended)
		return d, err
	}
}

// seal returns nil if the digest has ended.
func seal(ctx context.Context, tx sqltx.Tx, r digest.Ref, now time.Time) (*digest.Leaving, error) {
	found, err := sqltx.Collect(ctx, tx, readDigest(r.App), "SELECT "+columns+" FROM digest WHERE app = $1 AND id = $2 AND state < 3"+tx.Lock(), r.App, r.ID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	l := &digest.Leaving{Digest: found[0]}
	if l.State == digest.Open {
		if l.Expired, err = ids(ctx, tx, r.App, "item.digest = $2 AND item.expires <= $3", r.ID, now.UnixMilli()); err != nil {
			return nil, err
		}
		if len(l.Expired) > 0 {
			if err := settle(ctx, tx, r.App, expired, now, "item.digest = $2 AND item.expires <= $3", r.ID, now.UnixMilli()); err != nil {
				return nil, err
			}
		}
		l.State, l.Sealed = digest.Sealed, now
	}
	var latest int64
	err = tx.Each(ctx, "SELECT count(*), coalesce(max(expires), 0) FROM item WHERE app = $1 AND digest = $2 AND status = 4", []any{r.App, r.ID}, func(row sqltx.Row) error {
		var n int64
		err := row.Scan(&n, &latest)
		l.Items = int(n)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.Expires = moment(latest)
	if l.Items == 0 {
		_, err = tx.Exec(ctx, "DELETE FROM digest WHERE app = $1 AND id = $2", r.App, r.ID)
		return l, err
	}
	if l.Newest, err = newest(ctx, tx, r); err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, "UPDATE digest SET state = 2, sealed = $3, items = $4 WHERE app = $1 AND id = $2", r.App, r.ID, l.Sealed.UnixMilli(), int64(l.Items))
	return l, err
}

func newest(ctx context.Context, tx sqltx.Tx, r digest.Ref) ([]digest.Item, error) {
	return sqltx.Collect(ctx, tx, func(row sqltx.Row) (i digest.Item, err error) {
		var created int64
		err = row.Scan(&i.ID, &created, &i.Body)
		i.Created = moment(created)
		return i, err
	}, `SELECT i.id, i.created, b.body FROM item i JOIN body b ON b.app = i.app AND b.id = i.body
		WHERE i.app = $1 AND i.digest = $2 AND i.status = 4 ORDER BY i.n DESC LIMIT $3`, r.App, r.ID, int64(digest.Shown))
}

// End implements digest.Store.
func (s *Store) End(ctx context.Context, done []digest.Ref, as digest.State, now time.Time) (items [][]string, err error) {
	status := digested
	if as == digest.Lapsed {
		status = expired
	}
	items = make([][]string, len(done))
	err = inParallel(len(done), func(i int) error {
		return s.db.Change(ctx, "note that a digest has left", func(ctx context.Context, tx sqltx.Tx) (err error) {
			items[i], err = end(ctx, tx, done[i], as, status, now)
			return err
		})
	})
	return items, err
}

// end returns nil if the digest is gone.
func end(ctx context.Context, tx sqltx.Tx, r digest.Ref, as digest.State, status int64, now time.Time) ([]string, error) {
	there, err := sqltx.Collect(ctx, tx, sqltx.One[int64], "SELECT state FROM digest WHERE app = $1 AND id = $2"+tx.Lock(), r.App, r.ID)
	if err != nil || len(there) == 0 {
		return nil, err
	}
	of, err := ids(ctx, tx, r.App, "item.digest = $2", r.ID)
	if err != nil {
		return nil, err
	}
	if err := settle(ctx, tx, r.App, status, now, "item.digest = $2", r.ID); err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, "UPDATE digest SET state = $3, ended = $4 WHERE app = $1 AND id = $2 AND state < 3", r.App, r.ID, int64(as), now.UnixMilli())
	return append([]string{}, of...), err
}

// Postpone implements digest.Store.
func (s *Store) Postpone(ctx context.Context, r digest.Ref, until time.Time) error {
	return s.db.Change(ctx, "postpone a digest", func(ctx context.Context, tx sqltx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE digest SET due = $3 WHERE app = $1 AND id = $2 AND state = 2", r.App, r.ID, until.UnixMilli())
		return err
	})
}

// Digests implements digest.Store.
func (s *Store) Digests(ctx context.Context, app, to string, open bool, before string, limit int) (list []digest.Digest, err error) {
	query, args := "SELECT "+columns+" FROM digest WHERE app = $1 AND ($2 = '' OR id < $2)", []any{app, before, int64(limit)}
	if to != "" {
		query, args = query+" AND recipient = $4", append(args, to)
	}
	if open {
		query += " AND state < 3"
	}
	err = s.db.Read(ctx, "list digests", func(ctx context.Context, tx sqltx.Tx) (err error) {
		list, err = sqltx.Collect(ctx, tx, readDigest(app), query+" ORDER BY id DESC LIMIT $3", args...)
		return err
	})
	return list, err
}

// Digest implements digest.Store.
func (s *Store) Digest(ctx context.Context, app, id string) (d digest.Digest, items []string, err error) {
	err = s.db.Read(ctx, "read a digest", func(ctx context.Context, tx sqltx.Tx) error {
		found, err := sqltx.Collect(ctx, tx, readDigest(app), "SELECT "+columns+" FROM digest WHERE app = $1 AND id = $2", app, id)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return mailbox.ErrNotFound
		}
		d = found[0]
		items, err = sqltx.Collect(ctx, tx, sqltx.One[string], "SELECT id FROM item WHERE app = $1 AND digest = $2 AND status IN (4, 16) ORDER BY n", app, id)
		return err
	})
	return d, items, err
}

// Waiting implements digest.Store.
func (s *Store) Waiting(ctx context.Context) (all map[string]digest.Count, err error) {
	err = s.db.Read(ctx, "count the digests that wait", func(ctx context.Context, tx sqltx.Tx) error {
		all = make(map[string]digest.Count)
		return tx.Each(ctx, "SELECT app, count(*), CAST(sum(items) AS bigint) FROM digest WHERE state < 3 GROUP BY app", nil, func(row sqltx.Row) error {
			var app string
			var c digest.Count
			err := row.Scan(&app, &c.Digests, &c.Items)
			all[app] = c
			return err
		})
	})
	return all, err
}

// Apps implements digest.Store. It steps from app to app in the index.
func (s *Store) Apps(ctx context.Context) (all []string, err error) {
	err = s.db.Read(ctx, "list the apps with digests", func(ctx context.Context, tx sqltx.Tx) error {
		all = nil
		for last := ""; ; last = all[len(all)-1] {
			next, err := sqltx.Collect(ctx, tx, sqltx.One[string], "SELECT app FROM item WHERE app > $1 ORDER BY app LIMIT 1", last)
			if err != nil || len(next) == 0 {
				return err
			}
			all = append(all, next[0])
		}
	})
	return all, err
}
