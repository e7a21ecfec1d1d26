package mailboxdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/store/inboxrow"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// checkAtOnce is how many rows of inboxes one snapshot of CheckInboxes compares.
const checkAtOnce = 4096

// CheckInboxes implements inbox.Store. Each part of it has a snapshot of its own, so contents are only looked for, not counted.
func (s *Store) CheckInboxes(ctx context.Context, report func(app, recipient, problem string)) (inbox.Checked, error) {
	all, err := checkInboxes(ctx, func(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
		return s.db.Read(ctx, "compare inboxes with their counts", f)
	}, report)
	return all, s.storeError("compare inboxes with their counts", err)
}

// CheckInboxesOf compares the inboxes of a database, even while servers are running; schema "" is the default of a Config. It changes nothing.
// When ctx ends, it returns what it has compared.
func CheckInboxesOf(ctx context.Context, url, schema string, report func(app, recipient, problem string)) (all inbox.Checked, err error) {
	if schema == "" {
		schema = defaultSchema
	}
	const op = "compare inboxes with their counts"
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return all, pgdb.Error(op, err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	var there bool
	if err := c.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", schema+".inbox_content").Scan(&there); err != nil || !there {
		return all, pgdb.Error(op, err)
	}
	all, err = checkInboxes(ctx, func(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
		return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL search_path = "+pgx.Identifier{schema}.Sanitize()); err != nil {
				return err
			}
			return f(ctx, tx)
		})
	}, report)
	return all, pgdb.Error(op, err)
}

func checkInboxes(ctx context.Context, read func(context.Context, func(context.Context, pgx.Tx) error) error, report func(app, recipient, problem string)) (all inbox.Checked, err error) {
	for after, more := int64(-1), true; more && err == nil; {
		err = read(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			after, more, err = checkSome(ctx, tx, after, &all, report)
			return err
		})
	}
	if err == nil {
		err = read(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, "SELECT coalesce(sum(refs), 0)::bigint FROM inbox_content").Scan(&all.References)
		})
	}
	return all, err
}

// checkSome compares some inboxes whose rows have keys after a key; more: call it again with last.
func checkSome(ctx context.Context, tx pgx.Tx, after int64, all *inbox.Checked, report func(app, recipient, problem string)) (last int64, more bool, err error) {
	rows, err := tx.Query(ctx, "SELECT key FROM inbox WHERE key > $1 ORDER BY key LIMIT $2", after, checkAtOnce)
	if err != nil {
		return after, false, err
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(keys) == 0 {
		return after, false, err
	}
	list := inboxrow.Rowsets(keys)
	if more = len(keys) == checkAtOnce; more && len(list) > 1 {
		list = list[:len(list)-1] // whose rows may go on
	}
	last = inboxrow.Last(list[len(list)-1].Recipient)
	in := &inboxes{conn: tx.Conn(), ctx: ctx}
	if err := in.readAll(inboxrow.Key(list[0].Recipient), last); err != nil {
		return after, false, err
	}
	found := make([]comparedInbox, len(list))
	for i := range list {
		if found[i], err = in.compare(&list[i]); err != nil {
			return after, false, err
		}
	}
	if err := withLost(ctx, tx, found); err != nil {
		return after, false, err
	}
	for i := range found {
		all.Inboxes, all.Items = all.Inboxes+1, all.Items+int64(found[i].items)
		if err := found[i].report(ctx, tx, report); err != nil {
			return after, false, err
		}
	}
	return last, more, nil
}

// readAll reads the rows of inboxes from one key to another.
func (in *inboxes) readAll(from, to int64) error {
	return pgdb.Each(in.ctx, in.conn, "SELECT key, data FROM inbox WHERE key BETWEEN $1 AND $2", []any{from, to}, func(rows pgx.Rows) error {
		var key int64
		var data []byte
		err := rows.Scan(&key, &data)
		in.set(key, inboxRow{data: data})
		return err
	})
}

// comparedInbox is what comparing an inbox has found.
type comparedInbox struct {
	recipient int64
	items     int
	contents  []int64
	problem   string // empty: none
}

// compare compares an inbox with its rows.
func (in *inboxes) compare(of *inboxrow.Rowset) (c comparedInbox, err error) {
	c.recipient = of.Recipient
	if !of.Head {
		c.problem = "its newest items and its counts are missing"
		return c, nil
	}
	head, err := in.Read(inboxrow.Key(of.Recipient))
	if err != nil {
		return c, err
	}
	b, err := inboxrow.Open(of.Recipient, head)
	if err != nil {
		c.problem = err.Error()
		return c, nil // that is what it finds
	}
	c.items, c.problem, err = b.Check(in, of.Parts, func(at int64) { c.contents = append(c.contents, at) })
	return c, err
}

// withLost adds which contents, and which recipients, are missing.
func withLost(ctx context.Context, tx pgx.Tx, found []comparedInbox) error {
	var contents, recipients []int64
	for i := range found {
		contents, recipients = append(contents, found[i].contents...), append(recipients, found[i].recipient)
	}
	lost, err := setOf(ctx, tx, "SELECT DISTINCT p FROM unnest($1::bigint[]) p WHERE NOT EXISTS (SELECT FROM inbox_content c WHERE c.pos = p)", contents)
	if err != nil {
		return err
	}
	strangers, err := setOf(ctx, tx, `SELECT k FROM unnest($1::bigint[]) k WHERE NOT EXISTS (SELECT FROM recipient r JOIN app a ON a.key = r.app WHERE r.key = k)
		AND NOT EXISTS (SELECT FROM erasure e WHERE e.recipient = k)`, recipients)
	for i := range found {
		f, n := &found[i], 0
		for _, at := range f.contents {
			if lost[at] {
				n++
			}
		}
		switch {
		case f.problem != "":
		case n > 0:
			f.problem = fmt.Sprintf("the contents of %d items are missing", n)
		case strangers[f.recipient]:
			f.problem = "nobody has this number"
		}
	}
	return err
}

func setOf(ctx context.Context, tx pgx.Tx, sql string, of []int64) (map[int64]bool, error) {
	set := make(map[int64]bool)
	err := pgdb.Each(ctx, tx, sql, []any{of}, func(rows pgx.Rows) error {
		var n int64
		err := rows.Scan(&n)
		set[n] = true
		return err
	})
	return set, err
}

// report reports a problem by the recipient's name.
func (c *comparedInbox) report(ctx context.Context, tx pgx.Tx, report func(app, recipient, problem string)) error {
	if c.problem == "" {
		return nil
	}
	var app, name string
	err := tx.QueryRow(ctx, "SELECT a.name, r.name FROM recipient r JOIN app a ON a.key = r.app WHERE r.key = $1", c.recipient).Scan(&app, &name)
	if errors.Is(err, pgx.ErrNoRows) {
		app, name, err = "", fmt.Sprint("number ", c.recipient), nil
	}
	if err == nil {
		report(app, name, c.problem)
	}
	return err
}
