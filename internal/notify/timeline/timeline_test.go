package timeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func after(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }

// known is all data about one copy in the app shop, and about its recipient.
type known struct {
	record mailbox.Record
	sends  []escalation.Send
	steps  []notification.Step
	next   int
	who    *recipient.View

	history []mailbox.Record // newest first
	started time.Time
	foresee func(d *mailbox.StepDue, at time.Time) preference.Verdict
}

func (k *known) Lookup(_ context.Context, app, id, to string) ([]mailbox.Record, error) {
	if app != "shop" || id != k.record.ID || to != k.record.To {
		return nil, nil
	}
	return []mailbox.Record{k.record}, nil
}

func (k *known) History(_ context.Context, app, to string, _ notification.Status, limit int, cursor int64) (items []mailbox.Record, next int64, err error) {
	if app != "shop" || to != "anna" {
		return nil, 0, nil
	}
	for _, r := range k.history {
		if cursor == 0 || r.Pos < cursor {
			if len(items) == limit {
				return items, items[limit-1].Pos, nil
			}
			items = append(items, r)
		}
	}
	return items, 0, nil
}

func (k *known) SendsOf(context.Context, string, string, string) ([]escalation.Send, error) {
	return k.sends, nil
}

func (k *known) StepsOf(context.Context, mailbox.Ref) ([]notification.Step, int, error) {
	return k.steps, k.next, nil
}

func (k *known) Foresee(_ context.Context, d *mailbox.StepDue, at time.Time) (preference.Verdict, error) {
	if k.foresee == nil {
		return preference.Verdict{}, nil
	}
	return k.foresee(d, at), nil
}

func (k *known) Get(context.Context, string, string) (*recipient.View, error) {
	if k.who == nil {
		return nil, mailbox.ErrNotFound
	}
	return k.who, nil
}

