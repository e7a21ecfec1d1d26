package timeline

import (
	"context"
	"errors"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/recipient"
)

// MostRecent is the most notifications on a page of a recipient's timeline.
const MostRecent = 200

// Recent is a summary of the events of one of a recipient's notifications.
type Recent struct {
	Record mailbox.Record
	At     time.Time // of the last known event
	Why    Text      // its state over connections, as a sentence
}

// OfRecipient lists a page of a recipient's notifications before cursor, newest first; 0 begins with the newest. It reads one page of the
// history and queries the connected recipients once, whatever the number of notifications.
func (s *Service) OfRecipient(ctx context.Context, app, to string, limit int, cursor int64) (list []Recent, next int64, err error) {
	records, next, err := s.Mailbox.History(ctx, app, to, 0, min(limit, MostRecent), cursor)
	if err != nil || len(records) == 0 {
		return nil, 0, err
	}
	who, err := s.Recipients.Get(ctx, app, to)
	if errors.Is(err, mailbox.ErrNotFound) {
		who, err = &recipient.View{}, nil
	}
	if err != nil {
		return nil, 0, err
	}
	now := s.Now()
	list = make([]Recent, len(records))
	for i := range records {
		r := &records[i]
		list[i] = Recent{Record: *r, At: latest(r, now), Why: why(r, nil, who, now)}
	}
	return list, next, nil
}

// latest returns the time of a copy's last event.
func latest(r *mailbox.Record, now time.Time) time.Time {
	at := r.CreatedAt
	for _, t := range [...]time.Time{r.SendAt, r.DeliveredAt, r.SettledAt} {
		if t.After(at) && !t.After(now) {
			at = t
		}
	}
	return at
}
