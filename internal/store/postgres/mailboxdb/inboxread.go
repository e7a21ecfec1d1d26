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

// readHead reads the head of a recipient's inbox by name.
const readHead = `SELECT r.key, i.data FROM app a JOIN recipient r ON r.app = a.key JOIN inbox i ON i.key = r.key << 12 WHERE a.name = $1 AND r.name = $2`

type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// openInbox opens a recipient's inbox.
func openInbox(ctx context.Context, q rowQuerier, app, recipient string) (*inboxrow.Box, error) {
	var key int64
	var data []byte
	if err := q.QueryRow(ctx, readHead, app, recipient).Scan(&key, &data); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	return inboxrow.Open(key, data)
}

// Inbox implements inbox.Store.
func (s *Store) Inbox(ctx context.Context, app, recipient string, q inbox.Query) (page inbox.Page, err error) {
	err = s.db.Read(ctx, "read the inbox of "+recipient, func(ctx context.Context, tx pgx.Tx) error {
		page = inbox.Page{}
		b, err := openInbox(ctx, tx, app, recipient)
		if err != nil {
			return err
		}
		page.Counts, page.Newest = b.Counts(), b.Newest()
		if q.Unless != 0 && q.Unless == page.Revision {
			return nil
		}
		found, more, err := b.Query(&inboxes{conn: tx.Conn(), ctx: ctx}, &q)
		if err != nil {
			return err
		}
		page.More = more
		page.Items, err = fill(ctx, tx, found)
		return err
	})
	return page, s.storeError("read the inbox of "+recipient, err)
}

// fill reads the contents of items.
func fill(ctx context.Context, tx pgx.Tx, found []inboxrow.Found) (items []inbox.Item, err error) {
	if len(found) == 0 {
		return nil, nil
	}
	at := make([]int64, len(found))
	for i := range found {
		at[i] = found[i].At
	}
	bodies := make(map[int64][]byte, len(found))
	err = pgdb.Each(ctx, tx, "SELECT pos, body FROM inbox_content WHERE pos = ANY($1)", []any{at}, func(rows pgx.Rows) error {
		var pos int64
		var body []byte
		err := rows.Scan(&pos, &body)
		bodies[pos] = body
		return err
	})
	for i := range found {
		if err != nil {
			return nil, err
		}
		err = found[i].Fill(bodies[found[i].At])
		items = append(items, found[i].Item)
	}
	return items, err
}

// InboxCounts implements inbox.Store.
func (s *Store) InboxCounts(ctx context.Context, app, recipient string) (inbox.Counts, error) {
	b, err := openInbox(ctx, s.db.Pool(), app, recipient)
	if err != nil {
		return inbox.Counts{}, s.storeError("count the inbox of "+recipient, err)
	}
	return b.Counts(), nil
}

// InboxItem implements inbox.Store.
func (s *Store) InboxItem(ctx context.Context, app, recipient, id string) (item inbox.Item, err error) {
	err = s.db.Read(ctx, "read the inbox of "+recipient, func(ctx context.Context, tx pgx.Tx) error {
		b, err := openInbox(ctx, tx, app, recipient)
		if err != nil {
			return err
		}
		found, ok, err := b.Find(&inboxes{conn: tx.Conn(), ctx: ctx}, id)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("notification %s of %s: %w", id, recipient, inbox.ErrNotFound)
		}
		items, err := fill(ctx, tx, []inboxrow.Found{found})
		if err == nil {
			item = items[0]
		}
		return err
	})
	return item, s.storeError("read the inbox of "+recipient, err)
}

// checkAtOnce is how many inboxes one read of CheckInboxes compares.
const checkAtOnce = 500

// stored is an inbox that is compared.
type storedInbox struct {
	key            int64
	head           []byte
	app, recipient *string
}

// CheckInboxes implements inbox.Store. Each part of it has a snapshot of its own, so contents are only looked for, not counted.
func (s *Store) CheckInboxes(ctx context.Context, report func(app, recipient, problem string)) (all inbox.Checked, err error) {
	for after := int64(-1); ; {
		n := 0
		err := s.db.Read(ctx, "compare inboxes with their counts", func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, `SELECT i.key, i.data, a.name, r.name FROM inbox i LEFT JOIN recipient r ON r.key = i.key >> 12 LEFT JOIN app a ON a.key = r.app
				WHERE i.key > $1 AND i.key & 4095 = 0 ORDER BY i.key LIMIT $2`, after, checkAtOnce)
			if err != nil {
				return err
			}
			list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (in storedInbox, err error) {
				return in, row.Scan(&in.key, &in.head, &in.app, &in.recipient)
			})
			if err != nil {
				return err
			}
			n = len(list)
			for i := range list {
				in := &list[i]
				after = in.key
				counted, problem, err := checkInbox(ctx, tx, in)
				if err != nil {
					return err
				}
				all.Inboxes, all.Items = all.Inboxes+1, all.Items+int64(counted)
				if problem != "" {
					report(orEmpty(in.app), orEmpty(in.recipient), problem)
				}
			}
			return nil
		})
		if err == nil && n == checkAtOnce {
			continue
		}
		if err == nil {
			err = s.db.Pool().QueryRow(ctx, "SELECT coalesce(sum(refs), 0) FROM inbox_content").Scan(&all.References)
		}
		return all, s.storeError("compare inboxes with their counts", err)
	}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// checkInbox compares one inbox.
func checkInbox(ctx context.Context, tx pgx.Tx, in *storedInbox) (items int, problem string, err error) {
	recipient, _ := inboxrow.Recipient(in.key)
	b, err := inboxrow.Open(recipient, in.head)
	if err != nil {
		return 0, err.Error(), nil //nolint:nilerr // that is what it finds
	}
	wanted := make(map[int64]bool)
	items, problem, err = b.Check(&inboxes{conn: tx.Conn(), ctx: ctx}, func(at int64) { wanted[at] = true })
	if err != nil || problem != "" || len(wanted) == 0 {
		return items, problem, err
	}
	list := make([]int64, 0, len(wanted))
	for at := range wanted {
		list = append(list, at)
	}
	there := 0
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM inbox_content WHERE pos = ANY($1)", list).Scan(&there); err != nil {
		return items, "", err
	}
	if there != len(list) {
		problem = fmt.Sprintf("%d contents are missing", len(list)-there)
	}
	return items, problem, nil
}
