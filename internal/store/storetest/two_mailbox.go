package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// RunTwo tests two stores of mailboxes on one database.
func RunTwo(t *testing.T, open Two[mailbox.Store]) {
	t.Helper()
	for name, run := range map[string]func(e *env, stores [2]mailbox.Store){
		"OneRecipientHasOneRowOfSeqs":            twoCount,
		"AnIDPublishedThroughBothIsStoredOnce":   twoSameID,
		"WhatOneStoresTheOtherShowsAndSettles":   twoSettle,
		"WhatOneSchedulesTheOtherMakesDueByTime": twoDue,
		"StepsAreDueAndHandedOverThroughBoth":    twoSteps,
		"WhatEachHasTriedBothTell":               twoTries,
		"WhatDevicesOfBothAcknowledgeSettles":    twoAckModes,
		"TheLatestOfAllAcknowledgementsIsTheEnd": twoAckTimes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &env{T: t, clock: testclock.New(), rec: &Recorder{}}
			a, b := open(t, e.clock.Now)
			e.s = a
			run(e, [2]mailbox.Store{a, b})
		})
	}
}

func twoCount(e *env, stores [2]mailbox.Store) {
	const each = 40
	atOnce(4, each, func(caller, nth int) {
		a := &mailbox.Append{N: e.note(fmt.Sprintf("c%d-%d", caller, nth)), To: []string{"r", "s"}}
		if err := stores[caller%2].Append(e.Context(), []*mailbox.Append{a}); err != nil || a.Results[0].Err != nil || a.Results[1].Err != nil {
			e.Errorf("append: %v, %+v", err, a.Results)
		}
	})
	for _, s := range stores {
		for _, to := range []string{"r", "s"} {
			res, err := s.Pending(e.Context(), []mailbox.PendingQuery{{App: App, Recipient: to, Limit: 1000}})
			if err != nil || res[0].LastSeq != 4*each || len(res[0].Items) != 4*each {
				e.Fatalf("%s: %d pending up to %d, %v; want %d", to, len(res[0].Items), res[0].LastSeq, err, 4*each)
			}
			last := int64(0)
			for i, it := range res[0].Items {
				if it.Seq != uint64(i+1) || it.Pos <= last {
					e.Fatalf("%s has seq %d at %d as its %dth, after %d", to, it.Seq, it.Pos, i+1, last)
				}
				last = it.Pos
			}
		}
	}
}

func twoAckModes(e *env, stores [2]mailbox.Store) {
	for i := range stores {
		batch := e.severalOfEachMode()
		e.ackBatch(stores[i], batch, "a", i == 1)
		e.ackBatch(stores[1-i], batch, "b", i == 0)
		e.wantAllEnded(batch)
		e.clock.Advance(25 * time.Hour) // until the ids are free again
	}
}

// twoAckTimes commits the earlier acknowledgement last.
func twoAckTimes(e *env, stores [2]mailbox.Store) {
	e.stored(e.note("x", ack(notification.AckAll)), "r")
	early := e.clock.Now()
	late := early.Add(3 * time.Second)
	for i, at := range []time.Time{late, early} {
		q := &mailbox.Settle{App: App, Recipient: "r", ID: "x", As: notification.Acked, Device: fmt.Sprint("d", i), Online: []string{"d0", "d1"}, At: at}
		if err := stores[i].Settle(e.Context(), []*mailbox.Settle{q}); err != nil {
			e.Fatal(err)
		}
	}
	if rec := e.wantStatus("r", "x", notification.Acked); !rec.SettledAt.Equal(late) {
		e.Errorf("settled at %s, want %s, when the last device acknowledged", rec.SettledAt, late)
	}
}

func twoTries(e *env, stores [2]mailbox.Store) {
	e.stored(e.note("x"), "r")
	e.stored(e.note("y"), "r")
	stores[1].Seen([]mailbox.Seen{{App: App, Recipient: "r", Device: "desk", At: e.clock.Now()}})
	e.wrote("r", "x", "phone", 1)
	e.s = stores[1]
	e.wrote("r", "x", "desk", 1)
	e.wrote("r", "y", "", 1)
	e.step()
	e.acksTo(stores[1], "r", "x", "desk", 1)
	e.acksTo(stores[1], "r", "y", "", 1)
	want := []string{"0 written to desk", "0 written to phone", "1 acked by desk"}
	var got []string
	defer func() { e.Logf("told last: %q", got) }()
	for _, s := range stores {
		e.s = s
		eventually.True(e, "each tells of what both have tried", func() bool {
			r := e.record("r", "x")
			got = said(&r)
			slices.Sort(got)
			return slices.Equal(got, want)
		})
		e.wantTried("r", "y", "0 written to ", "1 acked by ")
	}
}

