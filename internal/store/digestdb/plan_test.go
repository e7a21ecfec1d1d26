package digestdb_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/digestdb"
	"godwit.dev/godwit/internal/store/sqltx"
)

// planned is a database that asks SQLite how it finds the rows of each statement.
type planned struct {
	*store.Database
	t    *testing.T
	seen map[string]bool
}

func (p *planned) Read(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error {
	return p.Database.Read(ctx, op, func(ctx context.Context, tx sqltx.Tx) error { return f(ctx, plannedTx{tx, p}) })
}

func (p *planned) Change(ctx context.Context, op string, f func(context.Context, sqltx.Tx) error) error {
	return p.Database.Change(ctx, op, func(ctx context.Context, tx sqltx.Tx) error { return f(ctx, plannedTx{tx, p}) })
}

type plannedTx struct {
	sqltx.Tx
	*planned
}

func (p plannedTx) Each(ctx context.Context, query string, args []any, row func(sqltx.Row) error) error {
	p.plan(ctx, query, args)
	return p.Tx.Each(ctx, query, args, row)
}

func (p plannedTx) Exec(ctx context.Context, statement string, args ...any) (int, error) {
	p.plan(ctx, statement, args)
	return p.Tx.Exec(ctx, statement, args...)
}

// plan fails the test if a statement reads all rows of a table, or all of an app.
func (p plannedTx) plan(ctx context.Context, query string, args []any) {
	if p.seen[query] || strings.HasPrefix(query, "INSERT") {
		return
	}
	p.seen[query] = true
	err := p.Tx.Each(ctx, "EXPLAIN QUERY PLAN "+query, args, func(row sqltx.Row) error {
		var id, parent, unused int64
		var how string
		if err := row.Scan(&id, &parent, &unused, &how); err != nil {
			return err
		}
		all := strings.HasSuffix(how, "(app=?)") || strings.HasPrefix(how, "SCAN ") && !strings.Contains(how, "digest_due") && !strings.Contains(how, "digest_waiting")
		if all && !strings.HasSuffix(query, " WHERE app = $1") && !strings.Contains(query, "LIMIT") {
			p.t.Errorf("%s: %s", query, how)
		}
		return nil
	})
	if err != nil {
		p.t.Error(err)
	}
}

func TestNoStatementReadsAllItems(t *testing.T) {
	t.Parallel()
	_, db := open(t, store.Config{})
	p := &planned{Database: db, t: t, seen: make(map[string]bool)}
	next := 0
	s := digestdb.New(p, func() string { next++; return string(rune('a' + next)) })
	ctx, now := t.Context(), time.UnixMilli(1_800_000_000_000)
	lot := func(id, key, collapse string, most int) *digest.Lot {
		return &digest.Lot{App: "shop", ID: id, To: []string{"ann"}, Category: "c", Key: key, Collapse: collapse, Created: now, Sum: []byte{1}, Body: []byte{1}, Window: time.Minute, Most: most}
	}
	known := lot("1", "", "", 0)
	known.Known = true
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(s.Gather(ctx, []*digest.Lot{lot("1", "k", "x", 9), lot("2", "k", "x", 9), lot("3", "k", "", 2), lot("4", "other", "", 9), known}, now))
	_, _, err := s.Recall(ctx, "shop", "4", "", now)
	ok(err)
	for range 2 {
		due, _, err := s.Due(ctx, now.Add(time.Hour), 10)
		ok(err)
		_, err = s.Seal(ctx, due, now)
		ok(err)
		for _, r := range due {
			ok(s.Postpone(ctx, r, now))
		}
		_, err = s.End(ctx, due, digest.Sent, now)
		ok(err)
	}
	for _, to := range []string{"", "ann"} {
		_, err := s.Lookup(ctx, "shop", "1", to, now)
		ok(err)
		_, err = s.Digests(ctx, "shop", to, to == "", "", 10)
		ok(err)
	}
	if _, _, err = s.Digest(ctx, "shop", "none"); !errors.Is(err, mailbox.ErrNotFound) {
		t.Error(err)
	}
	_, err = s.Waiting(ctx)
	ok(err)
	_, err = s.Prune(ctx, now)
	ok(err)
	_, err = s.EraseRecipient(ctx, "shop", "ann")
	ok(err)
	if len(p.seen) < 25 {
		t.Errorf("only %d statements were looked at", len(p.seen))
	}
}
