// Package digestdb stores digests and their items, on either database.
package digestdb

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqltx"
)

//go:embed sqlite postgres
var migrations embed.FS

// Migrations returns the migrations for each database.
func Migrations() (sqlite, postgres fs.FS) { return sqltx.Migrations(migrations) }

// DB is a database with the tables. op names a transaction in errors. A transaction's function may run again from the start.
type DB interface {
	Read(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error
	Change(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error
}

// Store implements digest.Store.
type Store struct {
	db    DB
	newID func() string
}

var _ digest.Store = (*Store)(nil)

// New makes the store of a database. newID makes the ids of digests, which sort by time.
func New(db DB, newID func() string) *Store { return &Store{db, newID} }

// Statuses of items, as they are stored: numbers of notification.Status.
const (
	waiting  = int64(notification.Gathered)
	digested = int64(notification.Digested)
	expired  = int64(notification.Expired)
	replaced = int64(notification.Replaced)
	recalled = int64(notification.Recalled)
)

const (
	pruneAtOnce = 500
	atATime     = 16 // transactions of digests that leave
)

// settle ends the waiting items of an app that a condition names. Its placeholders begin at $2; args are their values. The last item that refers
// to a body deletes it.
func settle(ctx context.Context, tx sqltx.Tx, app string, as int64, now time.Time, condition string, args ...any) error {
	which := "item.app = $1 AND item.status = 4 AND " + condition
	bodies := "app = $1 AND id IN (SELECT item.body FROM item WHERE " + which + ")"
	all := append([]any{app}, args...)
	if tx.Lock() != "" { // in order, so that digests with the same bodies do not wait for each other
		if _, err := sqltx.Collect(ctx, tx, sqltx.One[string], "SELECT id FROM body WHERE "+bodies+" ORDER BY id"+tx.Lock(), all...); err != nil {
			return err
		}
	}
	for _, statement := range []string{"UPDATE body SET refs = refs - 1 WHERE ", "DELETE FROM body WHERE refs <= 0 AND "} {
		if _, err := tx.Exec(ctx, statement+bodies, all...); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, fmt.Sprintf("UPDATE item SET status = %d, settled = $%d, body = '' WHERE %s", as, len(all)+1, which), append(all, now.UnixMilli())...)
	return err
}

// ids reads the ids of the waiting items of an app that a condition names, oldest first; see settle.
func ids(ctx context.Context, tx sqltx.Tx, app, condition string, args ...any) ([]string, error) {
	return sqltx.Collect(ctx, tx, sqltx.One[string], "SELECT id FROM item WHERE item.app = $1 AND item.status = 4 AND "+condition+" ORDER BY n", append([]any{app}, args...)...)
}

// inParallel calls f with each of n numbers, some at a time, and returns the first error. On SQLite calls share a commit.
func inParallel(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	room := make(chan struct{}, atATime)
	for i := range n {
		room <- struct{}{}
		wg.Go(func() {
			errs[i] = f(i)
			<-room
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Lookup implements digest.Store.
func (s *Store) Lookup(ctx context.Context, app, id, to string, now time.Time) (records []mailbox.Record, err error) {
	query := `SELECT i.recipient, i.status, i.created, i.expires, i.settled, i.digest, coalesce(d.due, 0), coalesce(d.items, 0)
		FROM item i LEFT JOIN digest d ON d.app = i.app AND d.id = i.digest WHERE i.app = $1 AND i.id = $2`
	args := []any{app, id}
	if to != "" {
		query, args = query+" AND i.recipient = $3", append(args, to)
	}
	err = s.db.Read(ctx, "look up a notification in digests", func(ctx context.Context, tx sqltx.Tx) (err error) {
		records, err = sqltx.Collect(ctx, tx, func(row sqltx.Row) (r mailbox.Record, err error) {
			var status, created, expires, settled, due, items int64
			err = row.Scan(&r.To, &status, &created, &expires, &settled, &r.Digest.ID, &due, &items)
			r.ID, r.CreatedAt, r.ExpiresAt, r.SettledAt = id, moment(created), moment(expires), moment(settled)
			r.Status, r.Digest.Due, r.Digest.Items = shown(status, expires, now), moment(due), int(items)
			if r.Status == notification.Expired && settled == 0 {
				r.SettledAt = r.ExpiresAt
			}
			return r, err
		}, query, args...)
		return err
	})
	slices.SortFunc(records, func(a, b mailbox.Record) int { return strings.Compare(a.To, b.To) }) // sorted by SQLite it would read all items of the app
	return records, err
}

// shown is the status of an item: one that has expired is settled only when its digest leaves.
func shown(status, expires int64, now time.Time) notification.Status {
	if status == waiting && expires <= now.UnixMilli() {
		return notification.Expired
	}
	return notification.Status(status) // as it was stored
}

// moment reads a stored time; 0 is none.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Recall implements digest.Store.
func (s *Store) Recall(ctx context.Context, app, id, to string, now time.Time) (taken []string, found bool, err error) {
	query, args := "SELECT recipient, digest, size, status, expires FROM item WHERE app = $1 AND id = $2", []any{app, id}
	if to != "" {
		query, args = query+" AND recipient = $3", append(args, to)
	}
	type one struct {
		to, digest            string
		size, status, expires int64
	}
	err = s.db.Change(ctx, "recall a notification from its digest", func(ctx context.Context, tx sqltx.Tx) error {
		taken, found = nil, false
		all, err := sqltx.Collect(ctx, tx, func(row sqltx.Row) (o one, err error) {
			err = row.Scan(&o.to, &o.digest, &o.size, &o.status, &o.expires)
			return o, err
		}, query, args...)
		if err != nil {
			return err
		}
		slices.SortFunc(all, func(a, b one) int { return strings.Compare(a.digest, b.digest) }) // as all lock them; sorted by SQLite it would read all items of the app
		found = len(all) > 0
		for _, o := range all {
			if shown(o.status, o.expires, now) != notification.Gathered {
				continue
			}
			out, err := takeOut(ctx, tx, app, o.digest, o.to, id, o.size, now)
			if err != nil {
				return err
			}
			if out {
				taken = append(taken, o.to)
			}
		}
		return nil
	})
	return taken, found, err
}

// takeOut recalls one item, if its digest is open. A digest without items is deleted.
func takeOut(ctx context.Context, tx sqltx.Tx, app, of, to, id string, size int64, now time.Time) (bool, error) {
	open, err := sqltx.Collect(ctx, tx, sqltx.One[int64], "SELECT items FROM digest WHERE app = $1 AND id = $2 AND state = 1"+tx.Lock(), app, of)
	if err != nil || len(open) == 0 {
		return false, err
	}
	still, err := ids(ctx, tx, app, "item.recipient = $2 AND item.id = $3", to, id) // as it is now that the digest is locked
	if err != nil || len(still) == 0 {
		return false, err
	}
	if err := settle(ctx, tx, app, recalled, now, "item.recipient = $2 AND item.id = $3", to, id); err != nil {
		return false, err
	}
	if open[0] <= 1 {
		_, err = tx.Exec(ctx, "DELETE FROM digest WHERE app = $1 AND id = $2", app, of)
	} else {
		_, err = tx.Exec(ctx, "UPDATE digest SET items = items - 1, bytes = bytes - $3 WHERE app = $1 AND id = $2", app, of, size)
	}
	return true, err
}

// Prune implements digest.Store.
func (s *Store) Prune(ctx context.Context, before time.Time) (more bool, err error) {
	err = s.db.Change(ctx, "delete old digests", func(ctx context.Context, tx sqltx.Tx) error {
		more = false
		for _, statement := range []string{
			"DELETE FROM item WHERE (app, recipient, id) IN (SELECT app, recipient, id FROM item WHERE settled > 0 AND settled < $1 ORDER BY settled LIMIT $2)",
			"DELETE FROM digest WHERE (app, id) IN (SELECT app, id FROM digest WHERE state > 2 AND ended < $1 ORDER BY ended LIMIT $2)",
		} {
			n, err := tx.Exec(ctx, statement, before.UnixMilli(), int64(pruneAtOnce))
			if err != nil {
				return err
			}
			more = more || n == pruneAtOnce
		}
		return nil
	})
	return more, err
}

// EraseRecipient implements digest.Store.
func (s *Store) EraseRecipient(ctx context.Context, app, recipient string) (n int, err error) {
	err = s.db.Change(ctx, "erase a recipient's digests", func(ctx context.Context, tx sqltx.Tx) (err error) {
		// Publishers and senders lock a digest before they change its items.
		if _, err := sqltx.Collect(ctx, tx, sqltx.One[string], "SELECT id FROM digest WHERE app = $1 AND recipient = $2 ORDER BY id"+tx.Lock(), app, recipient); err != nil {
			return err
		}
		if err := settle(ctx, tx, app, recalled, time.UnixMilli(1), "item.recipient = $2", recipient); err != nil {
			return err
		}
		if n, err = tx.Exec(ctx, "DELETE FROM item WHERE app = $1 AND recipient = $2", app, recipient); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM digest WHERE app = $1 AND recipient = $2", app, recipient)
		return err
	})
	return n, err
}

// EraseApp implements digest.Store.
func (s *Store) EraseApp(ctx context.Context, app string) error {
	return s.db.Change(ctx, "erase an app's digests", func(ctx context.Context, tx sqltx.Tx) error {
		for _, table := range []string{"item", "digest", "body"} {
			if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE app = $1", app); err != nil {
				return err
			}
		}
		return nil
	})
}
