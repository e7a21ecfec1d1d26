package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

// SendStore is a store of escalation sends under test, with the endpoints that receive them.
type SendStore interface {
	EndpointStore
	escalation.Store
}

// RunSends is the conformance suite of escalation.Store. open opens an empty store, and reopen opens it again.
func RunSends(t *testing.T, open func(t *testing.T) (s SendStore, reopen func() SendStore)) {
	t.Run("ASendGoesItsWayOnce", func(t *testing.T) { testSendOnce(t, open) })
	t.Run("WhatWasBeingSentIsSettledAfterACrash", func(t *testing.T) { testSendRecovered(t, open) })
	t.Run("WhatReceiversSayIsKept", func(t *testing.T) { testSendAnswered(t, open) })
	t.Run("AStepMayGoToATarget", func(t *testing.T) { testSendTarget(t, open) })
	t.Run("WhatWaitsForAPersonIsReleasedOrExpires", func(t *testing.T) { testSendHeld(t, open) })
}

var sendPlace = escalation.Place{App: App, Channel: push.Webhook}

// handed creates an endpoint, stores a send to it, and returns the send as due.
func handed(t *testing.T, s SendStore, note string, now time.Time, expires time.Duration) escalation.Due {
	t.Helper()
	reg := audience.Registration{Trusted: true, Endpoint: audience.Endpoint{
		ID: audience.NewID(now), App: App, Channel: push.Webhook, Recipient: "r", Address: []byte(`{"url":"https://example.org/` + note + `"}`),
	}}
	done, err := s.Register(t.Context(), App, []audience.Registration{reg})
	if err != nil || done[0].Err != nil {
		t.Fatalf("register: %v, %v", done, err)
	}
	one := escalation.Send{
		App: App, Recipient: "r", Note: note, Pos: 7, Channel: push.Webhook, Endpoint: done[0].Endpoint.Number, EndpointID: done[0].Endpoint.ID, ExpiresAt: now.Add(expires),
	}
	copy(one.ID[:], note)
	nobody := escalation.Send{App: App, Recipient: "r", Note: note, Pos: 7, Step: 1, Channel: push.WebPush, Outcome: dispatch.Suppressed, Detail: "nobody", ExpiresAt: now.Add(expires)}
	copy(nobody.ID[:], "no "+note)
	for range 2 { // handed over twice
		if err := s.Hand(t.Context(), []escalation.Send{one, nobody}, now); err != nil {
			t.Fatal(err)
		}
	}
	return dueSends(t, s, now, note)[0]
}

// dueSends checks which notifications have sends due.
func dueSends(t *testing.T, s SendStore, now time.Time, want ...string) []escalation.Due {
	t.Helper()
	list, err := s.DueSends(t.Context(), sendPlace, now, 10)
	var got []string
	for _, d := range list {
		got = append(got, d.Note)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("due %v, %v; want %v", got, err, want)
	}
	return list
}

func claimSend(t *testing.T, s SendStore, row int64, want bool, now time.Time) {
	t.Helper()
	if claimed, err := s.ClaimSends(t.Context(), sendPlace, []int64{row}, now); err != nil || claimed[row] != want {
		t.Fatalf("claimed %v, %v; want %v", claimed, err, want)
	}
}

func finishSend(t *testing.T, s SendStore, now time.Time, r dispatch.Result) {
	t.Helper()
	r.Channel = push.Webhook
	if err := s.FinishSends(t.Context(), sendPlace, []dispatch.Result{r}, now); err != nil {
		t.Fatal(err)
	}
}

// wantSends checks the outcomes of a notification's sends.
func wantSends(t *testing.T, s SendStore, note string, want ...dispatch.Outcome) []escalation.Send {
	t.Helper()
	list, err := s.SendsOf(t.Context(), App, note, "r")
	var got []dispatch.Outcome
	for _, one := range list {
		got = append(got, one.Outcome)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("sends of %s are %v, %v; want %v", note, got, err, want)
	}
	return list
}