// tell returns the timeline a minute after the copy was published.
func (k *known) tell(t *testing.T) *timeline.Timeline {
	t.Helper()
	k.record.ID, k.record.To, k.record.Pos, k.record.CreatedAt = "ride-1", "anna", 7, start
	s := timeline.New(timeline.Config{Mailbox: k, Steps: k, Recipients: k, Now: func() time.Time { return after(60) }, Started: k.started})
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
		"It waits: anna has never been connected.":                                                                                         {record: mailbox.Record{Status: notification.Stored}},
		"It waits: anna is not connected, and was last seen 1h1m0s ago.":                                                                   {record: mailbox.Record{Status: notification.Stored}, who: seen(after(-3600))},
		"It waits: anna is connected, and it is about to be written.":                                                                      {record: mailbox.Record{Status: notification.Stored}, who: seen(after(60), session.Info{Device: "phone"})},
		"It waits: the window of phone is full; it has 64 before this one to acknowledge.":                                                 {record: mailbox.Record{Status: notification.Stored}, who: seen(after(60), session.Info{Device: "phone", Behind: true, Unacked: 64})},
		"It is not due before 2026-03-01 13:00:00 UTC.":                                                                                    {record: mailbox.Record{Status: notification.Scheduled, SendAt: after(3600)}},
		"It was written to a connection, 2 times so far, and nobody has acknowledged it yet.":                                              {record: mailbox.Record{Status: notification.Delivered, Attempts: 2, DeliveredAt: after(1)}, who: seen(after(60), session.Info{})},
		"It was written to a connection, and nobody has acknowledged it yet; anna is not connected any more.":                              {record: mailbox.Record{Status: notification.Delivered, Attempts: 1, DeliveredAt: after(1)}, who: seen(after(2))},
		"It was written to a connection of anna, and asks for no acknowledgement.":                                                         {record: mailbox.Record{Status: notification.Delivered, Ack: notification.AckNone, Attempts: 1, DeliveredAt: after(1), SettledAt: after(1)}},
		"Acknowledged, 250ms after it was due.":                                                                                            {record: mailbox.Record{Status: notification.Acked, Attempts: 1, SettledAt: start.Add(250 * time.Millisecond)}},
		"Answered, 1m0s after it was due.":                                                                                                 {record: mailbox.Record{Status: notification.Replied, Attempts: 1, SettledAt: after(60)}},
		"It expired at 2026-03-01 12:00:30 UTC: anna has never been connected.":                                                            {record: mailbox.Record{Status: notification.Expired, SettledAt: after(30)}},
		"It expired at 2026-03-01 12:00:30 UTC: anna was not connected in that time, and is last seen at 2026-03-01 11:00:00 UTC.":         {record: mailbox.Record{Status: notification.Expired, SettledAt: after(30)}, who: seen(after(-3600))},
		"It expired at 2026-03-01 12:00:30 UTC: it was never written to a connection, although anna was there at 2026-03-01 12:00:20 UTC.": {record: mailbox.Record{Status: notification.Expired, SettledAt: after(30)}, who: seen(after(20))},
		"It expired at 2026-03-01 12:00:30 UTC: it was written to a connection, 3 times in all, and nobody acknowledged it.":               {record: mailbox.Record{Status: notification.Expired, Attempts: 3, DeliveredAt: after(1), SettledAt: after(30)}, who: seen(after(20))},
		"Given up: clients could not take it: no such ride.":                                                                               {record: mailbox.Record{Status: notification.Failed, Attempts: 3, Nacks: 3, Reason: "no such ride", SettledAt: after(30)}},
		"Recalled by a back end, without having been written to a connection.":                                                             {record: mailbox.Record{Status: notification.Recalled, SettledAt: after(30)}},
		"Replaced by a newer one with the same collapse_key.":                                                                              {record: mailbox.Record{Status: notification.Replaced, Attempts: 1, SettledAt: after(30)}},
		"It waits: anna has never been connected; webpush follows at 2026-03-01 12:00:05 UTC.":                                             {record: mailbox.Record{Status: notification.Stored}, steps: []notification.Step{{}, {Channel: "webpush", After: 5 * time.Second}}, next: 1},
		"It waits: anna has never been connected; webpush: not tried: the recipient has no active endpoint.":                               {record: mailbox.Record{Status: notification.Stored}, sends: push2(escalation.Send{Outcome: dispatch.Suppressed, Detail: "the recipient has no active endpoint"})},
		"It waits: anna has never been connected; webpush: failed: the endpoint is gone (410).":                                            {record: mailbox.Record{Status: notification.Stored}, sends: push2(escalation.Send{Endpoint: 3, Outcome: dispatch.Refused, Detail: "the endpoint is gone (410)"})},
		"It waits: anna has never been connected; webpush: waits until the channel is set up anew: the key was refused.":                   {record: mailbox.Record{Status: notification.Stored}, sends: push2(escalation.Send{Endpoint: 3, Outcome: dispatch.Pending, Held: true, Detail: "the key was refused"})},
	} {
		t.Run(want, func(t *testing.T) {
			if got := k.tell(t).Why.String(); got != want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func wrote(at int, device string) mailbox.Attempt {
	return mailbox.Attempt{At: after(at), Device: device, Gateway: "ws"}
}

func TestTheSentenceTellsWhatWasTried(t *testing.T) {
	refused := mailbox.Attempt{What: mailbox.Nacked, At: after(5), Device: "phone", Gateway: "ws", Reason: "busy"}
	by := func(at int, device, gateway string) mailbox.Attempt {
		return mailbox.Attempt{What: mailbox.Acked, At: after(at), Device: device, Gateway: gateway}
	}
	gone := []escalation.Send{{Pos: 7, Step: 1, Channel: push.WebPush, At: after(5), Outcome: dispatch.Suppressed, Detail: "no endpoint"}}
	for want, k := range map[string]known{
		"It expired at 2026-03-01 12:01:00 UTC: it was written to phone at 2026-03-01 12:00:01 UTC, again at 12:00:11 and 12:00:31, and nobody acknowledged it; webpush: not tried: no endpoint.": {
			record: mailbox.Record{Status: notification.Expired, Attempts: 3, DeliveredAt: after(1), SettledAt: after(60), Tried: []mailbox.Attempt{wrote(1, "phone"), wrote(11, "phone"), wrote(31, "phone")}}, sends: gone,
		},
		"It was written to phone at 2026-03-01 12:00:01 UTC, and written to a connection over ws at 2026-03-01 12:00:02 UTC; clients could not take it once: busy, and nobody has acknowledged it yet.": {
			record: mailbox.Record{Status: notification.Delivered, Attempts: 2, DeliveredAt: after(1), Tried: []mailbox.Attempt{wrote(1, "phone"), wrote(2, ""), refused}}, who: seen(after(60), session.Info{}),
		},
		"It was written to phone at 2026-03-01 12:00:01 UTC, and again 5 times until 12:00:41, and 3 more that are not known in detail, and nobody has acknowledged it yet.": {
			record: mailbox.Record{Status: notification.Delivered, Attempts: 9, DeliveredAt: after(1), Tried: []mailbox.Attempt{wrote(1, "phone"), wrote(2, "phone"), wrote(3, "phone"), wrote(4, "phone"), wrote(5, "phone"), wrote(41, "phone")}},
			who:    seen(after(60), session.Info{}),
		},
		"It was written to phone at 2026-03-01 12:00:01 UTC, and asks for no acknowledgement.": {
			record: mailbox.Record{Status: notification.Delivered, Ack: notification.AckNone, Attempts: 1, DeliveredAt: after(1), SettledAt: after(1), Tried: []mailbox.Attempt{wrote(1, "phone")}},
		},
		"Acknowledged by phone, 2s after it was due.": {
			record: mailbox.Record{Status: notification.Acked, Attempts: 1, SettledAt: after(2), Tried: []mailbox.Attempt{wrote(1, "phone"), by(2, "phone", "ws")}},
		},
		"Acknowledged by phone, 3s after it was due.": { // earlier attempts have no recorded details
			record: mailbox.Record{Status: notification.Acked, Attempts: 1, SettledAt: after(3), Tried: []mailbox.Attempt{by(3, "phone", "ws")}},
		},
		"Acknowledged by a connection over ws, 2s after it was due.": {
			record: mailbox.Record{Status: notification.Acked, Attempts: 1, SettledAt: after(2), Tried: []mailbox.Attempt{wrote(1, ""), by(2, "", "ws")}},
		},
		"Acknowledged, 2s after it was due.": {
			record: mailbox.Record{Status: notification.Acked, Attempts: 1, SettledAt: after(2), Tried: []mailbox.Attempt{wrote(1, ""), by(2, "", "")}},
		},
	} {
		t.Run(want, func(t *testing.T) {
			if got := k.tell(t).Why.String(); got != want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestEachAttemptIsAnEntry(t *testing.T) {
	k := known{record: mailbox.Record{
		Status: notification.Acked, Ack: notification.AckAll, Attempts: 2, DeliveredAt: after(1), SettledAt: after(20), ExpiresAt: after(90),
		Tried: []mailbox.Attempt{
			wrote(1, "phone"),
			wrote(2, "desk"),
			{What: mailbox.Nacked, At: after(3), Device: "phone", Gateway: "ws"},
			{What: mailbox.Acked, At: after(4), Device: "desk"},
			{At: after(11), Device: "phone", Gateway: "ws"},
			{What: mailbox.Acked, At: after(20), Device: "phone", Gateway: "ws", Node: "b"},
		},
	}}
	var got []string
	for _, e := range k.tell(t).Entries[1:] {
		got = append(got, e.Event+": "+e.Text.String())
	}
	want := []string{
		"delivered: written to phone", "delivered: written to desk", "nacked: phone could not take it, and did not say why", "ack: desk has acknowledged it",
		"redelivered: written to phone again", "acked: acknowledged by phone on b, 20s after it was due",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestTimelineSaysWhatRestartMayHaveLost(t *testing.T) {
	for name, c := range map[string]struct {
		record  mailbox.Record
		started time.Time
		want    bool
	}{
		"it waited then":         {mailbox.Record{Status: notification.Stored}, after(30), true},
		"it ended after it":      {mailbox.Record{Status: notification.Acked, SettledAt: after(40)}, after(30), true},
		"it had ended before":    {mailbox.Record{Status: notification.Acked, SettledAt: after(20)}, after(30), false},
		"it came after it":       {mailbox.Record{Status: notification.Stored}, after(-30), false},
		"it was not due by then": {mailbox.Record{Status: notification.Scheduled, SendAt: after(40)}, after(30), false},
		"nothing is kept":        {mailbox.Record{Status: notification.Stored}, time.Time{}, false},
	} {
		k := known{record: c.record, started: c.started}
		got := slices.ContainsFunc(k.tell(t).Entries, func(e timeline.Entry) bool { return e.Event == "restart" && e.At.Equal(c.started) })
		if got != c.want {
			t.Errorf("%s: said %v, want %v", name, got, c.want)
		}
	}
}

func TestAStepThatFallsIntoQuietHoursIsShownAtItsEnd(t *testing.T) {
	night, morning := after(5), after(3600)
	k := known{
		record: mailbox.Record{Status: notification.Stored, ExpiresAt: after(7200)},
		steps:  []notification.Step{{}, {Channel: "webpush", After: 5 * time.Second}, {Channel: "fcm", After: 10 * time.Second}, {Channel: "sms", After: 2 * time.Hour}}, next: 1,
		foresee: func(d *mailbox.StepDue, at time.Time) preference.Verdict {
			switch {
			case d.Channel == "sms":
				return preference.Verdict{Skip: "it has expired by then"}
			case !at.Before(night) && at.Before(morning):
				return preference.Verdict{Until: morning}
			}
			return preference.Verdict{}
		},
	}
	var got []string
	for _, e := range k.tell(t).Entries {
		if e.Channel != "" && e.Planned {
			got = append(got, e.At.Sub(start).String()+" "+string(e.Channel)+": "+e.Text.String())
		}
	}
	want := []string{
		"1h0m0s webpush: comes next if nobody has acknowledged by then: the recipient's quiet hours last until then",
		"1h0m5s fcm: comes next if nobody has acknowledged by then",
		"2h59m55s sms: will not be tried, as things stand: it has expired by then",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
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
		got = append(got, string(e.Channel)+" "+e.Event)
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

func TestTimelineListsPlannedSteps(t *testing.T) {
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

func TestTimelineOfUnknownCopyIsNotFound(t *testing.T) {
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

func TestARecipientsTimelineTellsOfEachNotificationByPages(t *testing.T) {
	k := known{who: seen(after(60), session.Info{Device: "phone"})}
	for i := range 450 {
		k.history = append(k.history, mailbox.Record{ID: fmt.Sprint("n", i), To: "anna", Pos: int64(1000 - i), CreatedAt: start, Status: notification.Acked, DeliveredAt: after(1), SettledAt: after(2), Attempts: 1})
	}
	k.history[0] = mailbox.Record{ID: "n0", To: "anna", Pos: 1000, CreatedAt: start, SendAt: after(3600), Status: notification.Scheduled}
	s := timeline.New(timeline.Config{Mailbox: &k, Recipients: &k, Now: func() time.Time { return after(60) }})
	var sizes []int
	for cursor := int64(0); len(sizes) == 0 || cursor != 0; {
		list, next, err := s.OfRecipient(t.Context(), "shop", "anna", 1000, cursor)
		if err != nil {
			t.Fatal(err)
		}
		if cursor == 0 {
			if r := list[0]; r.Why.String() != "It is not due before 2026-03-01 13:00:00 UTC." || !r.At.Equal(start) {
				t.Errorf("%+v", r)
			}
			if r := list[1]; r.Why.String() != "Acknowledged, 2s after it was due." || !r.At.Equal(after(2)) {
				t.Errorf("%+v", r)
			}
		}
		sizes, cursor = append(sizes, len(list)), next
	}
	if !slices.Equal(sizes, []int{200, 200, 50}) {
		t.Errorf("pages of %v", sizes)
	}
	if list, next, err := s.OfRecipient(t.Context(), "other", "anna", 10, 0); len(list) != 0 || next != 0 || err != nil {
		t.Errorf("of another app: %v, %d, %v", list, next, err)
	}
}

// TestTheSentenceAboutAnExpiredCopyHoldsInEveryOrder tries all orders of a copy's due time and expiry with the times at which its recipient
// connected and was last seen: the sentence claims nothing that did not happen.
func TestTheSentenceAboutAnExpiredCopyHoldsInEveryOrder(t *testing.T) {
	const due, expired = 0, 30
	for _, c := range []struct {
		connected, seen int // seconds after the publish; live: the connection is still there
		live            bool
		want            string
	}{
		{-20, -10, false, "anna was not connected in that time, and is last seen at 2026-03-01 11:59:50 UTC."},
		{-20, 10, false, "it was never written to a connection, although anna was there at 2026-03-01 12:00:10 UTC."},
		{10, 20, false, "it was never written to a connection, although anna was there at 2026-03-01 12:00:20 UTC."},
		{-20, 0, false, "it was never written to a connection, although anna was there at 2026-03-01 12:00:00 UTC."},
		{10, 30, false, "it was never written to a connection, and had expired before anna was last seen at 2026-03-01 12:00:30 UTC."},
		{0, 60, true, "it was never written to a connection, although anna is connected since 2026-03-01 12:00:00 UTC."},
		{29, 60, true, "it was never written to a connection, although anna is connected since 2026-03-01 12:00:29 UTC."},
		{10, 40, false, "it was never written to a connection, and had expired before anna was last seen at 2026-03-01 12:00:40 UTC."},
		{40, 50, false, "it was never written to a connection, and had expired before anna was last seen at 2026-03-01 12:00:50 UTC."},
		{-20, 60, true, "it was never written to a connection, although anna is connected since 2026-03-01 11:59:40 UTC."},
		{10, 60, true, "it was never written to a connection, although anna is connected since 2026-03-01 12:00:10 UTC."},
		{30, 60, true, "it was never written to a connection, and had expired before anna connected at 2026-03-01 12:00:30 UTC."},
		{40, 60, true, "it was never written to a connection, and had expired before anna connected at 2026-03-01 12:00:40 UTC."},
	} {
		k := known{record: mailbox.Record{Status: notification.Expired, SendAt: after(due), SettledAt: after(expired)}, who: seen(after(c.seen))}
		if c.live {
			k.who.Sessions = []session.Info{{Device: "desk", ConnectedAt: after(c.seen)}, {Device: "phone", ConnectedAt: after(c.connected)}}
		}
		if got := k.tell(t).Why.String(); got != "It expired at 2026-03-01 12:00:30 UTC: "+c.want {
			t.Errorf("connected at %d, seen at %d, still there %t: %q", c.connected, c.seen, c.live, got)
		}
	}
}
