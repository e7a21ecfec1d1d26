package escalation

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

// A token by which receivers acknowledge holds: the id of the send (made of app, notification, recipient, place in the mailbox, step and
// endpoint), the end of its validity as a varint of milliseconds, and whether being shown counts as acknowledgement. Names would not fit;
// the store has them.
const (
	tokenShown = 1 << 0
	tokenHead  = 1 + 16 // bytes of every token: options and id
)

// ackToken makes the token of a send.
func ackToken(key sealed.Key, id [16]byte, options notification.StepOptions, expires time.Time) string {
	says := make([]byte, 1, tokenHead+binary.MaxVarintLen64)
	if options.Shown {
		says[0] = tokenShown
	}
	says = append(says, id[:]...)
	says = binary.AppendUvarint(says, uint64(expires.Add(notification.AckGrace).UnixMilli())) // after 1970
	return key.Seal(sealed.Acknowledge, says, "")
}

// readToken reads a token's content. ok is false if ackToken did not write it, or if it has expired.
func readToken(says []byte, event *push.Reaction, now time.Time) (a Answer, ok bool) {
	if len(says) <= tokenHead {
		return a, false
	}
	until, read := binary.Uvarint(says[tokenHead:])
	if read != len(says)-tokenHead || now.UnixMilli() > int64(until) { // signed by us
		return a, false
	}
	a.Event, a.Settles = event, event == nil || *event != push.Shown || says[0]&tokenShown != 0
	copy(a.ID[:], says[1:])
	return a, true
}

// Acknowledge handles receivers' reports. Each report contains the token of a message; without an event it is an acknowledgement. n is the
// number of copies that this call has settled. Invalid tokens are skipped; sealed.ErrBad: all were invalid.
func (s *Service) Acknowledge(ctx context.Context, tokens []string, event *push.Reaction) (n int, err error) {
	now := s.cfg.Now()
	answers := make(map[string][]Answer) // by app
	for _, token := range tokens {
		app, says, err := s.cfg.Tokens.Open(ctx, token, sealed.Acknowledge, "")
		if errors.Is(err, sealed.ErrBad) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if a, ok := readToken(says, event, now); ok {
			answers[app] = append(answers[app], a)
		}
	}
	if len(answers) == 0 {
		return 0, sealed.ErrBad
	}
	for app, list := range answers {
		settled, err := s.answered(ctx, app, list, now)
		n += settled
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// answered first records that messages were acknowledged, so that they are not withdrawn from those devices, and then settles their copies.
// If a device gets no answer it acknowledges again, which changes nothing.
func (s *Service) answered(ctx context.Context, app string, answers []Answer, now time.Time) (n int, err error) {
	sends, err := s.cfg.Store.Answered(ctx, app, answers, now)
	if err != nil {
		return 0, err
	}
	return s.settle(ctx, app, answers, sends, now)
}

// settle acknowledges the copies of answered sends.
func (s *Service) settle(ctx context.Context, app string, answers []Answer, sends []Send, now time.Time) (n int, err error) {
	var acks []mailbox.CopyAck
	var refs []mailbox.Ref
	var channels []push.Channel
	for i := range sends {
		if one := &sends[i]; one.Num != 0 && answers[i].Settles {
			ref := mailbox.Ref{App: app, Recipient: one.Recipient, Pos: one.Pos}
			acks = append(acks, mailbox.CopyAck{Ref: ref, ID: one.Note, Device: device(one), DeliveredAt: one.First})
			refs, channels = append(refs, ref), append(channels, one.Channel)
		}
	}
	if len(acks) == 0 {
		return 0, nil
	}
	open, unread := s.cfg.Mailbox.Items(ctx, refs) // for settled copies, the store no longer has the time at which they were due
	n, err = s.cfg.Mailbox.AckCopies(ctx, acks)
	if err != nil || unread != nil {
		return n, err
	}
	for i, it := range open {
		if it != nil && it.N.ID == acks[i].ID && it.N.Ack == notification.AckAny {
			s.metrics.tookUntilAcked(channels[i], now.Sub(it.N.Due()))
		}
	}
	return n, nil
}

// device names the device to which a send went.
func device(s *Send) string {
	if to := s.Options.To; to != "" {
		return string(s.Channel) + ":" + to
	}
	return s.EndpointID.String()
}
