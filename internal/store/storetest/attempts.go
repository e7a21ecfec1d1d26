package storetest

import (
	"fmt"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// posOf returns a copy's position.
func (e *env) posOf(to, id string) int64 {
	e.Helper()
	return e.record(to, id).Pos
}

// wrote records that a copy was written to a connection of a device; "" is a device without a name.
func (e *env) wrote(to, id, device string, attempt uint32) {
	e.Helper()
	e.wroteAt(e.posOf(to, id), to, id, device, attempt)
}

func (e *env) wroteAt(pos int64, to, id, device string, attempt uint32) {
	e.s.Mark([]mailbox.Mark{{
		App: App, Recipient: to, ID: id, Pos: pos, Attempts: attempt, DeliveredAt: e.clock.Now(), Device: device, Over: mailbox.OverOf("ws", device),
	}})
}

// refuses records a device's rejection of a copy.
func (e *env) refuses(to, id, device, reason string) {
	e.Helper()
	why := &reason
	if reason == "" {
		why = nil
	}
	e.s.Mark([]mailbox.Mark{{
		App: App, Recipient: to, ID: id, Pos: e.posOf(to, id), DeliveredAt: e.clock.Now(), Device: device, Over: mailbox.OverOf("ws", device), What: mailbox.Nacked, Reason: why,
	}})
}

// acksFrom settles a copy like the session to which it was written.
func (e *env) acksFrom(to, id, device string, attempt uint32) {
	e.Helper()
	e.acksTo(e.s, to, id, device, attempt)
}

func (e *env) acksTo(s mailbox.Store, to, id, device string, attempt uint32) {
	e.Helper()
	now := e.clock.Now()
	q := &mailbox.Settle{
		App: App, Recipient: to, ID: id, Pos: e.posOf(to, id), As: notification.Acked, Device: device, Over: mailbox.OverOf("ws", device), Attempts: attempt, At: now, DeliveredAt: now,
	}
	if device == "" {
		q.Device = "~"
	}
	if err := s.Settle(e.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
		e.Fatalf("ack of %s by %q: outcome %d, %v", id, device, q.Outcome, err)
	}
}

// said lists a copy's attempts in short form: seconds since the clock's start, the kind, and the device.
func said(r *mailbox.Record) (list []string) {
	begin := testclock.New().Now()
	for _, a := range r.Tried {
		what := []string{"written to", "refused by", "acked by"}[a.What]
		s := fmt.Sprintf("%d %s %s", int(a.At.Sub(begin).Seconds()), what, a.Device)
		if a.Gateway != "" && a.Gateway != "ws" {
			s += " over " + a.Gateway
		}
		if a.Reason != "" {
			s += ": " + a.Reason
		}
		list = append(list, s)
	}
	return list
}

// wantTried checks the attempts in a copy's record.
func (e *env) wantTried(to, id string, want ...string) {
	e.Helper()
	r := e.record(to, id)
	if got := said(&r); !slices.Equal(got, want) {
		e.Errorf("%s of %s was tried %q, want %q", id, to, got, want)
	}
}

// crowd stores so many notifications that the store archives earlier settled ones.
func (e *env) crowd() {
	e.Helper()
	before := len(e.rec.All().Stored)
	var batch []*mailbox.Append
	for i := range 80 {
		batch = append(batch, &mailbox.Append{N: e.note(fmt.Sprint("crowd", before+i)), To: []string{fmt.Sprint("somebody", i), "another"}})
	}
	e.storedAtOnce(batch...)
}

func (e *env) step() { e.clock.Advance(time.Second) }

var attemptCases = []testCase{
	{"WhereACopyWasWrittenAndWhoAcknowledgedItIsTold", []Ability{Attempts}, func(e *env) {
		e.stored(e.note("x"), "r", "s", "t")
		e.s.Seen([]mailbox.Seen{{App: App, Recipient: "r", Device: "phone", At: e.clock.Now()}})
		e.wrote("r", "x", "phone", 1)
		e.wrote("s", "x", "", 1)
		e.step()
		e.acksFrom("r", "x", "phone", 1)
		e.acksFrom("s", "x", "", 1)
		for range 2 {
			e.wantTried("r", "x", "0 written to phone", "1 acked by phone")
			e.wantTried("s", "x", "0 written to ", "1 acked by ")
			e.wantTried("t", "x")
			e.crowd()
			e.reopen()
		}
	}},
	{"GatewaysWithoutANumberKeepTheirNames", []Ability{Attempts}, func(e *env) {
		pigeon := func(device string) mailbox.Over { return mailbox.OverOf("pigeon", device) }
		ack := func(to, id string, as notification.Status) {
			now := e.clock.Now()
			q := &mailbox.Settle{App: App, Recipient: to, ID: id, Pos: e.posOf(to, id), As: as, Over: pigeon("phone"), Attempts: 1, At: now, DeliveredAt: now}
			if as == notification.Acked {
				q.Device = "phone"
			}
			if err := e.s.Settle(e.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
				e.Fatalf("settle for %s: outcome %d, %v", to, q.Outcome, err)
			}
		}
		begin := e.clock.Now()
		wrote := func(to string, pos int64) {
			e.s.Mark([]mailbox.Mark{{App: App, Recipient: to, ID: "x", Pos: pos, Attempts: 1, DeliveredAt: begin, Device: "phone", Over: pigeon("phone")}})
		}
		told := e.note("y")
		told.Ack = notification.AckNone
		e.stored(told, "told")
		e.stored(e.note("x"), "r", "quick")
		wrote("r", e.posOf("r", "x"))
		e.step()
		ack("r", "x", notification.Acked)
		pos := e.posOf("quick", "x")
		ack("quick", "x", notification.Acked)
		wrote("quick", pos) // is noted after the acknowledgement
		ack("told", "y", notification.Delivered)
		for range 2 {
			e.wantTried("r", "x", "0 written to phone over pigeon", "1 acked by phone over pigeon")
			e.wantTried("quick", "x", "0 written to phone over pigeon", "1 acked by phone over pigeon")
			e.wantTried("told", "y", "1 written to  over pigeon")
			e.crowd()
			e.reopen()
		}
	}},
	{"AnAcknowledgementThatOvertakesTheNoteOfItsWriteTellsOfBoth", []Ability{Attempts}, func(e *env) {
		e.stored(e.note("x"), "r")
		e.s.Seen([]mailbox.Seen{{App: App, Recipient: "r", Device: "phone", At: e.clock.Now()}})
		pos := e.posOf("r", "x")
		e.acksFrom("r", "x", "phone", 1)
		e.s.Mark([]mailbox.Mark{{App: App, Recipient: "r", ID: "x", Pos: pos, Attempts: 1, DeliveredAt: e.clock.Now(), Device: "phone", Over: mailbox.OverOf("ws", "phone")}})
		e.reopen()
		e.wantTried("r", "x", "0 written to phone", "0 acked by phone")
	}},
	{"EachRedeliveryAndRefusalIsTold", []Ability{Attempts}, func(e *env) {
		e.stored(e.note("x"), "r")
		want := []string{"0 written to phone", "1 refused by phone: busy", "2 written to desk", "3 written to phone", "4 refused by phone", "5 acked by desk"}
		e.wrote("r", "x", "phone", 1)
		e.step()
		e.refuses("r", "x", "phone", "busy")
		e.wantTried("r", "x", want[:2]...) // before it is written
		e.step()
		e.wrote("r", "x", "desk", 2)
		e.reopen() // which writes what is noted
		e.wantTried("r", "x", want[:3]...)
		e.step()
		e.wrote("r", "x", "phone", 3)
		e.crowd()
		e.reopen()
		e.step()
		e.refuses("r", "x", "phone", "")
		e.step()
		e.reopen() // since a note that is being written may be lost
		e.acksFrom("r", "x", "desk", 3)
		for range 2 {
			e.wantTried("r", "x", want...)
			e.crowd()
			e.reopen()
		}
	}},
	{"WhatWasTriedForWhatEndsOtherwiseIsTold", []Ability{Attempts, Collapse, Recall}, func(e *env) {
		e.stored(e.note("expires", ttl(2*time.Second)), "r")
		e.stored(e.note("old", collapse("k")), "r")
		e.stored(e.note("recalled"), "r")
		e.stored(e.note("none", ack(notification.AckNone)), "r")
		for _, id := range []string{"expires", "old", "recalled", "none"} {
			e.wrote("r", id, "", 1)
		}
		q := &mailbox.Settle{Recipient: "r", ID: "none", As: notification.Delivered, Over: mailbox.OverOf("ws", ""), Attempts: 1}
		if got := e.settleWith(q); got != mailbox.SettleDone {
			e.Fatalf("settled by its delivery: outcome %d", got)
		}
		e.step()
		e.stored(e.note("new", collapse("k")), "r")
		e.ends("r", "recalled", notification.Recalled, mailbox.SettleDone)
		e.step()
		if _, err := e.s.Expire(e.Context(), e.clock.Now()); err != nil {
			e.Fatal(err)
		}
		for range 2 {
			for id, as := range map[string]notification.Status{
				"expires": notification.Expired, "old": notification.Replaced, "recalled": notification.Recalled, "none": notification.Delivered,
			} {
				e.wantStatus("r", id, as)
				e.wantTried("r", id, "0 written to ")
			}
			e.crowd()
			e.reopen()
		}
	}},
	{"WhoAcknowledgesOfSeveralIsToldOneByOne", []Ability{Attempts, AckAll}, func(e *env) {
		e.stored(e.note("x", ack(notification.AckAll)), "r")
		e.seen("phone")
		e.seen("desk")
		e.wrote("r", "x", "phone", 1)
		e.wrote("r", "x", "desk", 1)
		e.step()
		e.deviceAck("x", "desk", mailbox.SettlePartial)
		e.step()
		e.deviceAck("x", "phone", mailbox.SettleDone)
		e.reopen()
		e.wantTried("r", "x", "0 written to phone", "0 written to desk", "1 acked by desk", "2 acked by phone")
	}},
	{"WhatWasTriedIsBounded", []Ability{Attempts}, func(e *env) {
		e.stored(e.note("x"), "r")
		pos := e.posOf("r", "x")
		for i := range 40 {
			for n := range 20 {
				e.clock.Advance(time.Millisecond)
				e.wroteAt(pos, "r", "x", "a device with quite a long name", uint32(i*20+n+1))
			}
			if i%8 == 0 {
				e.reopen()
			}
		}
		e.step()
		e.acksFrom("r", "x", "phone", 800)
		e.reopen()
		r := e.record("r", "x")
		if n := len(r.Tried); n < 16 || n > 200 || r.Tried[n-1].What != mailbox.Acked || r.Attempts != 800 {
			e.Errorf("%d of %d attempts are told, the last is %+v", n, r.Attempts, r.Tried[max(0, n-1)])
		}
	}},
	{"WhatWasTriedGoesWithItsRecipient", []Ability{Attempts}, func(e *env) {
		e.stored(e.note("x"), "r", "s")
		e.wrote("r", "x", "phone", 1)
		e.reopen()
		if err := e.s.Erase(e.Context(), App, "r"); err != nil {
			e.Fatal(err)
		}
		e.stored(e.note("x"), "r")
		e.wantTried("r", "x")
		e.wrote("r", "x", "desk", 1)
		e.wantTried("r", "x", "0 written to desk")
	}},
	{"APublishToManyTellsOfEach", []Ability{Attempts}, func(e *env) {
		to := make([]string, 700)
		for i := range to {
			to[i] = fmt.Sprint("r", i)
		}
		e.stored(e.note("x"), to...)
		stored := e.rec.All().Stored
		var marks []mailbox.Mark
		var acks []*mailbox.Settle
		e.step()
		for i := range stored {
			it := &stored[i]
			device := fmt.Sprint("phone", it.Seq)
			e.s.Seen([]mailbox.Seen{{App: App, Recipient: it.Recipient, Device: device, At: e.clock.Now()}})
			marks = append(marks, mailbox.Mark{App: App, Recipient: it.Recipient, ID: "x", Pos: it.Pos, Attempts: 1, DeliveredAt: e.clock.Now(), Device: device, Over: mailbox.OverOf("grpc", device)})
			acks = append(acks, &mailbox.Settle{
				App: App, Recipient: it.Recipient, ID: "x", Pos: it.Pos, As: notification.Acked, Device: device, Over: mailbox.OverOf("grpc", device), Attempts: 1, At: e.clock.Now(),
			})
		}
		e.s.Mark(marks)
		if err := e.s.Settle(e.Context(), acks); err != nil {
			e.Fatal(err)
		}
		e.reopen()
		all, err := e.s.Lookup(e.Context(), App, "x", "") // a lookup of all counts the attempts but names none
		if err != nil || len(all) != len(to) {
			e.Fatalf("%d of %d copies are found, %v", len(all), len(to), err)
		}
		for i := range all {
			if r := &all[i]; r.Status != notification.Acked || r.Attempts != 1 || len(r.Tried) != 0 {
				e.Errorf("the copy of %s is %s after %d attempts, of which %d are named", r.To, r.Status, r.Attempts, len(r.Tried))
			}
		}
		for _, name := range to {
			e.wantTried(name, "x", "1 written to phone1 over grpc", "1 acked by phone1 over grpc")
		}
	}},
}
