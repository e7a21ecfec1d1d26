package mailbox

import (
	"context"
	"slices"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/inbox"
)

// emitInboxes emits the events of people who have seen, read or archived something.
func (m *Mailbox) emitInboxes(changed []inbox.Change) {
	for i := range changed {
		c := &changed[i]
		for _, of := range [...]struct {
			what event.Type
			refs []inbox.Ref
		}{{event.Seen, c.Seen}, {event.Read, c.Read}, {event.Archived, c.Archived}} {
			for refs := range slices.Chunk(of.refs, emitAtOnce) {
				m.emit(len(refs), func(i int) (event.Event, bool) {
					return event.Event{App: c.App, Type: of.what, At: c.At, Note: refs[i].ID, To: c.Recipient, Category: refs[i].Category}, true
				})
			}
		}
	}
}

// Inboxes returns the store's inboxes; nil: it has none.
func (m *Mailbox) Inboxes() inbox.Store { return m.inboxes }

// leaveInboxes takes a withdrawn notification out of inboxes. It stays until somebody withdraws it, so one that was acknowledged leaves as
// well, and a call whose answer was lost may be repeated.
func (m *Mailbox) leaveInboxes(ctx context.Context, app, id string, recipients []string) (n int, err error) {
	if m.inboxes == nil {
		return 0, nil
	}
	return m.inboxes.LeaveInbox(ctx, app, id, recipients)
}

// Kept is the beginning of an inbox.
type Kept = inbox.Page

// Kept returns the newest items of a recipient's inbox; nil: it never had anything.
func (m *Mailbox) Kept(ctx context.Context, app, recipient string, limit int) (*Kept, error) {
	if m.inboxes == nil {
		return nil, nil
	}
	page, err := m.inboxes.Inbox(ctx, app, recipient, inbox.Query{Limit: limit})
	if err != nil || page.Revision == 0 {
		return nil, err
	}
	return &page, nil
}