func twoSameID(e *env, stores [2]mailbox.Store) {
	for round := range 20 {
		var mu sync.Mutex
		stored, duplicates, conflicts := 0, 0, 0
		id := fmt.Sprint("same", round)
		atOnce(4, 1, func(caller, _ int) {
			a := &mailbox.Append{N: e.note(id, title(fmt.Sprint(caller/3))), To: []string{"r"}} // the last one differs
			if err := stores[caller%2].Append(e.Context(), []*mailbox.Append{a}); err != nil {
				e.Errorf("append: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			switch r := a.Results[0]; {
			case errors.Is(r.Err, mailbox.ErrConflict):
				conflicts++
			case r.Err == nil && r.Duplicate:
				duplicates++
			case r.Err == nil:
				stored++
			default:
				e.Errorf("append: %v", r.Err)
			}
		})
		if stored != 1 || stored+duplicates+conflicts != 4 || conflicts != 1 && conflicts != 3 {
			e.Fatalf("%s: %d stored, %d duplicates, %d conflicts", id, stored, duplicates, conflicts)
		}
	}
}

func twoSettle(e *env, stores [2]mailbox.Store) {
	for i, s := range stores {
		other := stores[1-i]
		id := fmt.Sprint("n", i)
		e.s = s
		e.stored(e.note(id), "r")
		e.s = other
		e.wantPending("r", id)
		e.wantStatus("r", id, notification.Stored)
		e.acked("r", id)
		e.s = s
		e.wantPending("r")
		e.wantStatus("r", id, notification.Acked)
		e.ends("r", id, notification.Acked, mailbox.SettleAlready)
	}
}

func twoDue(e *env, stores [2]mailbox.Store) {
	e.stored(e.note("later", sendAfter(10*time.Second, time.Minute)), "r")
	e.s = stores[1]
	e.clock.Advance(10 * time.Second)
	e.due()
	e.wantPending("r", "later")
	e.clock.Advance(time.Minute)
	e.expire()
	e.s = stores[0]
	e.wantStatus("r", "later", notification.Expired)
}

func twoSteps(e *env, stores [2]mailbox.Store) {
	start := e.clock.Now()
	for _, s := range stores {
		s.Observe(e.rec)
	}
	at := func(i int) { e.s = stores[i] }
	e.stored(e.note("x", steps("fcm", "chat")), "r", "s")
	at(1)
	e.stored(e.note("away", steps("fcm", "chat")), "t")
	at(0)
	e.escalator().Hurry(e.refs()[2:])
	at(1)
	due, _ := e.wantSteps("t away fcm")
	e.handedOver(due, false)
	at(0)
	e.acked("t", "away")
	e.clock.Advance(3 * time.Second)
	for i := range stores {
		at(i)
		due, _ = e.wantSteps("r x fcm", "s x fcm")
	}
	at(0)
	e.acked("s", "x")
	atOnce(4, 1, func(caller, _ int) {
		done := []mailbox.StepDone{{Ref: mailbox.Ref{App: App, Recipient: "s", Pos: due[1].Pos}}, {Ref: mailbox.Ref{App: App, Recipient: "r", Pos: due[0].Pos}}}
		if err := stores[caller%2].(mailbox.Escalator).HandedOver(e.Context(), done, e.clock.Now()); err != nil {
			e.Errorf("handed over: %v", err)
		}
	})
	for i := range stores {
		at(i)
		if _, next := e.wantSteps(); !next.Equal(start.Add(7 * time.Second)) {
			e.Errorf("come again at %s, want %s", next, start.Add(7*time.Second))
		}
	}
	e.clock.Advance(4 * time.Second)
	e.wantSteps("r x chat")
	at(0)
	e.ends("r", "x", notification.Recalled, mailbox.SettleDone)
	at(1)
	e.wantSteps()
}
