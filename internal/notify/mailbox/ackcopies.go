package mailbox

import (
	"context"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// CopyAck acknowledges one copy by its place, for a recipient that received it without a session.
type CopyAck struct {
	Ref
	ID          string    // id of the expected notification; if another one is at this position, nothing changes
	Device      string    // the acknowledging device, for notifications that every device must acknowledge
	DeliveredAt time.Time // when the message was sent to the device
}

// AckCopies settles copies and returns once that is on disk. n is the number of copies that this call has settled; the others were settled
// before, are unknown or too late, or wait for another device.
func (m *Mailbox) AckCopies(ctx context.Context, acks []CopyAck) (n int, err error) {
	if len(acks) == 0 {
		return 0, nil
	}
	at := m.now()
	online := make(map[Address][]string)
	batch := make([]*Settle, len(acks))
	for i := range acks {
		a := &acks[i]
		who := Address{a.App, a.Recipient}
		if _, asked := online[who]; !asked {
			if online[who], err = m.Online(ctx, a.App, a.Recipient); err != nil {
				return 0, fmt.Errorf("acknowledge for %s: %w", a.Recipient, err)
			}
		}
		batch[i] = &Settle{
			App: a.App, Recipient: a.Recipient, ID: a.ID, Pos: a.Pos, As: notification.Acked, Device: a.Device, Online: online[who],
			At: at, DeliveredAt: a.DeliveredAt,
		}
	}
	if err := m.store.Settle(ctx, batch); err != nil {
		return 0, fmt.Errorf("acknowledge by token: %w", err)
	}
	for _, s := range batch {
		if s.Outcome == SettleDone {
			n++
		}
	}
	return n, nil
}
