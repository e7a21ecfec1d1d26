package mailboxdb

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/millis"
)

// dueSlice is the number of copies that a lane handles in one call of Due or Expire.
const dueSlice = 500

// deadlines finds copies that become due, by an index over a column of pending.
type deadlines struct {
	column, of string // and of which copies

	mu    sync.Mutex
	from  int64 // copies due before this time have been handled
	whole int64 // time of the last search that included the handled times
}

// Entries of settled copies stay in the index while any transaction is open: soon hundreds of thousands, and each search passes over those
// in its range. So a search includes times handled long ago only once in wholeEvery, which is also the longest time that a commit may have
// been under way. If more than fewDead rows are dead, a search covers future times only until the next search.
const (
	wholeEvery = int64(time.Minute / time.Millisecond)
	fewDead    = 20_000
)

// Due implements mailbox.Store. Nodes that call it at the same time share the work: each skips recipients that another has locked.
func (s *Store) Due(ctx context.Context, now time.Time) (time.Time, error) {
	next, err := s.sweep(ctx, &s.dues, millis.Of(now), (*lane).due)
	return next, s.storeError("deliver scheduled notifications", err)
}

// Expire implements mailbox.Store.
func (s *Store) Expire(ctx context.Context, now time.Time) (time.Time, error) {
	next, err := s.sweep(ctx, &s.expiries, millis.Of(now), (*lane).expire)
	return next, s.storeError("expire notifications", err)
}

type upkeep = func(ctx context.Context, tx pgx.Tx, set *tableSet, did *outcome) error

// sweep makes each lane handle a slice if copies are due, and returns the time for the next call.
func (s *Store) sweep(ctx context.Context, d *deadlines, now int64, do func(l *lane, now int64) upkeep) (time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	from := min(d.from, now-wholeEvery)
	if now-d.whole >= wholeEvery || now < d.whole {
		from, d.whole = 0, now
	}
	next, err := s.first(ctx, d, from, now)
	if err == nil && next != 0 && next <= now {
		if err = s.inLanes(ctx, s.lanes, func(l *lane) upkeep { return do(l, now) }); err == nil {
			next, err = s.first(ctx, d, from, now)
		}
	}
	if err != nil {
		d.whole = 0
		return time.Time{}, err
	}
	d.from = now - wholeEvery
	if next != 0 {
		d.from = min(d.from, next-1)
	}
	return millis.Time(next), nil
}

// first returns the first time after from at which a copy becomes due; 0: there is none. If many rows are dead, it searches only up to the
// time of the next search, and returns that time if it finds none.
func (s *Store) first(ctx context.Context, d *deadlines, from, now int64) (at int64, err error) {
	until, none := int64(math.MaxInt64), int64(0)
	if s.sizes.dead.Load() > fewDead {
		until = now + s.LookAgain().Milliseconds()
		none = until
	}
	sql := fmt.Sprintf("SELECT coalesce((SELECT %[1]s FROM pending WHERE %[1]s > $1 AND %[1]s <= $2 AND %[2]s ORDER BY 1 LIMIT 1), $3)", d.column, d.of)
	err = s.db.Pool().QueryRow(ctx, sql, from, until, none).Scan(&at)
	return at, err
}

// overdue is an open copy that is due.
type overdue struct {
	app, recipient string
	row
	collapse string
	content  int64
	lastSeq  int64
	begins   []byte // the beginning of its content
}

// beginsBytes is the part of a content that is read for its category, in bytes; title and text precede the category.
const beginsBytes = 4 << 10

