package campaign

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/sending/press"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

// Events records what happens, for feeds and hooks.
type Events interface {
	Emit(evs []event.Event)
}

// pressAll signs the buttons of a delivery's message that report. The message is named by the campaign's id and the row.
func pressAll(key sealed.Key, c *Campaign, row int64, content *push.Content) {
	id, err := ulid.ParseStrict(c.ID)
	if err != nil {
		return // a test's campaign; ours have ULIDs
	}
	message := binary.AppendUvarint(id[:], uint64(row)) // positive
	press.All(content, key, func(*push.TelegramLink) press.Kind { return press.Campaign }, message)
}

// Press records that somebody pressed a button below a delivery's message: it counts a click, if the campaign counts clicks, and emits an
// event. A button of a deleted campaign does nothing.
func (s *Service) Press(ctx context.Context, app string, message []byte, button string) error {
	var id ulid.ULID
	if len(message) <= len(id) {
		return sealed.ErrBad
	}
	copy(id[:], message)
	row, read := binary.Uvarint(message[len(id):])
	if read <= 0 || row>>63 != 0 {
		return sealed.ErrBad
	}
	c, err := s.store.Get(ctx, app, id.String())
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	list, _, err := s.store.Deliveries(ctx, c.Num, nil, 1, int64(row)-1)
	if err != nil || len(list) == 0 || list[0].Row != int64(row) {
		return err
	}
	if c.Spec.Tracked() {
		if err := s.react(ctx, c.Num, list[0].Row, Clicked); err != nil {
			return fmt.Errorf("count a press: %w", err)
		}
	}
	if s.cfg.Events != nil {
		to := list[0].Recipient
		if to == "" {
			to = list[0].Endpoint
		}
		s.cfg.Events.Emit([]event.Event{{App: app, Type: event.Pressed, At: s.cfg.Now(), Note: c.ID, To: to, Channel: string(list[0].Channel), Detail: button}})
	}
	return nil
}
