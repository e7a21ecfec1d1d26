package mailboxdb

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/millis"
)

const (
	listLimit = 100 // items on a page if the caller gives no limit
	// maxExamined limits the rows that one page of a history reads if a status is given.
	maxExamined = 1000
	// examinedAtOnce is the number of these rows read together.
	examinedAtOnce = 200
)

// Lookup implements mailbox.Store. It fails with mailbox.ErrNotFound when there is no such notification.
func (s *Store) Lookup(ctx context.Context, appName, id, to string) (records []mailbox.Record, err error) {
	return s.lookUp(ctx, appName, id, to, math.MaxInt32)
}

// Copies implements mailbox.Copies.
func (s *Store) Copies(ctx context.Context, appName, id string, limit int) (records []mailbox.Record, err error) {
	return s.lookUp(ctx, appName, id, "", limit)
}

func (s *Store) lookUp(ctx context.Context, appName, id, to string, limit int) (records []mailbox.Record, err error) {
	err = s.tables.with(ctx, func(set *tableSet) error {
		records = nil
		conn, err := s.db.Pool().Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		records, err = s.lookup(ctx, conn.Conn(), set, appName, id, to, limit)
		return err
	})
	if err != nil {
		return nil, s.storeError("look up notification "+id, err)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("notification %s: %w", id, mailbox.ErrNotFound)
	}
	return records, nil
}

