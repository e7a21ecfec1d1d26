package timeline_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/dispatch"
	"godwit.dev/godwit/internal/escalation"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/recipient"
	"godwit.dev/godwit/internal/session"
	"godwit.dev/godwit/internal/timeline"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func after(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }

// known is what is known of a copy in app shop, and of its recipient.
type known struct {
	record mailbox.Record
	sends  []escalation.Send
	steps  []notification.Step
	next   int
	who    *recipient.View
}

func (k *known) Lookup(_ context.Context, app, id, to string) ([]mailbox.Record, error) {
	if app != "shop" || id != k.record.ID || to != k.record.To {
		return nil, nil
	}
	return []mailbox.Record{k.record}, nil
}

func (k *known) SendsOf(context.Context, string, string, string) ([]escalation.Send, error) {
	return k.sends, nil
}

func (k *known) StepsOf(context.Context, mailbox.Ref) ([]notification.Step, int, error) {
	return k.steps, k.next, nil
}

func (k *known) Get(context.Context, string, string) (*recipient.View, error) {
	if k.who == nil {
		return nil, mailbox.ErrNotFound
	}
	return k.who, nil
}

// tell tells of it a minute after it was published.
func (k *known) tell(t *testing.T) *timeline.Timeline {
	t.Helper()
	k.record.ID, k.record.To, k.record.Pos, k.record.CreatedAt = "ride-1", "anna", 7, start
	s := timeline.New(timeline.Config{Mailbox: k, Steps: k, Recipients: k, Now: func() time.Time { return after(60) }})
	tl, err := s.Of(t.Context(), "shop", "ride-1", "anna")
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func seen(at time.Time, live ...session.Info) *recipient.View {
	return &recipient.View{RecipientInfo: mailbox.RecipientInfo{Name: "anna", LastSeen: at}, Sessions: live}
}

func TestTheSentenceNamesTheCause(t *testing.T) {
	push2 := func(s escalation.Send) []escalation.Send {
		s.Pos, s.Step, s.Channel, s.At = 7, 1, push.WebPush, after(5)
		return []escalation.Send{s}
	}
	for want, k := range map[string]known{
		"It waits: anna has never been connected.":                                                                       {record: mailbox.Record{Status: notification.Stored}},
		"It waits: anna is not connected, and was last seen 1h1m0s ago.":                                                 {record: mailbox.Record{Status: notification.Stored}, who: seen(after(-3600))},
		"It waits: anna is connected, and it is about to be written.":                                                    {record: mailbox.Record{Status: notification.Stored}, who: seen(after(60), session.Info{Device: "phone"})},
		"It waits: the window of phone is full; it has 64 before this one to acknowledge.":                               {record: mailbox.Record{Status: notification.Stored}, who: seen(after(60), session.Info{Device: "phone", Behind: true, Unacked: 64})},
		"It is not due before 2026-03-01 13:00:00 UTC.":                                                                  {record: mailbox.Record{Status: notification.Scheduled, SendAt: after(3600)}},
		"It was written to a connection, 2 times so far, and nobody has acknowledged it yet.":                            {record: mailbox.Record{Status: notification.Delivered, Attempts: 2, DeliveredAt: after(1)}, who: seen(after(60), session.Info{})},
		"It was written to a connection, and nobody has acknowledged it yet; anna is not connected any more.":            {record: mailbox.Record{Status: notification.Delivered, Attempts: 1, DeliveredAt: after(1)}, who: seen(after(2))},
		"It was written to a connection of anna, and asks for no acknowledgement.":                                       {record: mailbox.Record{Status: notification.Delivered, Ack: notification.AckNone, Attempts: 1, DeliveredAt: after(1), SettledAt: after(1)}},
		"Acknowledged, 250ms after it was due.":                                                                          {record: mailbox.Record{Status: notification.Acked, Attempts: 1, SettledAt: start.Add(250 * time.Millisecond)}},
		"Answered, 1m0s after it was due.":                                                                               {record: mailbox.Record{Status: notification.Replied, Attempts: 1, SettledAt: after(60)}},
		"It expired: anna has never been connected.":                                                                     {record: mailbox.Record{Status: notification.Expired, SettledAt: after(30)}},
		"It expired: anna was not connected in that time, and is last seen at 2026-03-01 11:00:00 UTC.":                  {record: mailbox.Record{Status: notification.Expired, SettledAt: after(30)}, who: seen(after(-3600))},
		"It expired: it was never written to a connection, although anna was there at 2026-03-01 12:00:20 UTC.":          {record: mailbox.Record{Status: notification.Expired, SettledAt: after(30)}, who: seen(after(20))},
		"It expired: it was written to a connection, 3 times in all, and nobody acknowledged it.":                        {record: mailbox.Record{Status: notification.Expired, Attempts: 3, DeliveredAt: after(1), SettledAt: after(30)}, who: seen(after(20))},
		"Given up: clients could not take it: no such ride.":                                                             {record: mailbox.Record{Status: notification.Failed, Attempts: 3, Nacks: 3, Reason: "no such ride", SettledAt: after(30)}},
		"Recalled by a back end, without having been written to a connection.":                                           {record: mailbox.Record{Status: notification.Recalled, SettledAt: after(30)}},
		"Replaced by a newer one with the same collapse_key.":                                                            {record: mailbox.Record{Status: notification.Replaced, Attempts: 1, SettledAt: after(30)}},
		"It waits: anna has never been connected; webpush follows at 2026-03-01 12:00:05 UTC.":                           {record: mailbox.Record{Status: notification.Stored}, steps: []notification.Step{{}, {Channel: "webpush", After: 5 * time.Second}}, next: 1},
		"It waits: anna has never been connected; webpush: not tried: the recipient has no active endpoint.":             {record: mailbox.Record{Status: notification.Stored}, sends: push2(escalation.Send{Outcome: dispatch.Suppressed, Detail: "the recipient has no active endpoint"})},
		"It waits: anna has never been connected; webpush: failed: the endpoint is gone (410).":                          {record: mailbox.Record{Status: notification.Stored}, sends: push2(escalation.Send{Endpoint: 3, Outcome: dispatch.Refused, Detail: "the endpoint is gone (410)"})},
		"It waits: anna has never been connected; webpush: waits until the channel is set up anew: the key was refused.": {record: mailbox.Record{Status: notification.Stored}, sends: push2(escalation.Send{Endpoint: 3, Outcome: dispatch.Pending, Held: true, Detail: "the key was refused"})},
	} {
		t.Run(want, func(t *testing.T) {
			if got := k.tell(t).Why; got != want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestEntriesAreInTheOrderOfTime(t *testing.T) {
	k := known{
		record: mailbox.Record{Status: notification.Acked, Attempts: 2, SendAt: after(2), DeliveredAt: after(3), SettledAt: after(20), ExpiresAt: after(90)},
		sends:  []escalation.Send{{Pos: 7, Step: 1, Channel: push.FCM, Endpoint: 3, Outcome: dispatch.Accepted, At: after(8)}, {Pos: 6, Step: 1, Channel: push.APNs, At: after(1)}},
		who:    seen(after(30)),
	}
	tl := k.tell(t)
	var got []string
	for _, e := range tl.Entries {
		got = append(got, e.Channel+" "+e.Event)
		if e.Planned {
			t.Errorf("%s is still to come", e.Event)
		}
	}
	if want := []string{" published", " due", "live delivered", "fcm accepted", " acked"}; !slices.Equal(got, want) {
		t.Errorf("entries %q, want %q", got, want)
	}
	if len(tl.Steps) != 1 || tl.Steps[0].Endpoint == "" {
		t.Errorf("steps %+v; another notification had this id before", tl.Steps)
	}
}

func TestWhatIsStillToComeIsPlanned(t *testing.T) {
	k := known{
		record: mailbox.Record{Status: notification.Scheduled, SendAt: after(100), ExpiresAt: after(200)},
		steps:  []notification.Step{{}, {Channel: "webpush", After: 5 * time.Second}}, next: 1,
	}
	var got []string
	for _, e := range k.tell(t).Entries {
		if e.Planned {
			got = append(got, e.Event+" "+e.At.Sub(start).String())
		}
	}
	if want := []string{"due 1m40s", "waiting 1m45s", "expires 3m20s"}; !slices.Equal(got, want) {
		t.Errorf("planned %q, want %q", got, want)
	}
}

func TestWhatIsOfNobodyIsNotFound(t *testing.T) {
	var k known
	k.tell(t)
	s := timeline.New(timeline.Config{Mailbox: &k, Recipients: &k, Now: time.Now})
	for _, app := range []string{"shop", "other"} {
		_, err := s.Of(t.Context(), app, "ride-1", strings.Repeat("b", len(app)))
		if !errors.Is(err, mailbox.ErrNotFound) {
			t.Errorf("%v", err)
		}
	}
}
