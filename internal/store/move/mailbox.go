package move

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	sqlitebox "godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// recipients copies the recipients of mailboxes. SQLite's row of a recipient is current up to a position of the log; later copies supply
// the rest.
type recipients struct{ later map[int64]int64 }

var _ part = (*recipients)(nil)

func (*recipients) name() string               { return "recipients" }
func (*recipients) file(s *Files) *sqlitedb.DB { return s.Mailbox }

func (*recipients) count(c *sqlite.Conn) (n int64, err error) {
	err = sqlitedb.Each(c, "SELECT count(*) FROM recipient", nil, func(s *sqlite.Stmt) error { n = s.ColumnInt64(0); return nil })
	return n, err
}

// recipientColumns lists the target's columns. The number of copies ever stored is unknown; the target's may be higher, but not lower than
// the number of waiting copies.
var recipientColumns = []string{"key", "app", "shard", "name", "last_seq", "copies", "last_seen"}

func (r *recipients) read(c *sqlite.Conn, after []any) (s slice, err error) {
	if r.later == nil {
		r.later = make(map[int64]int64)
		const sql = "SELECT recipient, max(seq) FROM notification WHERE pos > (SELECT value FROM meta WHERE name = 'flushed_pos') GROUP BY recipient"
		err := sqlitedb.Each(c, sql, nil, func(st *sqlite.Stmt) error {
			r.later[st.ColumnInt64(0)] = st.ColumnInt64(1)
			return nil
		})
		if err == nil {
			err = r.readPacked(c)
		}
		if err != nil {
			return s, err
		}
	}
	if after == nil {
		after = []any{int64(0)}
	}
	const sql = "SELECT r.key, r.app, a.name, r.name, r.last_seq, r.last_seen FROM recipient r JOIN app a ON a.key = r.app WHERE r.key > ? ORDER BY r.key"
	s, err = readSlice(c, sql, after, 6, 1, func(_ int, v any) any { return v })
	for i, row := range s.rows {
		key, seq := row[0].(int64), max(row[4].(int64), r.later[row[0].(int64)])
		s.rows[i] = []any{key, row[1], int64(mailboxdb.Shard(row[2].(string), row[3].(string))), row[3], seq, seq + manyCopies, row[5]}
	}
	return s, err
}

// readPacked does the same for copies without rows.
func (r *recipients) readPacked(c *sqlite.Conn) error {
	flushed := int64(0)
	err := sqlitedb.Each(c, "SELECT value FROM meta WHERE name = 'flushed_pos'", nil, func(st *sqlite.Stmt) error { flushed = st.ColumnInt64(0); return nil })
	if err != nil {
		return err
	}
	return sqlitebox.EachPacked(c, flushed+1, math.MaxInt64, func(p *sqlitebox.Packed) error {
		r.later[p.Recipient] = max(r.later[p.Recipient], p.Seq)
		return nil
	})
}

// manyCopies is added to the number of copies that a recipient has received, since scheduled ones have no seq yet. A number that is too
// high costs one count of the copies.
const manyCopies = 1 << 20

func (*recipients) write(ctx context.Context, tx tx, s slice) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"godwit_mailbox", "recipient"}, recipientColumns, pgx.CopyFromRows(s.rows))
	return err
}

func (*recipients) finish(ctx context.Context, tx tx, c *sqlite.Conn) error {
	t := &table{schema: "godwit_mailbox", table: "recipient", number: "key"}
	return t.finish(ctx, tx, c)
}

func (*recipients) digest(s slice, sum *digest) { (&table{}).digest(s, sum) }

func (*recipients) digestTarget(ctx context.Context, tx tx, sum *digest) error {
	t := &table{schema: "godwit_mailbox", table: "recipient", columns: recipientColumns}
	return t.digestTarget(ctx, tx, sum)
}

// copies copies the copies of notifications, open and settled ones, with their contents.
type copies struct{}

var _ part = (*copies)(nil)

func (*copies) name() string               { return "notifications" }
func (*copies) file(s *Files) *sqlitedb.DB { return s.Mailbox }

func (*copies) count(c *sqlite.Conn) (n int64, err error) {
	err = sqlitedb.Each(c, "SELECT count(*) FROM notification", nil, func(s *sqlite.Stmt) error { n = s.ColumnInt64(0); return nil })
	if err != nil {
		return 0, err
	}
	packed, err := sqlitebox.CountPacked(c)
	return n + packed, err
}

// In the ack mode, 16 says that the copy asks for a reply. Its body is that of position pos - body_offset, or its own if
// the offset is -1.
const (
	asksBit  = 16
	soleCopy = -1
)

