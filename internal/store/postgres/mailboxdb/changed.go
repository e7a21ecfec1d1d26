package mailboxdb

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/millis"
)

var _ mailbox.Changes = (*Store)(nil)

// changedRecipients is the number of recipients whose copies Changed reads at once.
const changedRecipients = 200

// Changed implements mailbox.Changes. Places are keys of recipients: tables are ordered by them.
func (s *Store) Changed(ctx context.Context, since time.Time, place int64) (list []mailbox.Change, next int64, err error) {
	err = s.tables.with(ctx, func(set *tableSet) error {
		list, next = nil, 0
		conn, err := s.db.Pool().Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		whose, err := readWhose(ctx, conn.Conn(), place)
		if err != nil || len(whose.of) == 0 {
			return err
		}
		if len(whose.of) == changedRecipients {
			next = whose.last
		}
		list, err = readChanged(ctx, conn.Conn(), set, whose, place, millis.Of(since))
		return err
	})
	if err != nil {
		return nil, 0, s.storeError("list what has changed", err)
	}
	return list, next, nil
}

// whose looks up recipients by their keys.
type whose struct {
	of   map[int64]mailbox.Address
	last int64 // key
}

func readWhose(ctx context.Context, conn *pgx.Conn, place int64) (whose, error) {
	w := whose{of: make(map[int64]mailbox.Address)}
	rows, err := conn.Query(ctx, "SELECT r.key, a.name, r.name FROM recipient r JOIN app a ON a.key = r.app WHERE r.key > $1 ORDER BY r.key LIMIT $2", place, changedRecipients)
	if err != nil {
		return w, err
	}
	var of mailbox.Address
	_, err = pgx.ForEachRow(rows, []any{&w.last, &of.App, &of.Recipient}, func() error {
		w.of[w.last] = of
		return nil
	})
	return w, err
}

func readChanged(ctx context.Context, conn *pgx.Conn, set *tableSet, w whose, place, since int64) (list []mailbox.Change, err error) {
	const of = "n.recipient > $1 AND n.recipient <= $2"
	sql := set.text("changed", func() string {
		copies := set.copies(nil, of)
		if len(set.days) > 0 {
			copies += "\nUNION ALL " + all(set.days, "(SELECT -%[1]d::bigint AS src, "+stubColumns+" FROM stub_%[1]d n WHERE "+of+" AND n.settled_at >= $3)")
		}
		return "SELECT " + rowColumns + " FROM (" + copies + ") AS x " + set.standing() + " WHERE " + kept +
			" AND greatest(x.created_at, d.settled_at, x.settled_at, p.delivered_at, d.delivered_at, x.delivered_at) >= $3 ORDER BY x.recipient, x.pos"
	})
	rows, err := conn.Query(ctx, sql, place, w.last, since)
	if err != nil {
		return nil, err
	}
	var r row
	_, err = pgx.ForEachRow(rows, r.fields(), func() error {
		if of, ok := w.of[r.recipient]; ok {
			list = append(list, mailbox.Change{App: of.App, Record: r.record(of.Recipient, 0)})
		}
		return nil
	})
	return list, err
}
