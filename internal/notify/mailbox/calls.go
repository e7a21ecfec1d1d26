package mailbox

import (
	"context"
	"errors"

	"godwit.dev/godwit/internal/notify/notification"
)

// The API calls the methods below directly on the store. Publishes and sessions use the store itself.

// Pending finds copies that wait.
func (m *Mailbox) Pending(ctx context.Context, qs []PendingQuery) ([]PendingResult, error) {
	return m.store.Pending(ctx, qs)
}

// Items reads copies by position; see Reader.
func (m *Mailbox) Items(ctx context.Context, refs []Ref) ([]*Item, error) {
	return m.store.Items(ctx, refs)
}

// Copies finds at most limit copies of a notification: see Copies.
func (m *Mailbox) Copies(ctx context.Context, app, id string, limit int) ([]Record, error) {
	if s, ok := m.store.(Copies); ok {
		list, err := s.Copies(ctx, app, id, limit)
		if !errors.Is(err, ErrNotFound) {
			return list, err
		}
		if list, _ := m.beside(ctx, app, id, "", nil); len(list) > 0 {
			return list[:min(len(list), limit)], nil
		}
		return nil, err
	}
	list, err := m.Lookup(ctx, app, id, "")
	return list[:min(len(list), limit)], err
}

// Lookup finds a notification by id; see Reader. It also finds copies that gathered.
func (m *Mailbox) Lookup(ctx context.Context, app, id, to string) ([]Record, error) {
	list, err := m.store.Lookup(ctx, app, id, to)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return list, err
	}
	if list, failed := m.beside(ctx, app, id, to, list); failed != nil || len(list) > 0 {
		return list, failed
	}
	return nil, err
}

// History lists a recipient's copies; see Admin.
func (m *Mailbox) History(ctx context.Context, app, recipient string, status notification.Status, limit int, cursor int64) (items []Record, next int64, err error) {
	return m.store.History(ctx, app, recipient, status, limit, cursor)
}

// Recipients lists an app's recipients; see Admin.
func (m *Mailbox) Recipients(ctx context.Context, app string, limit int, cursor string) (items []RecipientInfo, next string, err error) {
	return m.store.Recipients(ctx, app, limit, cursor)
}

// Recipient returns the store's data about a recipient; see Admin.
func (m *Mailbox) Recipient(ctx context.Context, app, recipient string) (RecipientInfo, error) {
	return m.store.Recipient(ctx, app, recipient)
}

// Erase deletes a recipient; see Admin.
func (m *Mailbox) Erase(ctx context.Context, app, recipient string) error {
	return m.store.Erase(ctx, app, recipient)
}

// Stats are the store's figures.
func (m *Mailbox) Stats() Stats { return m.store.Stats() }

// Ready returns the reason why the store cannot store anything now, or nil.
func (m *Mailbox) Ready(ctx context.Context) error { return m.store.Ready(ctx) }
