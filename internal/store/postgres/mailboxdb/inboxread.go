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

// CountInboxes implements inbox.Store.
func (s *Store) CountInboxes(ctx context.Context, of []inbox.Owner) ([]inbox.Counts, error) {
	apps, names := make([]string, len(of)), make([]string, len(of))
	for i, o := range of {
		apps[i], names[i] = o.App, o.Recipient
	}
	list := make([]inbox.Counts, len(of))
	err := s.db.Read(ctx, "count inboxes", func(ctx context.Context, tx pgx.Tx) error {
		return pgdb.Each(ctx, tx, `SELECT q.n, r.key, i.data FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS q(app, name, n) `+named+` JOIN inbox i ON i.key = r.key << 12`, []any{apps, names}, func(rows pgx.Rows) error {
			var n, key int64
			var data []byte
			if err := rows.Scan(&n, &key, &data); err != nil {
				return err
			}
			b, err := inboxrow.Open(key, data)
			if err == nil {
				list[n-1] = b.Counts()
			}
			return err
		})
	})
	return list, s.storeError("count inboxes", err)
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
