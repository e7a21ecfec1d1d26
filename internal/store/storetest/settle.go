package storetest

import (
	"fmt"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/eventually"
)

var settleCases = []testCase{
	{"OfSeveralAcknowledgementsAtOnceTheOneThatSettlesTellsTheTime", []Ability{Status}, func(e *env) {
		for i := range 20 {
			id := fmt.Sprint("x", i)
			e.stored(e.note(id), "r")
			now := e.clock.Now()
			var acks []*mailbox.Settle
			for n, device := range []string{"a", "b", "c"} {
				at := now.Add(time.Duration((n*7+i)%5) * time.Second)
				acks = append(acks, &mailbox.Settle{App: App, Recipient: "r", ID: id, Pos: e.posOf("r", id), As: notification.Acked, Device: device, At: at})
			}
			if err := e.s.Settle(e.Context(), acks); err != nil {
				e.Fatal(err)
			}
			done := 0
			for _, q := range acks {
				if q.Outcome != mailbox.SettleDone {
					continue
				}
				done++
				if rec := e.wantStatus("r", id, notification.Acked); !rec.SettledAt.Equal(q.At) {
					e.Errorf("%s settled at %s, want %s, when %s did it", id, rec.SettledAt, q.At, q.Device)
				}
			}
			if done != 1 {
				e.Errorf("%d acknowledgements settled %s", done, id)
			}
		}
	}},
	{"AnAckSettlesForEver", nil, func(e *env) {
		e.stored(e.note("x"), "r")
		e.acked("r", "x")
		e.wantPending("r")
		e.ends("r", "x", notification.Acked, mailbox.SettleAlready)
		e.ends("r", "x", notification.Recalled, mailbox.SettleAlready)
		e.reopen()
		e.wantPending("r")
		e.ends("r", "x", notification.Acked, mailbox.SettleAlready)
		if n := len(e.rec.All().Settled); n != 1 {
			e.Errorf("the observer was told of %d settles, want 1", n)
		}
	}},
	{"WhatIsUnknownIsNotSettled", nil, func(e *env) {
		e.stored(e.note("x"), "r")
		pos := e.rec.All().Stored[0].Pos
		for _, q := range []*mailbox.Settle{
			{Recipient: "r", ID: "y"},
			{Recipient: "s", ID: "x"},
			{Recipient: "s", ID: "x", Pos: pos},
			{App: "other", Recipient: "r", ID: "x"},
			{Recipient: "r", ID: "x", Pos: pos + 1},
		} {
			q.As = notification.Acked
			if got := e.settleWith(q); got != mailbox.SettleUnknown {
				e.Errorf("settle %s/%s/%s at %d: outcome %d, want unknown", q.App, q.Recipient, q.ID, q.Pos, got)
			}
		}
		e.wantPending("r", "x")
		e.acked("r", "x")
		if got := e.settleWith(&mailbox.Settle{Recipient: "r", ID: "y", Pos: pos, As: notification.Acked}); got != mailbox.SettleUnknown {
			e.Errorf("another id at a settled position: outcome %d, want unknown", got)
		}
	}},
	{"SettlingByPositionEqualsSettlingById", nil, func(e *env) {
		e.stored(e.note("x"), "r")
		pos := e.rec.All().Stored[0].Pos
		q := &mailbox.Settle{Recipient: "r", ID: "x", Pos: pos, As: notification.Acked, Device: "phone"}
		if got := e.settleWith(q); got != mailbox.SettleDone {
			e.Fatalf("outcome %d, want done", got)
		}
		if got := e.settleWith(q); got != mailbox.SettleAlready {
			e.Fatalf("outcome %d, want already", got)
		}
		if s := e.rec.All().Settled[0]; s.Device != "phone" || s.Pos != pos || !s.At.Equal(e.clock.Now()) {
			e.Errorf("the observer was told %+v", s)
		}
	}},
	{"TwoSettlesInOneBatchEndACopyOnce", nil, func(e *env) {
		e.stored(e.note("x"), "r")
		a := &mailbox.Settle{App: App, Recipient: "r", ID: "x", As: notification.Acked, At: e.clock.Now()}
		b := *a
		if err := e.s.Settle(e.Context(), []*mailbox.Settle{a, &b}); err != nil {
			e.Fatal(err)
		}
		if a.Outcome != mailbox.SettleDone || b.Outcome != mailbox.SettleAlready {
			e.Errorf("outcomes %d and %d, want done and already", a.Outcome, b.Outcome)
		}
	}},
	{"SettleLaterSettlesSoonWithoutAPublishToRideOn", nil, func(e *env) {
		e.stored(e.note("x"), "r")
		e.s.SettleLater([]*mailbox.Settle{{App: App, Recipient: "r", ID: "x", As: notification.Acked, At: e.clock.Now()}})
		eventually.True(e, "settling", func() bool { return len(e.rec.All().Settled) == 1 })
		e.wantPending("r")
	}},
	{"SettleLaterIsNotLostByClosing", nil, func(e *env) {
		e.stored(e.note("x"), "r")
		e.s.SettleLater([]*mailbox.Settle{{App: App, Recipient: "r", ID: "x", As: notification.Acked, At: e.clock.Now()}})
		e.reopen()
		e.wantPending("r")
	}},
	{"WithoutAckTheFirstWriteSettles", []Ability{Status}, func(e *env) {
		e.stored(e.note("x", ack(notification.AckNone)), "r")
		q := &mailbox.Settle{Recipient: "r", ID: "x", As: notification.Delivered, DeliveredAt: e.clock.Now(), Attempts: 1}
		if got := e.settleWith(q); got != mailbox.SettleDone {
			e.Fatalf("outcome %d, want done", got)
		}
		e.wantPending("r")
		rec := e.wantStatus("r", "x", notification.Delivered)
		if rec.SettledAt.IsZero() || rec.DeliveredAt.IsZero() || rec.Attempts != 1 {
			e.Errorf("record %+v", rec)
		}
	}},
	{"AnAckOfWhatNobodyMustAckMeansDelivered", []Ability{Status}, func(e *env) {
		e.stored(e.note("x", ack(notification.AckNone)), "r")
		e.ends("r", "x", notification.Acked, mailbox.SettleDone)
		e.wantPending("r")
		if rec := e.wantStatus("r", "x", notification.Delivered); rec.SettledAt.IsZero() || rec.DeliveredAt.IsZero() {
			e.Errorf("record %+v", rec)
		}
	}},
	{"DeliveredDoesNotSettleWhatAsksForAnAck", []Ability{Status}, func(e *env) {
		e.stored(e.note("x"), "r")
		q := &mailbox.Settle{Recipient: "r", ID: "x", As: notification.Delivered, DeliveredAt: e.clock.Now(), Attempts: 1}
		if got := e.settleWith(q); got == mailbox.SettleDone {
			e.Error("a mere delivery settled it")
		}
		e.wantPending("r", "x")
		e.wantStatus("r", "x", notification.Delivered)
	}},
	{"NacksSetACopyAside", []Ability{Status}, func(e *env) {
		e.stored(e.note("x"), "r", "s")
		for n := 1; n < notification.MaxNacks; n++ {
			reason := ""
			if n == 2 {
				reason = "data: too deep"
			}
			e.nacked("r", "x", reason, mailbox.SettlePartial)
			e.wantPending("r", "x")
			if n == 3 {
				e.reopen()
			}
		}
		if rec := e.wantStatus("r", "x", notification.Stored); rec.Nacks != notification.MaxNacks-1 || rec.Reason != "data: too deep" {
			e.Errorf("record %+v, want it to tell of %d nacks and the reason", rec, notification.MaxNacks-1)
		}
		told := len(e.rec.All().Settled)
		e.nacked("r", "x", "title: is a number", mailbox.SettleDone)
		e.wantPending("r")
		if all := e.rec.All().Settled[told:]; len(all) != 1 || all[0].As != notification.Failed || all[0].ID != "x" {
			e.Errorf("the observer was told %+v, want that it failed", all)
		}
		e.nacked("r", "x", "", mailbox.SettleAlready)
		e.reopen()
		if rec := e.wantStatus("r", "x", notification.Failed); rec.Nacks != notification.MaxNacks || rec.Reason != "title: is a number" {
			e.Errorf("record %+v, want it to tell of %d nacks and the last reason", rec, notification.MaxNacks)
		}
		list, _, err := e.s.History(e.Context(), App, "r", notification.Failed, 10, 0)
		if err != nil || len(list) != 1 || list[0].Reason != "title: is a number" {
			e.Errorf("history %+v, %v", list, err)
		}
		e.wantPending("s", "x")
		if rec := e.wantStatus("s", "x", notification.Stored); rec.Nacks != 0 || rec.Reason != "" {
			e.Errorf("record %+v has what concerns another recipient", rec)
		}
	}},
	{"NackedAndThenAcknowledgedIsAcknowledged", nil, func(e *env) {
		e.stored(e.note("x"), "r")
		for n := 1; n < notification.MaxNacks; n++ {
			e.nacked("r", "x", "busy", mailbox.SettlePartial)
		}
		e.acked("r", "x")
		e.nacked("r", "x", "busy", mailbox.SettleAlready)
		e.wantPending("r")
	}},
	{"ANackThatComesLateLeavesWhatWasCountedBefore", []Ability{Status}, func(e *env) {
		e.stored(e.note("x"), "r")
		e.nacked("r", "x", "busy", mailbox.SettlePartial)
		since := e.clock.Now()
		e.clock.Advance(time.Hour)
		e.nacked("r", "x", "too late", mailbox.SettleLate)
		e.pruneAll(since) // it ended after since, so its record stays
		if rec := e.wantStatus("r", "x", notification.Expired); rec.Nacks != 1 || rec.Reason != "busy" {
			e.Errorf("record %+v, want it to tell of the nack that came in time", rec)
		}
	}},
	{"ARecalledOneIsNotPending", []Ability{Recall, Status}, func(e *env) {
		e.stored(e.note("x"), "r")
		e.stored(e.note("later", sendAfter(time.Hour, time.Hour)), "r")
		e.ends("r", "x", notification.Recalled, mailbox.SettleDone)
		e.ends("r", "later", notification.Recalled, mailbox.SettleDone)
		e.wantPending("r")
		e.wantStatus("r", "x", notification.Recalled)
		e.wantStatus("r", "later", notification.Recalled)
		e.ends("r", "x", notification.Acked, mailbox.SettleAlready)
		if st := e.s.Stats(); st.Pending != 0 || st.Scheduled != 0 {
			e.Errorf("stats %+v", st)
		}
	}},
	{"TheFirstDeliveryIsKeptAndCarriedByTheAck", []Ability{Status}, func(e *env) {
		e.stored(e.note("x"), "r")
		e.stored(e.note("y"), "r")
		first := e.clock.Advance(time.Second)
		marks := []mailbox.Mark{{App: App, Recipient: "r", ID: "x", Pos: e.rec.All().Stored[0].Pos, Attempts: 1, DeliveredAt: first}}
		e.s.Mark(marks)
		second := e.clock.Advance(time.Second)
		marks[0].Attempts, marks[0].DeliveredAt = 2, second
		e.s.Mark(marks)
		e.settleWith(&mailbox.Settle{Recipient: "r", ID: "x", As: notification.Acked, Attempts: 2})
		e.settleWith(&mailbox.Settle{Recipient: "r", ID: "y", As: notification.Acked, DeliveredAt: first, Attempts: 1})
		rec := e.wantStatus("r", "x", notification.Acked)
		if !rec.DeliveredAt.Equal(first) || rec.Attempts != 2 || !rec.SettledAt.Equal(e.clock.Now()) {
			e.Errorf("record %+v", rec)
		}
	}},
	{"WhereNobodyIsToAcknowledgeACopyIsNotDeliveredBeforeThatHasSettledIt", []Ability{Status}, func(e *env) {
		e.stored(e.note("x", func(n *notification.Notification) { n.Ack = notification.AckNone }), "r")
		at := e.clock.Now()
		e.s.Mark([]mailbox.Mark{{App: App, Recipient: "r", ID: "x", Pos: e.posOf("r", "x"), Attempts: 1, DeliveredAt: at, Ack: notification.AckNone}})
		for range 2 {
			if rec := e.wantStatus("r", "x", notification.Stored); !rec.DeliveredAt.IsZero() {
				e.Errorf("record %+v", rec)
			}
			e.reopen()
		}
		e.settleWith(&mailbox.Settle{Recipient: "r", ID: "x", As: notification.Delivered, DeliveredAt: at, Attempts: 1})
		if rec := e.wantStatus("r", "x", notification.Delivered); !rec.DeliveredAt.Equal(at) || rec.SettledAt.IsZero() || rec.Attempts != 1 {
			e.Errorf("record %+v", rec)
		}
	}},
	{"AMarkIsWrittenWithoutAnAck", []Ability{Status}, func(e *env) {
		e.stored(e.note("x"), "r")
		pos := e.rec.All().Stored[0].Pos
		e.s.Mark([]mailbox.Mark{{App: App, Recipient: "r", ID: "x", Pos: pos, Attempts: 1, DeliveredAt: e.clock.Now()}})
		if it := e.wantPending("r", "x")[0]; it.Attempts != 1 {
			e.Errorf("%d attempts known before they are written, want 1", it.Attempts)
		}
		e.reopen()
		rec := e.wantStatus("r", "x", notification.Delivered)
		if rec.Attempts != 1 || !rec.DeliveredAt.Equal(e.clock.Now()) {
			e.Errorf("record %+v", rec)
		}
		if it := e.wantPending("r", "x")[0]; it.Attempts != 1 {
			e.Errorf("%d attempts known, want 1", it.Attempts)
		}
		e.acked("r", "x")
	}},
	{"CollapsedOnesAreReplacedInTheSameCommit", []Ability{Collapse, Status}, func(e *env) {
		e.stored(e.note("a", collapse("k")), "r", "s")
		e.stored(e.note("other key", collapse("k2")), "r")
		e.stored(e.note("later", collapse("k"), sendAfter(time.Hour, time.Hour)), "r")
		e.wantStatus("r", "a", notification.Replaced)
		e.stored(e.note("b", collapse("k")), "r")
		e.wantPending("r", "other key", "b")
		e.wantPending("s", "a")
		e.wantStatus("r", "later", notification.Replaced)
		settled := e.rec.All().Settled
		if len(settled) != 2 || settled[0].ID != "a" || settled[0].Recipient != "r" || settled[0].As != notification.Replaced || settled[1].ID != "later" {
			e.Errorf("told of %+v", settled)
		}
		e.reopen()
		e.wantPending("r", "other key", "b")
		e.stored(e.note("c", collapse("k")), "r")
		e.wantPending("r", "other key", "c")
		e.ends("r", "b", notification.Acked, mailbox.SettleAlready)
	}},
	{"ReplacingMakesRoomInAFullMailbox", []Ability{Collapse}, func(outer *env) {
		e := newEnv(outer.T, outer.open, Options{MaxPending: 2})
		e.stored(e.note("a", collapse("k")), "r")
		e.stored(e.note("b"), "r")
		e.stored(e.note("c", collapse("k")), "r")
		e.wantPending("r", "b", "c")
	}},
}
