package mailboxdb

import (
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// storedRecipient is a recipient's row.
type storedRecipient struct {
	key      uint32
	name     string
	lastSeq  uint64
	lastSeen int64
}

func scanRecipient(st *sqlite.Stmt) storedRecipient {
	return storedRecipient{
		key:      uint32(st.ColumnInt64(0)),
		lastSeq:  uint64(st.ColumnInt64(1)),
		lastSeen: st.ColumnInt64(2),
	}
}

func (s *Store) readRecipient(c *sqlite.Conn, appName, name string) (info storedRecipient, ok bool, err error) {
	st, err := c.Prepare(`SELECT key, last_seq, last_seen FROM recipient
		WHERE app = (SELECT key FROM app WHERE name = ?1) AND name = ?2`)
	if err != nil {
		return info, false, err
	}
	st.BindText(1, appName)
	st.BindText(2, name)
	err = each(st, func(st *sqlite.Stmt) error {
		info, ok = scanRecipient(st), true
		info.name = name
		return nil
	})
	return info, ok, err
}

// Recipient implements mailbox.Store.
func (s *Store) Recipient(ctx context.Context, appName, name string) (info mailbox.RecipientInfo, err error) {
	found := false
	err = s.db.ReadFor(ctx, appName, func(c *sqlite.Conn) error {
		stored, ok, err := s.readRecipient(c, appName, name)
		if err != nil || !ok {
			return err
		}
		found = true
		info, err = s.describe(c, appName, stored)
		return err
	})
	if err == nil && !found {
		if info, found = s.onlySeen(appName, name); !found {
			err = mailbox.ErrNotFound
		}
	}
	if err != nil {
		return info, storeError("read recipient "+name, err)
	}
	return info, nil
}

// onlySeen describes a recipient without a row that was connected a moment ago.
func (s *Store) onlySeen(appName, name string) (mailbox.RecipientInfo, bool) {
	at := s.notes.LastSeen(appName, name)
	return mailbox.RecipientInfo{Name: name, LastSeen: fromMS(at), Devices: s.notes.DevicesOf(appName, name, 0)}, at > 0
}

// describe adds the data from memory and from the device table to a stored recipient.
func (s *Store) describe(c *sqlite.Conn, appName string, stored storedRecipient) (mailbox.RecipientInfo, error) {
	info := mailbox.RecipientInfo{
		Name: stored.name, LastSeq: stored.lastSeq, LastSeen: fromMS(max(stored.lastSeen, s.notes.LastSeen(appName, stored.name))),
	}
	now := s.now()
	s.mu.RLock()
	if r := s.inMemory(appName, stored.name); r != nil {
		info.LastSeq = r.shown
		for i := range r.list {
			if r.list[i].visible(now) {
				info.Pending++
			}
		}
	}
	s.mu.RUnlock()
	st, err := c.Prepare("SELECT name FROM device WHERE recipient = ?1 AND last_seen >= ?2 ORDER BY name")
	if err != nil {
		return info, err
	}
	since := now - deviceMemory.Milliseconds()
	st.BindInt64(1, int64(stored.key))
	st.BindInt64(2, since)
	err = each(st, func(st *sqlite.Stmt) error {
		info.Devices = append(info.Devices, st.ColumnText(0))
		return nil
	})
	info.Devices = union(info.Devices, s.notes.DevicesOf(appName, stored.name, since))
	return info, err
}

// Recipients implements mailbox.Store.
func (s *Store) Recipients(ctx context.Context, appName string, limit int, cursor string) (items []mailbox.RecipientInfo, next string, err error) {
	if limit <= 0 {
		limit = listLimit
	}
	err = s.db.ReadFor(ctx, appName, func(c *sqlite.Conn) error {
		st, err := c.Prepare(`SELECT key, last_seq, last_seen, name FROM recipient
			WHERE app = (SELECT key FROM app WHERE name = ?1) AND name > ?2 ORDER BY name LIMIT ?3`)
		if err != nil {
			return err
		}
		var page []storedRecipient
		st.BindText(1, appName)
		st.BindText(2, cursor)
		st.BindInt64(3, int64(limit)+1)
		err = each(st, func(st *sqlite.Stmt) error {
			r := scanRecipient(st)
			r.name = st.ColumnText(3)
			page = append(page, r)
			return nil
		})
		if err != nil {
			return err
		}
		if len(page) > limit {
			page = page[:limit]
			next = page[limit-1].name
		}
		for _, stored := range page {
			info, err := s.describe(c, appName, stored)
			if err != nil {
				return err
			}
			items = append(items, info)
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("list recipients: %w", err)
	}
	return items, next, nil
}

// union returns the names of both lists, sorted and without duplicates.
func union(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	a = append(a, b...)
	slices.Sort(a)
	return slices.Compact(a)
}