// takeOverdue locks recipients of the lane with copies that satisfy due ($1 is now), skipping those that others have locked. It reads these
// copies, with the first begins bytes of each one's content.
func (l *lane) takeOverdue(ctx context.Context, tx pgx.Tx, set *tableSet, now int64, due, order string, begins int) ([]overdue, error) {
	rows, err := tx.Query(ctx, `SELECT key FROM recipient WHERE key IN (
			SELECT p.recipient FROM pending p JOIN recipient r ON r.key = p.recipient WHERE `+due+` AND r.shard % $2 = $3 ORDER BY `+order+` LIMIT $4
		) ORDER BY key FOR UPDATE SKIP LOCKED`, now, len(l.s.lanes), l.n, dueSlice)
	if err != nil {
		return nil, err
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	sql := set.text("overdue"+due, func() string {
		return `SELECT a.name, r.name, r.last_seq, x.src, p.pos, p.recipient, x.id, p.flags, p.seq, x.created_at, coalesce(p.send_at, 0), p.expires_at,
				coalesce(p.delivered_at, 0), coalesce(p.attempts, 0), coalesce(x.collapse_key, ''), coalesce(x.content, 0), x.begins
			FROM (SELECT * FROM pending p WHERE p.recipient = ANY($2) AND ` + due + ` ORDER BY ` + order + ` LIMIT $3) AS p
			JOIN recipient r ON r.key = p.recipient JOIN app a ON a.key = r.app
			CROSS JOIN LATERAL (` + all(set.hours, "SELECT %[1]d::bigint AS src, n.id, n.created_at, n.collapse_key, n.content, substring(coalesce(n.body, c.body) FOR $4) AS begins FROM note_%[1]d n LEFT JOIN content_%[1]d c ON c.key = n.content WHERE n.recipient = p.recipient AND n.pos = p.pos") + `) AS x
			ORDER BY ` + order
	})
	if rows, err = tx.Query(ctx, sql, now, keys, dueSlice, begins); err != nil {
		return nil, err
	}
	var list []overdue
	var o overdue
	_, err = pgx.ForEachRow(rows, []any{
		&o.app, &o.recipient, &o.lastSeq, &o.src, &o.pos, &o.row.recipient, &o.id, &o.flags, &o.seq, &o.created, &o.sendAt, &o.expires,
		&o.delivered, &o.attempts, &o.collapse, &o.content, &o.begins,
	}, func() error {
		list = append(list, o)
		return nil
	})
	return list, err
}

// expire ends expired copies.
func (l *lane) expire(now int64) upkeep {
	return func(ctx context.Context, tx pgx.Tx, set *tableSet, did *outcome) error {
		list, err := l.takeOverdue(ctx, tx, set, now, "p.expires_at <= $1", "p.expires_at, p.pos", beginsBytes)
		if err != nil || len(list) == 0 {
			return err
		}
		t := newTransaction(l, tx.Conn(), set)
		for i := range list {
			t.expire(&list[i], now)
		}
		return t.writeSlice(ctx, did)
	}
}

func (t *transaction) expire(o *overdue, now int64) {
	b := t.box(o.app, o.recipient)
	b.key = o.row.recipient
	c := t.openOf(b, &o.row)
	mark := t.l.s.notes.TakeMark(c.pos)
	if c.delivered == 0 {
		c.delivered = mark.DeliveredAt
	}
	c.attempts = max(c.attempts, int32(mark.Attempts)) // counts deliveries
	t.end(c, ending{id: o.id, as: notification.Expired, at: now, mark: mark, category: content.Category(o.begins)})
}

// writeSlice writes the results of a slice; the caller commits.
func (t *transaction) writeSlice(ctx context.Context, did *outcome) error {
	a := &asking{}
	t.askSettles(a)
	t.askRare(a)
	if err := t.askInboxWrites(a); err != nil {
		return err
	}
	t.askTried(a)
	t.askTrace(a)
	if err := a.send(ctx, t.conn); err != nil {
		return err
	}
	t.settledNow()
	*did = t.outcome
	return nil
}

// due gives scheduled copies their seq, unless they have expired meanwhile.
func (l *lane) due(now int64) upkeep {
	return func(ctx context.Context, tx pgx.Tx, set *tableSet, did *outcome) error {
		list, err := l.takeOverdue(ctx, tx, set, now, "p.seq = 0 AND p.send_at <= $1", "p.send_at, p.pos", 0)
		if err != nil || len(list) == 0 {
			return err
		}
		t := newTransaction(l, tx.Conn(), set)
		t.inboxes.ctx = ctx
		var refs []itemRef
		var keys, positions, seqs []int64
		last := make(map[int64]int64)
		for i := range list {
			o := &list[i]
			if o.expires <= now {
				t.expire(o, now)
				continue
			}
			key := o.row.recipient
			last[key] = max(last[key], o.lastSeq) + 1
			keys, positions, seqs = append(keys, key), append(positions, o.pos), append(seqs, last[key])
			t.pending++
			t.scheduled--
			refs = append(refs, itemRef{app: o.app, recipient: o.recipient, key: key, pos: o.pos, seq: last[key], attempts: o.attempts})
		}
		items, err := t.l.s.readItems(ctx, tx.Conn(), set, refs)
		if err != nil {
			return err
		}
		for i, it := range items {
			if it == nil {
				continue
			}
			t.tell.Due = append(t.tell.Due, *it)
			if it.N.Content.Inbox != nil {
				if err := t.keepDue(it, keys[i], now); err != nil {
					return err
				}
			}
		}
		a := &asking{}
		a.ask("UPDATE pending p SET seq = q.seq FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS q(recipient, pos, seq) WHERE "+openAt,
			nil, keys, positions, seqs)
		a.ask("UPDATE recipient r SET last_seq = q.seq FROM (SELECT key, max(seq) AS seq FROM unnest($1::bigint[], $2::bigint[]) AS q(key, seq) GROUP BY key) AS q WHERE r.key = q.key",
			nil, keys, seqs)
		if err := a.send(ctx, tx.Conn()); err != nil {
			return err
		}
		return t.writeSlice(ctx, did)
	}
}
