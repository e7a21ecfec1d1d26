package escalation

import (
	"context"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/sending/press"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

// pressAll signs the buttons of a send's message that report.
func pressAll(key sealed.Key, id [16]byte, c *push.Content) {
	press.All(c, key, func(b *push.TelegramLink) press.Kind {
		if b.Ack {
			return press.Acknowledging
		}
		return press.Notification
	}, id[:])
}

// Press records that somebody pressed a button below a send's message: it is clicked, its copy acknowledged if the button does that, and an
// event emitted. A button of a send that is no longer stored does nothing.
func (s *Service) Press(ctx context.Context, app string, message []byte, button string, acknowledges bool) error {
	clicked, now := push.Clicked, s.cfg.Now()
	a := Answer{Event: &clicked, Settles: acknowledges}
	if len(message) != len(a.ID) {
		return sealed.ErrBad
	}
	copy(a.ID[:], message)
	answers := []Answer{a}
	sends, err := s.cfg.Store.Answered(ctx, app, answers, now)
	if err != nil || sends[0].Num == 0 {
		return err
	}
	one := &sends[0]
	s.emit(event.Event{App: app, Type: event.Pressed, At: now, Note: one.Note, To: one.Recipient, Channel: string(one.Channel), Step: one.Step + 1, Detail: button})
	_, err = s.settle(ctx, app, answers, sends, now)
	return err
}