func testSendOnce(t *testing.T, open func(t *testing.T) (SendStore, func() SendStore)) {
	s, reopen := open(t)
	now := time.Now().Truncate(time.Millisecond)
	d := handed(t, s, "x", now, time.Hour)
	if d.Pos != 7 || d.Recipient != "r" || d.Left || d.Disabled != "" || len(d.Address) == 0 || !d.ExpiresAt.Equal(now.Add(time.Hour)) || string(d.ID[:1]) != "x" {
		t.Errorf("due %+v", d)
	}
	if places, err := s.WaitingSends(t.Context()); err != nil || !slices.Equal(places, []escalation.Place{sendPlace}) {
		t.Errorf("waiting %v, %v", places, err)
	}
	claimSend(t, s, d.Row, true, now)
	claimSend(t, s, d.Row, false, now)
	finishSend(t, s, now, dispatch.Result{Row: d.Row, Outcome: dispatch.Pending, Due: now.Add(time.Minute), Attempts: 1})
	dueSends(t, s, now)
	if at, err := s.NextSend(t.Context(), sendPlace); err != nil || !at.Equal(now.Add(time.Minute)) {
		t.Errorf("next at %s, %v", at, err)
	}
	now = now.Add(time.Minute)
	dueSends(t, s, now, "x")
	claimSend(t, s, d.Row, true, now)
	finishSend(t, s, now, dispatch.Result{Row: d.Row, Outcome: dispatch.Accepted, Attempts: 2, External: "m-1"})
	finishSend(t, s, now, dispatch.Result{Row: d.Row, Outcome: dispatch.Refused})
	if err := s.Hand(t.Context(), []escalation.Send{{App: App, Recipient: "r", Note: "x", ID: d.ID, Channel: push.Webhook, ExpiresAt: now}}, now); err != nil {
		t.Fatal(err)
	}
	s = reopen()
	list := wantSends(t, s, "x", dispatch.Accepted, dispatch.Suppressed)
	if list[0].External != "m-1" || list[0].Attempts != 2 || list[1].Endpoint != 0 || list[1].Detail != "nobody" {
		t.Errorf("sends %+v", list)
	}
	accepted, err := s.ShownSends(t.Context(), 0, now, 10)
	if err != nil || len(accepted) != 1 || accepted[0].Num != d.Row {
		t.Fatalf("accepted %+v, %v", accepted, err)
	}
	err = s.Withdrawn(t.Context(), d.Row, "cannot", now)
	if accepted, aerr := s.ShownSends(t.Context(), 0, now, 10); err != nil || aerr != nil || len(accepted) != 0 {
		t.Errorf("accepted %+v, %v, %v; want none that was tried", accepted, err, aerr)
	}
	if err := s.Withdrawn(t.Context(), d.Row, "", now); err != nil {
		t.Fatal(err)
	}
	wantSends(t, s, "x", dispatch.TakenBack, dispatch.Suppressed)
	testUnknownWithdrawn(t, s, now)
	if list, err := s.SendsOf(t.Context(), "other", "x", "r"); err != nil || len(list) != 0 {
		t.Errorf("another app sees %+v, %v", list, err)
	}
	later := now.Add(2 * time.Hour)
	if _, err := s.PruneSends(t.Context(), later, later, 10); err != nil {
		t.Fatal(err)
	}
	wantSends(t, s, "x")
}

// testUnknownWithdrawn: a send that may have been shown can be withdrawn like an accepted one, and the reason for its unknown outcome stays
// readable.
func testUnknownWithdrawn(t *testing.T, s SendStore, now time.Time) {
	t.Helper()
	d := handed(t, s, "y", now, time.Minute)
	claimSend(t, s, d.Row, true, now)
	finishSend(t, s, now, dispatch.Result{Row: d.Row, Outcome: dispatch.Unknown, Detail: "no answer", Attempts: 1})
	shown, err := s.ShownSends(t.Context(), 0, now, 10)
	if err != nil || len(shown) != 1 || shown[0].Num != d.Row {
		t.Fatalf("shown %+v, %v", shown, err)
	}
	if err := s.Withdrawn(t.Context(), d.Row, "cannot", now); err != nil {
		t.Fatal(err)
	}
	if got := wantSends(t, s, "y", dispatch.Unknown, dispatch.Suppressed)[0]; !got.Tried || !strings.Contains(got.Detail, "no answer") || !strings.Contains(got.Detail, "cannot") {
		t.Errorf("not withdrawn: %+v", got)
	}
	if err := s.Withdrawn(t.Context(), d.Row, "", now); err != nil {
		t.Fatal(err)
	}
	if got := wantSends(t, s, "y", dispatch.TakenBack, dispatch.Suppressed)[0]; !strings.HasPrefix(got.Detail, "no answer") {
		t.Errorf("withdrawn: %+v", got)
	}
}

