package mailbox

import (
	"context"

	"godwit.dev/godwit/internal/notification"
)

// What callers get of the store as it is.

// Append stores notifications and routes them; see Writer.
func (m *Mailbox) Append(ctx context.Context, batch []*Append) error {
	return m.store.Append(ctx, batch)
}

// SettleLater ends copies with some later commit; see Writer.
func (m *Mailbox) SettleLater(batch []*Settle) { m.store.SettleLater(batch) }

// Seen notes who is connected; see Writer.
func (m *Mailbox) Seen(batch []Seen) { m.store.Seen(batch) }

// Heads says of many recipients whether something waits; see Reader.
func (m *Mailbox) Heads(ctx context.Context, of []Address) ([]Head, error) {
	return m.store.Heads(ctx, of)
}

// Pending reads what recipients should get next; see Reader.
func (m *Mailbox) Pending(ctx context.Context, qs []PendingQuery) ([]PendingResult, error) {
	return m.store.Pending(ctx, qs)
}

// Items reads copies by position; see Reader.
func (m *Mailbox) Items(ctx context.Context, refs []Ref) ([]*Item, error) {
	return m.store.Items(ctx, refs)
}

// Lookup finds a notification by id; see Reader.
func (m *Mailbox) Lookup(ctx context.Context, app, id, to string) ([]Record, error) {
	return m.store.Lookup(ctx, app, id, to)
}

// History lists a recipient's copies; see Admin.
func (m *Mailbox) History(ctx context.Context, app, recipient string, status notification.Status, limit int, cursor int64) (items []Record, next int64, err error) {
	return m.store.History(ctx, app, recipient, status, limit, cursor)
}

// Recipients lists an app's recipients; see Admin.
func (m *Mailbox) Recipients(ctx context.Context, app string, limit int, cursor string) (items []RecipientInfo, next string, err error) {
	return m.store.Recipients(ctx, app, limit, cursor)
}

// Recipient says what is known of one; see Admin.
func (m *Mailbox) Recipient(ctx context.Context, app, recipient string) (RecipientInfo, error) {
	return m.store.Recipient(ctx, app, recipient)
}

// Erase forgets a recipient; see Admin.
func (m *Mailbox) Erase(ctx context.Context, app, recipient string) error {
	return m.store.Erase(ctx, app, recipient)
}

// Stats are the store's figures.
func (m *Mailbox) Stats() Stats { return m.store.Stats() }

// Ready says why nothing could be stored now, or nil.
func (m *Mailbox) Ready(ctx context.Context) error { return m.store.Ready(ctx) }