// lookup reads the state of copies. It adds clients' answers only for a single recipient: a thousand answers would be too much. If a
// recipient got the id twice, the newer copy counts.
func (s *Store) lookup(ctx context.Context, conn *pgx.Conn, set *tableSet, appName, id, to string, limit int) ([]mailbox.Record, error) {
	which, args := "n.id_key = $1 AND n.id = $2", []any{idKey(appName, id), id, appName, limit}
	if to != "" {
		of := &box{Address: mailbox.Address{App: appName, Recipient: to}}
		if err := readKeys(ctx, conn, []*box{of}); err != nil || of.key == 0 {
			return nil, err
		}
		which, args = which+" AND n.recipient = $5", append(args, of.key)
	}
	which += " LIMIT $4" // of each table
	sql := set.text(which, func() string {
		return "SELECT r.name, " + rowColumns + " FROM (" + set.copies(set.days, which) + `) AS x
			JOIN recipient r ON r.key = x.recipient JOIN app a ON a.key = r.app ` + set.standing() + `
			WHERE a.name = $3 AND ` + kept + " ORDER BY x.pos LIMIT $4"
	})
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	now := s.nowMS()
	var found []row
	var names []string
	newest := make(map[int64]int64)
	var r row
	var name string
	_, err = pgx.ForEachRow(rows, append([]any{&name}, r.fields()...), func() error {
		found, names = append(found, r), append(names, name)
		newest[r.recipient] = r.pos
		return nil
	})
	if err != nil {
		return nil, err
	}
	var records []mailbox.Record
	var keys []int64
	for i := range found {
		if newest[found[i].recipient] == found[i].pos {
			records, keys = append(records, found[i].record(names[i], now)), append(keys, found[i].recipient)
		}
	}
	if err := s.readBeside(ctx, conn, records, keys, to != ""); err != nil || to == "" {
		return records, err
	}
	for i := range records {
		if err := s.tellTried(ctx, conn, appName, keys[i], &records[i]); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// record returns the copy's state at now: an overdue copy is expired even if its row does not say so yet.
func (r *row) record(to string, now int64) mailbox.Record {
	rec := mailbox.Record{
		ID: r.id, To: to, Status: notification.Status(r.status), Ack: r.flags.ack(), Priority: r.flags.priority(), Seq: uint64(r.seq), // as stored
		CreatedAt: millis.Time(r.created), SendAt: millis.Time(r.sendAt), ExpiresAt: millis.Time(r.expires), DeliveredAt: millis.Time(r.delivered), SettledAt: millis.Time(r.settled),
		Attempts: uint32(r.attempts), Pos: r.pos, // counts from 0
	}
	if r.open {
		o := open{seq: r.seq, expires: r.expires, delivered: r.delivered}
		if rec.Status = o.status(now); rec.Status == notification.Expired {
			rec.SettledAt = rec.ExpiresAt
		}
	}
	return rec
}

// readBeside adds the data stored apart from copies: nacks, and answers if they are wanted.
func (s *Store) readBeside(ctx context.Context, conn *pgx.Conn, records []mailbox.Record, keys []int64, replies bool) error {
	if len(records) == 0 {
		return nil
	}
	positions := make([]int64, len(records))
	for i := range records {
		positions[i] = records[i].Pos
	}
	a := &asking{}
	var n int64
	a.ask("SELECT q.n, k.count, k.reason FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS q(recipient, pos, n) JOIN nack k ON k.recipient = q.recipient AND k.pos = q.pos",
		func(rows pgx.Rows) error {
			var k nack
			_, err := pgx.ForEachRow(rows, []any{&n, &k.count, &k.reason}, func() error {
				records[n-1].Nacks, records[n-1].Reason = uint32(k.count), k.reason // counts from 0
				return nil
			})
			return err
		}, keys, positions)
	if replies {
		a.ask("SELECT q.n, k.status, k.content_type, k.data FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS q(recipient, pos, n) JOIN reply k ON k.recipient = q.recipient AND k.pos = q.pos",
			func(rows pgx.Rows) error {
				var k notification.Reply
				_, err := pgx.ForEachRow(rows, []any{&n, &k.Status, &k.ContentType, &k.Data}, func() error {
					if rec := &records[n-1]; rec.Status == notification.Replied {
						found := k
						found.Data = slices.Clone(k.Data)
						rec.Reply = &found
					}
					return nil
				})
				return err
			}, keys, positions)
	}
	return a.send(ctx, conn)
}

// History implements mailbox.Store.
func (s *Store) History(ctx context.Context, appName, name string, status notification.Status, limit int, cursor int64) (items []mailbox.Record, next int64, err error) {
	if limit <= 0 {
		limit = listLimit
	}
	if cursor <= 0 {
		cursor = 1<<63 - 1
	}
	err = s.tables.with(ctx, func(set *tableSet) error {
		conn, err := s.db.Pool().Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		items, next, err = s.history(ctx, conn.Conn(), set, mailbox.Address{App: appName, Recipient: name}, status, limit, cursor)
		return err
	})
	if err != nil {
		return nil, 0, s.storeError("list notifications of "+name, err)
	}
	return items, next, nil
}

func (s *Store) history(ctx context.Context, conn *pgx.Conn, set *tableSet, of mailbox.Address, status notification.Status, limit int, cursor int64) (items []mailbox.Record, next int64, err error) {
	b := []*box{{Address: of}}
	if err := readKeys(ctx, conn, b); err != nil || b[0].key == 0 {
		return nil, 0, err
	}
	now, window := s.nowMS(), limit+1
	if status != 0 {
		window = max(window, examinedAtOnce)
	}
	for examined := 0; ; {
		page, shown, err := readHistory(ctx, conn, set, b[0], cursor, window)
		if err != nil {
			return nil, 0, err
		}
		var keys []int64
		for i := range page {
			if len(items) == limit || examined == maxExamined {
				next = cursor
				break
			}
			examined++
			cursor = page[i].pos
			if rec := page[i].record(of.Recipient, now); shown[i] && (status == 0 || rec.Status == status) {
				items, keys = append(items, rec), append(keys, b[0].key)
			}
		}
		if err := s.readBeside(ctx, conn, items[len(items)-len(keys):], keys, false); err != nil {
			return nil, 0, err
		}
		if next != 0 || len(page) < window {
			return items, next, nil
		}
	}
}

// readHistory reads copies before a position, newest first, and marks those to show: copies within retention whose id was not used again.
// It reads at most a page from each table.
func readHistory(ctx context.Context, conn *pgx.Conn, set *tableSet, b *box, before int64, limit int) (page []row, shown []bool, err error) {
	sql := set.text("history", func() string {
		return "SELECT " + kept + " AND NOT EXISTS (SELECT FROM (" +
			set.copies(set.days, "n.id_key = x.id_key AND n.recipient = x.recipient AND n.id = x.id AND n.pos > x.pos") + ") AS newer), " + rowColumns +
			" FROM (SELECT * FROM (" + set.copies(set.days, "n.recipient = $1 AND n.pos < $2 ORDER BY n.pos DESC LIMIT $3") +
			") AS c ORDER BY pos DESC LIMIT $3) AS x " + set.standing() + " ORDER BY x.pos DESC"
	})
	rows, err := conn.Query(ctx, sql, b.key, before, limit)
	if err != nil {
		return nil, nil, err
	}
	var r row
	var show bool
	_, err = pgx.ForEachRow(rows, append([]any{&show}, r.fields()...), func() error {
		page, shown = append(page, r), append(shown, show)
		return nil
	})
	return page, shown, err
}