func testSendRecovered(t *testing.T, open func(t *testing.T) (SendStore, func() SendStore)) {
	for resent, want := range map[push.Channel]dispatch.Outcome{push.Webhook: dispatch.Pending, push.WebPush: dispatch.Unknown} {
		s, reopen := open(t)
		now := time.Now().Truncate(time.Millisecond)
		d := handed(t, s, "x", now, time.Hour)
		claimSend(t, s, d.Row, true, now)
		s = reopen()
		for n, app := range []string{"other", App} {
			if got, err := s.RecoverSends(t.Context(), app, []push.Channel{resent}, now); err != nil || got != n {
				t.Errorf("recovered %d of %s, %v; want %d", got, app, err, n)
			}
		}
		wantSends(t, s, "x", want, dispatch.Suppressed)
		if want == dispatch.Pending && !dueSends(t, s, now, "x")[0].Unsure {
			t.Error("what may have arrived is not known to be so")
		}
		for _, app := range []string{"other", App} {
			if _, err := s.EraseRecipient(t.Context(), app, "r"); err != nil {
				t.Fatal(err)
			}
			if app == "other" {
				wantSends(t, s, "x", want, dispatch.Suppressed)
			}
		}
		wantSends(t, s, "x")
	}
}

func testSendHeld(t *testing.T, open func(t *testing.T) (SendStore, func() SendStore)) {
	s, _ := open(t)
	now := time.Now().Truncate(time.Millisecond)
	d := handed(t, s, "x", now, time.Hour)
	hold := func() {
		claimSend(t, s, d.Row, true, now)
		finishSend(t, s, now, dispatch.Result{Row: d.Row, Outcome: dispatch.Pending, Held: true, Detail: "refused"})
		if got := wantSends(t, s, "x", dispatch.Pending, dispatch.Suppressed)[0]; !got.Held || got.Detail != "refused" {
			t.Errorf("held: %+v", got)
		}
		dueSends(t, s, now.Add(time.Hour))
		if places, err := s.WaitingSends(t.Context()); err != nil || len(places) != 0 {
			t.Errorf("waiting %v, %v", places, err)
		}
	}
	hold()
	if apps, err := s.ReleaseSends(t.Context(), now); err != nil || !slices.Equal(apps, []string{App}) {
		t.Errorf("released of %v, %v", apps, err)
	}
	dueSends(t, s, now, "x")
	if got := wantSends(t, s, "x", dispatch.Pending, dispatch.Suppressed)[0]; got.Held {
		t.Errorf("released: %+v", got)
	}
	hold()
	if _, err := s.PruneSends(t.Context(), now, now.Add(time.Hour), 10); err != nil {
		t.Fatal(err)
	}
	wantSends(t, s, "x", dispatch.Expired, dispatch.Suppressed)
}

// testSendAnswered: a receiver's acknowledgement is kept whatever happens to the send later, and an acknowledged send is not withdrawn.
func testSendAnswered(t *testing.T, open func(t *testing.T) (SendStore, func() SendStore)) {
	s, reopen := open(t)
	now := time.Now().Truncate(time.Millisecond)
	d := handed(t, s, "x", now, time.Hour)
	say := func(app string, id [16]byte, event *push.Reaction, settles bool) escalation.Send {
		t.Helper()
		list, err := s.Answered(t.Context(), app, []escalation.Answer{{}, {ID: id, Event: event, Settles: settles}}, now)
		if err != nil || len(list) != 2 || list[0].Num != 0 {
			t.Fatalf("answered %+v, %v; want nothing and one", list, err)
		}
		return list[1]
	}
	shown, clicked, dismissed := push.Shown, push.Clicked, push.Dismissed
	if got := say("other", d.ID, &shown, true); got.Num != 0 {
		t.Errorf("another app's answer counts: %+v", got)
	}
	claimSend(t, s, d.Row, true, now)
	first := now
	now = now.Add(time.Second)
	if got := say(App, d.ID, &shown, false); !got.Shown || got.Clicked || got.Answered || !got.At.Equal(now) || !got.First.Equal(first) || got.Note != "x" || got.Recipient != "r" || got.Pos != 7 {
		t.Errorf("after it was shown: %+v", got)
	}
	finishSend(t, s, now, dispatch.Result{Row: d.Row, Outcome: dispatch.Accepted, Attempts: 1}) // the provider's answer arrives after the device's acknowledgement
	if list, err := s.ShownSends(t.Context(), 0, now, 10); err != nil || len(list) != 1 || !list[0].Shown {
		t.Fatalf("to be withdrawn: %+v, %v; want what was only shown", list, err)
	}
	now = now.Add(time.Second)
	said := now
	say(App, d.ID, &clicked, true)
	now = now.Add(time.Second)
	if got := say(App, d.ID, &clicked, true); !got.At.Equal(said) {
		t.Errorf("said twice, it was at %s, not at %s", got.At, said)
	}
	s = reopen()
	if got := say(App, d.ID, &dismissed, false); !got.Shown || !got.Clicked || !got.Dismissed || !got.Answered || got.Outcome != dispatch.Accepted {
		t.Errorf("in the end: %+v", got)
	}
	if list, err := s.ShownSends(t.Context(), 0, now, 10); err != nil || len(list) != 0 {
		t.Errorf("to be withdrawn: %+v, %v; want none that was acknowledged", list, err)
	}
	later := d.ExpiresAt.Add(time.Second)
	if _, err := s.PruneSends(t.Context(), later, later, 10); err != nil {
		t.Fatal(err)
	}
	if got := say(App, d.ID, nil, true); got.Num == 0 {
		t.Error("it is gone while its acknowledgement would count")
	}
}