const copiesSQL = `SELECT n.pos, n.recipient, a.name, n.id, n.seq, n.open, n.status, n.ack, n.priority, n.attempts, n.body_offset, n.created_at, n.send_at,
	n.expires_at, n.delivered_at, n.settled_at, n.hash, coalesce(n.collapse_key, ''),
	CASE WHEN n.open > 0 THEN (SELECT body FROM content c WHERE c.pos = ` + contentOf + `) END,
	EXISTS (SELECT 1 FROM escalation e WHERE e.pos = n.pos)
	FROM notification n CROSS JOIN recipient r ON r.key = n.recipient CROSS JOIN app a ON a.key = r.app WHERE n.pos > ? ORDER BY n.pos`

func (*copies) read(c *sqlite.Conn, after []any) (slice, error) {
	if after == nil {
		after = []any{int64(0)}
	}
	s, err := readSlice(c, copiesSQL, after, 20, 1, func(_ int, v any) any { return v })
	if err != nil {
		return s, err
	}
	if err := settle(c, s.rows); err != nil {
		return s, err
	}
	return s.withPacked(c, after[0].(int64))
}

// settle completes rows of copiesSQL that do not contain whether their copies wait or how they ended.
func settle(c *sqlite.Conn, rows [][]any) error {
	ends, err := sqlitebox.EndsOn(c)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row[5].(int64) != sqlitebox.OpenApart {
			continue
		}
		end, ended, err := ends.Of(row[0].(int64))
		if err != nil {
			return err
		}
		if row[5] = int64(1); !ended {
			continue
		}
		row[5], row[6], row[9], row[15], row[18] = int64(0), int64(end.As), max(row[9].(int64), int64(end.Attempts)), end.At, nil
		if row[14].(int64) <= 0 && end.Delivered > 0 {
			row[14] = end.Delivered
		}
	}
	return nil
}

// adopted converts a row of copiesSQL for the target.
func adopted(row []any) mailboxdb.Adopted {
	n := func(i int) int64 { return row[i].(int64) }
	a := mailboxdb.Adopted{
		Pos: n(0), Recipient: n(1), App: row[2].(string), ID: row[3].(string), Seq: n(4), Open: n(5) == 1,
		Ack: notification.AckMode(n(7) &^ asksBit), Asks: n(7)&asksBit != 0, Priority: notification.Priority(n(8)), Attempts: int32(n(9)), // written by us
		Created: n(11), SendAt: n(12), Expires: n(13), Delivered: max(n(14), 0), Hash: n(16),
	}
	if !a.Open {
		a.Status, a.Settled = notification.Status(n(6)), n(15) // written by us
		return a
	}
	a.CollapseKey, a.Escalates = row[17].(string), n(19) == 1
	a.Body, _ = row[18].([]byte) // a missing body counts as damage later
	if offset := n(10); offset != soleCopy {
		a.Content = a.Pos - offset
	}
	return a
}

func (*copies) write(ctx context.Context, tx tx, s slice) error {
	if _, err := tx.Exec(ctx, "SET LOCAL search_path = godwit_mailbox"); err != nil {
		return err
	}
	list := make([]mailboxdb.Adopted, len(s.rows))
	for i, row := range s.rows {
		list[i] = adopted(row)
	}
	return mailboxdb.Adopt(ctx, tx, list)
}

// finish makes positions continue after the last one assigned.
func (*copies) finish(ctx context.Context, tx tx, c *sqlite.Conn) error {
	const sql = "SELECT max((SELECT max(value) FROM meta WHERE name IN ('last_pos', 'flushed_pos')), coalesce((SELECT max(pos) FROM notification), 0), " +
		"coalesce((SELECT first + length(ends) / 6 - 1 FROM pack ORDER BY first DESC LIMIT 1), 0), " +
		"coalesce(((SELECT max(number) FROM slice) + 1) * 65536, 0))"
	last := int64(0)
	if err := sqlitedb.Each(c, sql, nil, func(s *sqlite.Stmt) error { last = s.ColumnInt64(0); return nil }); err != nil || last == 0 {
		return err
	}
	_, err := tx.Exec(ctx, "SELECT setval('godwit_mailbox.copy_pos', $1)", last)
	return err
}

// columns returns the columns of a copy that are compared.
func columns(a *mailboxdb.Adopted) []any {
	body := any(nil)
	if a.Open {
		body = a.Body
	}
	return []any{
		a.Pos, a.Recipient, a.Seq, a.ID, a.CollapseKey, int64(a.Priority), int64(a.Ack), a.Asks, a.Escalates, a.Created, a.SendAt, a.Expires, a.Delivered, a.Settled,
		a.Hash, a.Attempts, a.Open, int64(a.Status), a.Content, body,
	}
}

func (*copies) digest(s slice, sum *digest) {
	for _, row := range s.rows {
		a := adopted(row)
		sum.add(columns(&a))
	}
}

func (*copies) digestTarget(ctx context.Context, tx tx, sum *digest) error {
	if _, err := tx.Exec(ctx, "SET LOCAL search_path = godwit_mailbox"); err != nil {
		return err
	}
	return mailboxdb.EachAdopted(ctx, tx, func(a *mailboxdb.Adopted) error {
		sum.add(columns(a))
		return nil
	})
}
