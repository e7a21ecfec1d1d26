package mailboxdb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/store/inboxrow"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

const selectInbox = "SELECT data FROM inbox WHERE key = ?1"

// readRows are the rows of a reader's snapshot.
type readRows struct{ c *sqlite.Conn }

func (t readRows) Read(key int64) (data []byte, err error) {
	return readBlob(t.c, selectInbox, key)
}

func readBlob(c *sqlite.Conn, sql string, key int64) (data []byte, err error) {
	st, err := c.Prepare(sql)
	if err != nil {
		return nil, err
	}
	st.BindInt64(1, key)
	err = each(st, func(row *sqlite.Stmt) error {
		data = blob(row, 0)
		return nil
	})
	return data, err
}

// The other methods are never called by what only reads.

func (readRows) Write(inboxrow.Row) error { return nil }
func (readRows) Delete(int64) error       { return nil }
func (readRows) Release(int64) error      { return nil }

// inboxOn opens a recipient's inbox in a reader's snapshot.
func (s *Store) inboxOn(c *sqlite.Conn, app, recipient string) (*inboxrow.Box, error) {
	if !s.used.Load() {
		return inboxrow.Open(0, nil)
	}
	stored, ok, err := s.readRecipient(c, app, recipient)
	if err != nil || !ok {
		b, _ := inboxrow.Open(0, nil)
		return b, err
	}
	data, err := readRows{c}.Read(inboxrow.Key(int64(stored.key)))
	if err != nil {
		return nil, err
	}
	return inboxrow.Open(int64(stored.key), data)
}

// Inbox implements inbox.Store.
func (s *Store) Inbox(ctx context.Context, app, recipient string, q inbox.Query) (page inbox.Page, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		page = inbox.Page{}
		b, err := s.inboxOn(c, app, recipient)
		if err != nil {
			return err
		}
		page.Counts, page.Newest = b.Counts(), b.Newest()
		if q.Unless != 0 && q.Unless == page.Revision {
			return nil
		}
		found, more, err := b.Query(readRows{c}, &q)
		page.More = more
		for i := range found {
			if err != nil {
				break
			}
			var data []byte
			if data, err = readBlob(c, selectKept, found[i].At); err == nil {
				err = found[i].Fill(data)
			}
			page.Items = append(page.Items, found[i].Item)
		}
		return err
	})
	return page, storeError("read the inbox of "+recipient, err)
}

const selectKept = "SELECT body FROM inbox_content WHERE pos = ?1"

// InboxCounts implements inbox.Store.
func (s *Store) InboxCounts(ctx context.Context, app, recipient string) (counts inbox.Counts, err error) {
	if !s.used.Load() {
		return counts, nil
	}
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		b, err := s.inboxOn(c, app, recipient)
		if err == nil {
			counts = b.Counts()
		}
		return err
	})
	return counts, storeError("count the inbox of "+recipient, err)
}

// InboxItem implements inbox.Store.
func (s *Store) InboxItem(ctx context.Context, app, recipient, id string) (item inbox.Item, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		b, err := s.inboxOn(c, app, recipient)
		if err != nil {
			return err
		}
		found, ok, err := b.Find(readRows{c}, id)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("notification %s of %s: %w", id, recipient, inbox.ErrNotFound)
		}
		data, err := readBlob(c, selectKept, found.At)
		if err == nil {
			err = found.Fill(data)
		}
		item = found.Item
		return err
	})
	return item, storeError("read the inbox of "+recipient, err)
}

// checkAtOnce is how many inboxes one read of CheckInboxes compares.
const checkAtOnce = 1000

// CheckInboxes implements inbox.Store. Each part of it has a snapshot of its own, so contents are only looked for, not counted.
func (s *Store) CheckInboxes(ctx context.Context, report func(app, recipient, problem string)) (all inbox.Checked, err error) {
	for after := int64(-1); ; {
		n := 0
		err := s.db.Read(ctx, func(c *sqlite.Conn) error {
			return sqlitedb.Each(c, `SELECT i.key, i.data, a.name, r.name FROM inbox i LEFT JOIN recipient r ON r.key = i.key >> 12 LEFT JOIN app a ON a.key = r.app
				WHERE i.key > ?1 AND i.key & 4095 = 0 ORDER BY i.key LIMIT ?2`, []any{after, checkAtOnce}, func(st *sqlite.Stmt) error {
				n++
				after = st.ColumnInt64(0)
				counted, problem, err := checkInbox(c, after, blob(st, 1))
				if err != nil {
					return err
				}
				all.Inboxes, all.Items = all.Inboxes+1, all.Items+int64(counted)
				if problem != "" {
					report(st.ColumnText(2), st.ColumnText(3), problem)
				}
				return nil
			})
		})
		if err == nil && n == checkAtOnce {
			continue
		}
		if err == nil {
			err = s.db.Read(ctx, func(c *sqlite.Conn) (err error) {
				all.References, err = sqlitex.ResultInt64(c.Prep("SELECT coalesce(sum(refs), 0) FROM inbox_content"))
				return err
			})
		}
		return all, storeError("compare inboxes with their counts", err)
	}
}

// checkInbox compares one inbox.
func checkInbox(c *sqlite.Conn, key int64, head []byte) (items int, problem string, err error) {
	recipient, _ := inboxrow.Recipient(key)
	b, err := inboxrow.Open(recipient, head)
	if err != nil {
		return 0, err.Error(), nil
	}
	var lost int64
	items, problem, err = b.Check(readRows{c}, func(at int64) {
		if data, err := readBlob(c, selectKept, at); err == nil && data == nil {
			lost = at
		}
	})
	if problem == "" && lost != 0 {
		problem = fmt.Sprintf("content %d is missing", lost)
	}
	return items, problem, err
}