// testSendTarget: a step to one of the app's targets has no endpoint, and keeps its options.
func testSendTarget(t *testing.T, open func(t *testing.T) (SendStore, func() SendStore)) {
	s, reopen := open(t)
	now := time.Now().Truncate(time.Millisecond)
	options := notification.StepOptions{Shown: true, Keep: true, To: "sms"}
	one := escalation.Send{App: App, Recipient: "r", Note: "x", Pos: 7, Channel: push.Webhook, ID: [16]byte{1}, EndpointID: audience.ID{2}, ExpiresAt: now.Add(time.Hour), Options: options}
	if err := s.Hand(t.Context(), []escalation.Send{one}, now); err != nil {
		t.Fatal(err)
	}
	s = reopen()
	d := dueSends(t, s, now, "x")[0]
	if d.Options != options || d.Left || d.Recipient != "r" || string(d.Address) != `{"target":"sms"}` || d.EndpointID != one.EndpointID {
		t.Errorf("due %+v", d)
	}
	claimSend(t, s, d.Row, true, now)
	finishSend(t, s, now, dispatch.Result{Row: d.Row, Outcome: dispatch.Accepted, Disable: "gone", Attempts: 1})
	if got := wantSends(t, s, "x", dispatch.Accepted)[0]; got.Options != options || got.Nobody() || string(got.Address) != `{"target":"sms"}` {
		t.Errorf("sent %+v", got)
	}
	if list, err := s.ShownSends(t.Context(), 0, now, 10); err != nil || len(list) != 0 {
		t.Errorf("to be withdrawn: %+v, %v; want none that is to stay", list, err)
	}
}

// RunTwoSends tests two stores of sends on one database: only one of them sends at a time.
func RunTwoSends(t *testing.T, open Two[SendStore]) {
	t.Run("WhoRecoversOwnsWhatIsSent", func(t *testing.T) {
		now := time.Now().Truncate(time.Millisecond)
		a, b := open(t, time.Now)
		resend := []push.Channel{push.Webhook}
		recovered := func(s SendStore, want int) {
			t.Helper()
			if n, err := s.RecoverSends(t.Context(), App, resend, now); err != nil || n != want {
				t.Fatalf("recovered %d, %v; want %d", n, err, want)
			}
		}
		recovered(a, 0)
		d := handed(t, b, "x", now, time.Hour) // whoever does so
		claimSend(t, a, d.Row, true, now)
		if n, err := b.RecoverSends(t.Context(), "other", resend, now); err != nil || n != 0 {
			t.Fatalf("recovered %d of another app, %v", n, err)
		}
		finishSend(t, a, now, dispatch.Result{Row: d.Row, Outcome: dispatch.Pending, Attempts: 1, Due: now}) // which is its own still
		claimSend(t, a, d.Row, true, now)
		if places, err := b.WaitingSends(t.Context()); err != nil || !slices.Equal(places, []escalation.Place{sendPlace}) {
			t.Errorf("waiting %v, %v; want what is being sent, whose server may have ended", places, err)
		}
		recovered(b, 1)
		if _, err := a.ClaimSends(t.Context(), sendPlace, []int64{d.Row}, now); !errors.Is(err, escalation.ErrStale) {
			t.Errorf("a former owner claims: %v", err)
		}
		late := dispatch.Result{Row: d.Row, Outcome: dispatch.Refused}
		if err := a.FinishSends(t.Context(), sendPlace, []dispatch.Result{late}, now); !errors.Is(err, escalation.ErrStale) {
			t.Errorf("a former owner finishes: %v", err)
		}
		if !dueSends(t, a, now, "x")[0].Unsure {
			t.Error("what may have arrived is not known to be so")
		}
		claimSend(t, b, d.Row, true, now)
		finishSend(t, b, now, dispatch.Result{Row: d.Row, Outcome: dispatch.Accepted, Attempts: 2})
		wantSends(t, a, "x", dispatch.Accepted, dispatch.Suppressed)
		recovered(a, 0)
	})
}
