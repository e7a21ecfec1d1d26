package storetest

import (
	"errors"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// wantDuplicate publishes a notification again and expects a duplicate with the first one's status.
func (e *env) wantDuplicate(n *notification.Notification, to string, status notification.Status) mailbox.AppendResult {
	e.Helper()
	told := len(e.rec.All().Stored)
	res := e.publish(n, to)[0]
	if res.Err != nil || !res.Duplicate || res.Status != status {
		e.Fatalf("%s to %s again: %+v, want a duplicate that is %s", n.ID, to, res, status)
	}
	if len(e.rec.All().Stored) != told {
		e.Fatal("the observer was told of a duplicate")
	}
	return res
}

var dedupCases = []testCase{
	{"TheSameIdWhilePendingIsADuplicate", []Ability{Dedup}, func(e *env) {
		first := e.note("x")
		e.stored(first, "r")
		e.clock.Advance(time.Minute)
		for range 2 {
			res := e.wantDuplicate(e.note("x", ttl(5*time.Hour), priority(notification.High)), "r", notification.Stored)
			if !res.ExpiresAt.Equal(first.ExpiresAt) {
				e.Errorf("expires %s, want the first's %s", res.ExpiresAt, first.ExpiresAt)
			}
			e.reopen()
		}
		if it := e.wantPending("r", "x")[0]; it.N.Priority != notification.Normal {
			e.Error("the duplicate changed the first")
		}
		e.stored(e.note("x"), "s")
	}},
	{"ADuplicateTellsWhereTheFirstStands", []Ability{Dedup}, func(e *env) {
		e.stored(e.note("later", sendAfter(time.Minute, time.Hour)), "r")
		e.wantDuplicate(e.note("later"), "r", notification.Scheduled)
		e.stored(e.note("x"), "r")
		e.acked("r", "x")
		e.wantDuplicate(e.note("x"), "r", notification.Acked)
		e.stored(e.note("short", ttl(time.Second)), "r")
		e.clock.Advance(time.Second)
		e.wantDuplicate(e.note("short"), "r", notification.Expired)
		e.expire()
		e.wantDuplicate(e.note("short"), "r", notification.Expired)
		e.stored(e.note("none", ack(notification.AckNone)), "r")
		e.settleWith(&mailbox.Settle{Recipient: "r", ID: "none", As: notification.Delivered, DeliveredAt: e.clock.Now()})
		e.wantDuplicate(e.note("none"), "r", notification.Delivered)
	}},
	{"OtherContentUnderTheSameIdIsAConflict", []Ability{Dedup}, func(e *env) {
		e.stored(e.note("x"), "r")
		for name, c := range map[string]change{
			"title":    title("other"),
			"body":     func(n *notification.Notification) { n.Content.Body = "other" },
			"category": func(n *notification.Notification) { n.Content.Category = "other" },
			"data":     func(n *notification.Notification) { n.Content.Data = []byte("other") },
			"shifted":  func(n *notification.Notification) { n.Content.Title, n.Content.Body = "TB", "" },
		} {
			res := e.publish(e.note("x", c), "r", "s-"+name)
			if !errors.Is(res[0].Err, mailbox.ErrConflict) || res[1].Err != nil {
				e.Errorf("other %s: %+v, want a conflict for the first and the second stored", name, res)
			}
		}
		e.acked("r", "x")
		if res := e.publish(e.note("x", title("other")), "r"); !errors.Is(res[0].Err, mailbox.ErrConflict) {
			e.Errorf("after settling: %v, want a conflict", res[0].Err)
		}
	}},
	{"AnIdMayBeUsedAgainADayAfterItSettled", []Ability{Dedup, Status}, func(e *env) {
		e.stored(e.note("x"), "r")
		e.clock.Advance(time.Minute)
		e.acked("r", "x")
		e.clock.Advance(notification.DedupWindow)
		e.wantDuplicate(e.note("x"), "r", notification.Acked)
		e.clock.Advance(time.Millisecond)
		e.stored(e.note("x", title("new")), "r")
		rec := e.wantStatus("r", "x", notification.Stored)
		if rec.Seq != 2 {
			e.Errorf("seq %d, want 2", rec.Seq)
		}
		if got, _ := e.history("r", 0, 10, 0); len(got) != 1 {
			e.Errorf("history %v, want the new one alone", got)
		}
		e.wantDuplicate(e.note("x", title("new")), "r", notification.Stored)
	}},
	{"TheSameIdTwiceInOneBatchIsADuplicate", []Ability{Dedup}, func(e *env) {
		a := &mailbox.Append{N: e.note("x"), To: []string{"r"}}
		b := &mailbox.Append{N: e.note("x"), To: []string{"r"}}
		c := &mailbox.Append{N: e.note("x", title("other")), To: []string{"r"}}
		if err := e.s.Append(e.Context(), []*mailbox.Append{a, b, c}); err != nil {
			e.Fatal(err)
		}
		if a.Results[0].Duplicate || !b.Results[0].Duplicate || !errors.Is(c.Results[0].Err, mailbox.ErrConflict) {
			e.Errorf("%+v, %+v, %+v", a.Results, b.Results, c.Results)
		}
		e.wantPending("r", "x")
	}},
	{"DuplicatesAreKnownHoweverManyCameBetween", []Ability{Dedup}, func(e *env) {
		e.stored(e.note("x"), "r")
		e.stored(e.note("y"), "r")
		e.acked("r", "y")
		var to []string
		for i := range 400 {
			to = append(to, fmt.Sprint("filler", i))
		}
		for i := range 5 {
			e.stored(e.note(fmt.Sprint("filler", i)), to...)
		}
		for range 2 {
			e.wantDuplicate(e.note("x"), "r", notification.Stored)
			e.wantDuplicate(e.note("y"), "r", notification.Acked)
			if res := e.publish(e.note("y", title("other")), "r"); !errors.Is(res[0].Err, mailbox.ErrConflict) {
				e.Errorf("%v, want a conflict", res[0].Err)
			}
			e.ends("r", "y", notification.Acked, mailbox.SettleAlready)
			e.wantDuplicate(e.note("filler2"), "filler77", notification.Stored)
			e.reopen()
		}
		e.acked("r", "x")
	}},
	{"WhatIsRefusedIsStillADuplicateOfWhatIsStored", []Ability{Dedup, Status}, func(e *env) {
		lapsed := errors.New("lies in the past")
		refused := func(n *notification.Notification, to ...string) []mailbox.AppendResult {
			a := &mailbox.Append{N: n, To: to, Refused: lapsed}
			if err := e.s.Append(e.Context(), []*mailbox.Append{a}); err != nil {
				e.Fatal(err)
			}
			return a.Results
		}
		e.stored(e.note("x", collapse("k")), "r")
		e.stored(e.note("y", ttl(time.Second)), "r")
		e.clock.Advance(time.Second)
		for _, id := range []string{"x", "y"} {
			res := refused(e.note(id, ttl(-time.Minute), collapse("k")), "r", "s")
			if r := res[0]; !r.Duplicate || r.Err != nil {
				e.Errorf("%s that is stored: %+v, want a duplicate", id, r)
			}
			if r := res[1]; r.Duplicate || !errors.Is(r.Err, lapsed) {
				e.Errorf("%s that is not stored: %+v, want it refused", id, r)
			}
		}
		if r := refused(e.note("x", title("other")), "r")[0]; !errors.Is(r.Err, mailbox.ErrConflict) {
			e.Errorf("other content: %+v, want a conflict", r)
		}
		if r := refused(e.note("z", collapse("k")), "r")[0]; !errors.Is(r.Err, lapsed) {
			e.Errorf("an id that is not stored: %+v, want it refused", r)
		}
		e.wantPending("r", "x")
		e.acked("r", "x")
		e.clock.Advance(notification.DedupWindow + time.Millisecond)
		if r := refused(e.note("x"), "r")[0]; !errors.Is(r.Err, lapsed) {
			e.Errorf("an id that is free again: %+v, want it refused", r)
		}
		e.wantStatus("r", "x", notification.Acked)
		if recs, err := e.s.Lookup(e.Context(), App, "x", "s"); len(recs) > 0 {
			e.Errorf("a refused copy is there: %+v, %v", recs, err)
		}
	}},
	{"AFreshIdIsStoredUnchecked", nil, func(e *env) {
		a := &mailbox.Append{N: e.note("01J"), To: []string{"r", "s"}, Fresh: true}
		if err := e.s.Append(e.Context(), []*mailbox.Append{a}); err != nil || a.Results[0].Err != nil || a.Results[1].Err != nil {
			e.Fatalf("%+v, %v", a.Results, err)
		}
		e.wantPending("s", "01J")
	}},
}
