package escalation

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

// receipts is a store of sends and the mailbox with their copies, in which no copy was acknowledged before.
type receipts struct {
	Store
	Mailbox
	noted []Answer
	acked []mailbox.CopyAck
}

func (*receipts) TrackKey(_ context.Context, app string) ([]byte, error) {
	return []byte("secret of " + app), nil
}

func (r *receipts) Answered(_ context.Context, app string, answers []Answer, _ time.Time) ([]Send, error) {
	sends := make([]Send, len(answers))
	for i, a := range answers {
		if a.ID[0] != 0 { // an empty ID means that the send no longer exists
			sends[i] = Send{Num: 1, App: app, Recipient: "ann", Note: "n", Pos: int64(a.ID[0]), Channel: push.FCM}
		}
	}
	r.noted = append(r.noted, answers...)
	return sends, nil
}

// Items returns copies that expire at receiptsExpire and were published an hour before.
func (r *receipts) Items(_ context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error) {
	items := make([]*mailbox.Item, len(refs))
	for i := range refs {
		items[i] = &mailbox.Item{Pos: refs[i].Pos, N: &notification.Notification{ID: "n", CreatedAt: receiptsExpire.Add(-time.Hour), ExpiresAt: receiptsExpire}}
	}
	return items, nil
}

var receiptsExpire = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (r *receipts) AckCopies(_ context.Context, acks []mailbox.CopyAck) (int, error) {
	r.acked = append(r.acked, acks...)
	return len(acks), nil
}

func TestATokenSettlesItsCopyUntilItIsTooOld(t *testing.T) {
	expires := receiptsExpire
	shown, clicked, dismissed := push.Shown, push.Clicked, push.Dismissed
	last := expires.Add(notification.AckGrace)
	for name, c := range map[string]struct {
		ids     []byte
		options notification.StepOptions
		event   *push.Reaction
		now     time.Time
		want    int // copies; -1: refused
		noted   int
	}{
		"no event":            {[]byte{1}, notification.StepOptions{}, nil, expires, 1, 1},
		"clicked":             {[]byte{1}, notification.StepOptions{}, &clicked, expires, 1, 1},
		"dismissed":           {[]byte{1}, notification.StepOptions{}, &dismissed, expires, 1, 1},
		"shown":               {[]byte{1}, notification.StepOptions{}, &shown, expires, 0, 1},
		"shown, which counts": {[]byte{1}, notification.StepOptions{Shown: true}, &shown, expires, 1, 1},
		"two":                 {[]byte{1, 2}, notification.StepOptions{}, nil, expires, 2, 2},
		"one that is gone":    {[]byte{0, 2}, notification.StepOptions{}, nil, expires, 1, 2},
		"at the last moment":  {[]byte{1}, notification.StepOptions{}, nil, last, 1, 1},
		"too old":             {[]byte{1}, notification.StepOptions{}, nil, last.Add(time.Millisecond), -1, 0},
		"none":                {nil, notification.StepOptions{}, nil, expires, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := &receipts{}
			tokens := sealed.New(r, nil)
			s := New(Config{Store: r, Mailbox: r, Tokens: tokens, Now: func() time.Time { return c.now }})
			key, err := tokens.Key(t.Context(), "shop")
			if err != nil {
				t.Fatal(err)
			}
			list := []string{"nonsense", key.Seal(sealed.Acknowledge, []byte("short"), ""), key.Seal(sealed.Acknowledge, slices.Repeat([]byte{0xff}, 40), "")}
			for _, id := range c.ids {
				list = append(list, ackToken(key, [16]byte{id}, c.options, expires))
			}
			n, err := s.Acknowledge(t.Context(), list, c.event)
			if errors.Is(err, sealed.ErrBad) {
				n, err = -1, nil
			}
			if n != c.want || err != nil || len(r.noted) != c.noted || len(r.acked) != max(c.want, 0) {
				t.Errorf("%d, %v; want %d; noted %+v, acknowledged %+v", n, err, c.want, r.noted, r.acked)
			}
			count, sum := timed(t, s, "godwit_notification_acked_seconds", "fcm")
			if want := max(c.want, 0); count != uint64(want) || sum != float64(want)*c.now.Sub(expires.Add(-time.Hour)).Seconds() {
				t.Errorf("%d were timed, together %v s", count, sum)
			}
		})
	}
}

// timed reads a histogram for a channel.
func timed(t *testing.T, s *Service, name, channel string) (count uint64, sum float64) {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(s)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			if f.GetName() == name && one.GetLabel()[0].GetValue() == channel {
				return one.GetHistogram().GetSampleCount(), one.GetHistogram().GetSampleSum()
			}
		}
	}
	return 0, 0
}
