package reconcile

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// Past recreates events that a log has deleted, for readers that did not get them in time, as far as the mailboxes' records allow.
type Past struct {
	Log     event.Forgetful
	Changes mailbox.Changes
}

// Gone is the id of the newest event that the log has deleted; all older ones are deleted too. 0: none was deleted.
func (p Past) Gone(ctx context.Context) (uint64, error) { return p.Log.Gone(ctx) }

// Between recreates an app's events that happened after the time after and not later than upto. Each call examines one slice of the copies,
// beginning at place, which is 0 for the first slice. next is the place of the following slice; 0: there are no more copies.
func (p Past) Between(ctx context.Context, app string, after, upto time.Time, place int64) (evs []event.Event, next int64, err error) {
	list, next, err := p.Changes.Changed(ctx, after, place)
	if err != nil {
		return nil, 0, err
	}
	for i := range list {
		if list[i].App == app {
			evs = appendEvents(evs, &list[i], func(_ event.Type, at time.Time) bool { return at.After(after) && !at.After(upto) })
		}
	}
	return evs, next, nil
}

// appendEvents appends the events of a copy that want accepts.
func appendEvents(evs []event.Event, c *mailbox.Change, want func(t event.Type, at time.Time) bool) []event.Event {
	add := func(t event.Type, at time.Time) {
		if !at.IsZero() && want(t, at) {
			evs = append(evs, event.Event{App: c.App, Type: t, At: at, Note: c.ID, To: c.To, Reconciled: true})
		}
	}
	add(event.Stored, c.CreatedAt)
	add(event.Delivered, c.DeliveredAt)
	if t := event.Type(c.Status.String()); c.Status.Settled(c.Ack) && (t != event.Delivered || c.DeliveredAt.IsZero()) {
		add(t, c.SettledAt)
	}
	return evs
}
