package mailboxdb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/store/inboxrow"
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

// Readers never call the other methods.

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

// CountInboxes implements inbox.Store.
func (s *Store) CountInboxes(ctx context.Context, of []inbox.Owner) ([]inbox.Counts, error) {
	list := make([]inbox.Counts, len(of))
	if !s.used.Load() || len(of) == 0 {
		return list, nil
	}
	err := s.db.ReadFor(ctx, of[0].App, func(c *sqlite.Conn) error {
		for i, o := range of {
			b, err := s.inboxOn(c, o.App, o.Recipient)
			if err != nil {
				return err
			}
			list[i] = b.Counts()
		}
		return nil
	})
	return list, storeError("count inboxes", err)
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
