package timeline

import (
	"context"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// tapPage is the most notifications that a tap shows at once: if more arrive within a second, it shows the newest.
const tapPage = 50

// Arrival is a notification that was published to a recipient.
type Arrival struct {
	Record  mailbox.Record
	Content *notification.Content // nil: another node stored it
}

// Tap passes new notifications of a recipient to tell, oldest first, until ctx ends or tell fails. more says that some were left out. Tap
// acknowledges nothing, and the recipient does not count as connected. It calls alive when no notification has arrived for a while.
func (s *Service) Tap(ctx context.Context, app, to string, tell func(list []Arrival, more bool) error, alive func() error) error {
	one, end, err := s.Watchers.watch(mailbox.Address{App: app, Recipient: to}, true)
	if err != nil {
		return err
	}
	defer end()
	newest, _, err := s.Mailbox.History(ctx, app, to, 0, 1, 0)
	if err != nil {
		return err
	}
	last := int64(0)
	if len(newest) > 0 {
		last = newest[0].Pos
	}
	if err := tell(nil, false); err != nil {
		return err
	}
	for spoken := time.Now(); ; {
		if !pause(ctx, one.changed) {
			return context.Cause(ctx)
		}
		list, err := s.came(ctx, app, to, last, s.Watchers.taken(one))
		switch {
		case err != nil:
			return err
		case len(list) > 0:
			last, spoken = list[len(list)-1].Record.Pos, time.Now()
			err = tell(list, len(list) == tapPage)
		case time.Since(spoken) >= heartbeat:
			spoken = time.Now()
			err = alive()
		}
		if err != nil {
			return err
		}
	}
}

// came lists the notifications of a recipient after a position.
func (s *Service) came(ctx context.Context, app, to string, last int64, contents map[int64]notification.Content) (list []Arrival, err error) {
	records, _, err := s.Mailbox.History(ctx, app, to, 0, tapPage, 0)
	if err != nil {
		return nil, err
	}
	for i := range records {
		if records[i].Pos <= last {
			break
		}
		a := Arrival{Record: records[i]}
		if c, ok := contents[a.Record.Pos]; ok {
			a.Content = &c
		}
		list = append(list, a)
	}
	slices.Reverse(list)
	return list, nil
}
