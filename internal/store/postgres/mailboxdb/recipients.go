package mailboxdb

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/millis"
)

// describeRecipients selects recipients r of an app, each with its number of pending copies and the names of its devices.
const describeRecipients = `SELECT r.name, r.last_seq, r.last_seen,
		(SELECT count(*) FROM pending p WHERE p.recipient = r.key AND p.seq > 0 AND p.expires_at + 0 > $2),
		ARRAY(SELECT d.name FROM device d WHERE d.recipient = r.key AND d.last_seen >= $3 ORDER BY d.name)
	FROM recipient r WHERE r.app = (SELECT a.key FROM app a WHERE a.name = $1) AND `

// Recipient implements mailbox.Store.
func (s *Store) Recipient(ctx context.Context, appName, name string) (mailbox.RecipientInfo, error) {
	list, err := s.describe(ctx, appName, describeRecipients+"r.name = $4", name)
	if err == nil && len(list) == 0 {
		// The sighting of a recipient that has just connected may not be in the database yet, only in the store's notes.
		at := s.notes.LastSeen(appName, name)
		if at > 0 {
			return mailbox.RecipientInfo{Name: name, LastSeen: millis.Time(at), Devices: union(nil, s.notes.DevicesOf(appName, name, 0))}, nil
		}
		err = mailbox.ErrNotFound
	}
	if err != nil {
		return mailbox.RecipientInfo{}, s.storeError("read recipient "+name, err)
	}
	return list[0], nil
}

// Recipients implements mailbox.Store.
func (s *Store) Recipients(ctx context.Context, appName string, limit int, cursor string) (items []mailbox.RecipientInfo, next string, err error) {
	if limit <= 0 {
		limit = listLimit
	}
	items, err = s.describe(ctx, appName, describeRecipients+"r.name > $4 ORDER BY r.name LIMIT $5", cursor, limit+1)
	if err != nil {
		return nil, "", s.storeError("list recipients", err)
	}
	if len(items) > limit {
		items = items[:limit]
		next = items[limit-1].Name
	}
	return items, next, nil
}

func (s *Store) describe(ctx context.Context, appName, sql string, args ...any) (list []mailbox.RecipientInfo, err error) {
	now := s.nowMS()
	since := now - deviceMemory.Milliseconds()
	rows, err := s.db.Pool().Query(ctx, sql, append([]any{appName, now, since}, args...)...)
	if err != nil {
		return nil, err
	}
	var info mailbox.RecipientInfo
	var last, seen int64
	_, err = pgx.ForEachRow(rows, []any{&info.Name, &last, &seen, &info.Pending, &info.Devices}, func() error {
		found := info
		found.LastSeq, found.LastSeen = uint64(last), millis.Time(max(seen, s.notes.LastSeen(appName, info.Name))) // counts from 0
		found.Devices = union(slices.Clone(info.Devices), s.notes.DevicesOf(appName, info.Name, since))
		list = append(list, found)
		return nil
	})
	return list, err
}

// union returns the names of both lists, sorted and without duplicates.
func union(a, b []string) []string {
	a = append(a, b...)
	slices.Sort(a)
	return slices.Compact(a)
}
