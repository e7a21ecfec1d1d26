package move

import (
	"context"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	sqlitebox "godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// leaving copies the copies of notifications into a file, with their contents. A row of a slice is one *mailboxdb.Adopted.
type leaving struct{ copies }

var _ returning = (*leaving)(nil)

func (*leaving) count(ctx context.Context, tx tx) (int64, error) {
	if _, err := tx.Exec(ctx, "SET LOCAL search_path = godwit_mailbox"); err != nil {
		return 0, err
	}
	return mailboxdb.CountCopies(ctx, tx)
}

func (*leaving) readAll(ctx context.Context, tx tx, after []any, yield func(slice) error) error {
	if _, err := tx.Exec(ctx, "SET LOCAL search_path = godwit_mailbox"); err != nil {
		return err
	}
	from := int64(0)
	if after != nil {
		from = after[0].(int64)
	}
	out := slicer{yield: yield}
	err := mailboxdb.EachCopy(ctx, tx, from, func(a *mailboxdb.Adopted) error {
		one := *a
		near(&one)
		out.bytes += len(one.Body)
		return out.add([]any{&one}, []any{one.Pos})
	})
	if err != nil {
		return err
	}
	return out.rest()
}

// near gives a copy a body of its own if that of the copies with which it shares one is too far away for the file, whose rows have the
// distance in 16 bits. Positions of copies that several nodes store lie between each other.
func near(a *mailboxdb.Adopted) {
	if a.Content != 0 && (a.Content > a.Pos || a.Pos-a.Content > sqlitebox.MaxBodyOffset) {
		a.Content = 0
	}
}

func (*leaving) keep(_ *sqlite.Conn, rows [][]any) ([][]any, error) { return rows, nil }

const (
	putCopy = `INSERT OR REPLACE INTO notification(pos, recipient, open, status, ack, priority, attempts, body_offset, seq, created_at, send_at, expires_at,
	delivered_at, settled_at, hash, id, collapse_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	putContent = "INSERT OR IGNORE INTO content(pos, body) VALUES (?, ?)"
)

func (*leaving) write(c *sqlite.Conn, s slice) error {
	var notes, contents [][]any
	for _, row := range s.rows {
		a := row[0].(*mailboxdb.Adopted)
		if notes = append(notes, copyRow(a)); !a.Open {
			continue
		}
		at := a.Pos
		if a.Content != 0 {
			at = a.Content
		}
		contents = append(contents, []any{at, a.Body})
	}
	if err := insertAll(c, putContent, contents); err != nil {
		return err
	}
	return insertAll(c, putCopy, notes)
}

// copyRow returns the columns of a copy in the file: times that are not known are negative.
func copyRow(a *mailboxdb.Adopted) []any {
	ack, offset := int64(a.Ack), int64(soleCopy)
	if a.Asks {
		ack |= asksBit
	}
	if a.Content != 0 {
		offset = a.Pos - a.Content
	}
	open, status, settled := int64(0), a.Status, a.Settled
	if a.Open {
		open, status, settled = 1, notification.Stored, -a.Created
		switch {
		case a.Seq == 0:
			status = notification.Scheduled
		case a.Delivered > 0:
			status = notification.Delivered
		}
	}
	delivered := a.Delivered
	if delivered <= 0 {
		delivered = -a.Created
	}
	collapse := any(nil)
	if a.CollapseKey != "" {
		collapse = a.CollapseKey
	}
	return []any{
		a.Pos, a.Recipient, open, int64(status), ack, int64(a.Priority), int64(a.Attempts), offset, a.Seq, a.Created, a.SendAt, a.Expires,
		delivered, settled, a.Hash, a.ID, collapse,
	}
}

// finish makes positions continue after the last one assigned, and writes the index of the rows.
func (*leaving) finish(ctx context.Context, tx tx, db *sqlitedb.DB) error {
	var last int64
	if err := tx.QueryRow(ctx, "SELECT coalesce(pg_sequence_last_value('godwit_mailbox.copy_pos'), 0)").Scan(&last); err != nil {
		return err
	}
	return sqlitebox.Adopted(ctx, db, last)
}

func (*leaving) digest(s slice, sum *digest) {
	for _, row := range s.rows {
		sum.add(columns(row[0].(*mailboxdb.Adopted)))
	}
}

func (l *leaving) digestFile(c *sqlite.Conn, sum *digest) error {
	for after := []any(nil); ; {
		s, err := l.read(c, after)
		if err != nil || len(s.rows) == 0 {
			return err
		}
		l.copies.digest(s, sum)
		after = s.last
	}
}

// leavingSteps copies next steps into a file, where copies that share a body share its plan.
type leavingSteps struct{ backTable }

func (*leavingSteps) keep(c *sqlite.Conn, rows [][]any) ([][]any, error) {
	return keepWhere(c, "SELECT 1 FROM notification WHERE pos = ? AND open = 1", rows)
}

func (*leavingSteps) write(c *sqlite.Conn, s slice) error {
	const plan = "INSERT OR REPLACE INTO plan(pos, steps) SELECT " + contentOf + ", ?2 FROM notification n WHERE n.pos = ?1"
	for _, row := range s.rows {
		if err := sqlitedb.Each(c, "INSERT OR REPLACE INTO escalation(pos, step, due_at) VALUES (?, ?, ?)", row[:3], nil); err != nil {
			return err
		}
		if err := sqlitedb.Each(c, plan, []any{row[0], row[3]}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (*leavingSteps) digestFile(c *sqlite.Conn, sum *digest) error {
	const sql = "SELECT e.pos, e.step, e.due_at, (SELECT p.steps FROM plan p WHERE p.pos = " + contentOf + ") FROM escalation e JOIN notification n ON n.pos = e.pos"
	return digestQuery(c, sql, sum)
}
