package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

func (e *env) history(to string, status notification.Status, limit int, cursor int64) ([]string, int64) {
	e.Helper()
	items, next, err := e.s.History(e.Context(), App, to, status, limit, cursor)
	if err != nil {
		e.Fatalf("history of %s: %v", to, err)
	}
	var ids []string
	for _, it := range items {
		if it.To != to {
			e.Errorf("history of %s has a record of %s", to, it.To)
		}
		ids = append(ids, it.ID)
	}
	return ids, next
}

// pruneAll calls Prune until a pass is complete.
func (e *env) pruneAll(since time.Time) {
	e.Helper()
	for more := true; more; {
		var err error
		if more, err = e.s.Prune(e.Context(), since); err != nil {
			e.Fatalf("prune: %v", err)
		}
	}
}

func notFound(err error) bool { return errors.Is(err, mailbox.ErrNotFound) }

var listCases = []testCase{
	{"LookupShowsEveryCopyOrOne", []Ability{Status}, func(e *env) {
		n := e.note("x", priority(notification.Low), ack(notification.AckAll))
		e.stored(n, "r", "s")
		e.stored(e.note("y"), "r")
		e.clock.Advance(time.Minute)
		e.ends("s", "x", notification.Failed, mailbox.SettleDone)
		recs, err := e.s.Lookup(e.Context(), App, "x", "")
		if err != nil || len(recs) != 2 {
			e.Fatalf("%+v, %v", recs, err)
		}
		r, s := recs[0], recs[1]
		if r.To != "r" || r.ID != "x" || r.Status != notification.Stored || r.Priority != n.Priority || r.Ack != n.Ack || r.Seq != 1 ||
			!r.CreatedAt.Equal(n.CreatedAt) || !r.ExpiresAt.Equal(n.ExpiresAt) || !r.SettledAt.IsZero() || !r.DeliveredAt.IsZero() || !r.SendAt.IsZero() {
			e.Errorf("the open one: %+v", r)
		}
		if s.To != "s" || s.Status != notification.Failed || !s.SettledAt.Equal(e.clock.Now()) {
			e.Errorf("the settled one: %+v", s)
		}
		if s, ok := e.s.(mailbox.Copies); ok {
			for limit, want := range map[int]int{1: 1, 2: 2, 10: 2} {
				if recs, err := s.Copies(e.Context(), App, "x", limit); err != nil || len(recs) != want || recs[0].To != "r" {
					e.Errorf("at most %d copies: %+v, %v; want %d", limit, recs, err, want)
				}
			}
			if _, err := s.Copies(e.Context(), App, "z", 1); !notFound(err) {
				e.Errorf("copies of nothing: %v", err)
			}
		}
		for _, q := range [][2]string{{"z", ""}, {"x", "t"}, {"y", "s"}} {
			if recs, err := e.s.Lookup(e.Context(), App, q[0], q[1]); len(recs) != 0 || err != nil && !notFound(err) {
				e.Errorf("look up %s of %q: %v, %v", q[0], q[1], recs, err)
			}
		}
	}},
	{"HistoryIsPagedNewestFirst", []Ability{Status}, func(e *env) {
		var want []string
		var batch []*mailbox.Append
		var acks []*mailbox.Settle
		for i := range 150 {
			id := fmt.Sprint("n", i)
			batch = append(batch, &mailbox.Append{N: e.note(id), To: []string{"r", fmt.Sprint("other", i%7)}})
			want = append(want, id)
			if i%5 == 0 {
				acks = append(acks, e.ackOf("r", id))
			}
		}
		e.storedAtOnce(batch...)
		e.ackedAtOnce(acks...)
		slices.Reverse(want)
		for range 2 {
			var got []string
			for cursor, pages := int64(0), 0; pages == 0 || cursor != 0; pages++ {
				var page []string
				page, cursor = e.history("r", 0, 40, cursor)
				got = append(got, page...)
			}
			wantIDs(e, "history", got, want)
			acked, _ := e.history("r", notification.Acked, 3, 0)
			wantIDs(e, "acked", acked, []string{"n145", "n140", "n135"})
			if none, next := e.history("nobody", 0, 10, 0); len(none) != 0 || next != 0 {
				e.Errorf("history of nobody: %v, %d", none, next)
			}
			e.reopen()
		}
	}},
	{"RecipientsAreListedByName", nil, func(e *env) {
		e.stored(e.note("a"), "carol", "alice", "bob")
		e.stored(e.note("b"), "bob")
		e.stored(e.note("c", sendAfter(time.Hour, time.Hour)), "bob")
		e.acked("alice", "a")
		at := e.clock.Advance(time.Minute)
		e.s.Seen([]mailbox.Seen{{App: App, Recipient: "bob", At: at}, {App: App, Recipient: "bob", Device: "tv", At: at}, {App: App, Recipient: "dave", Device: "car", At: at}})
		e.reopen()
		var names []string
		for cursor, first := "", true; first || cursor != ""; first = false {
			items, next, err := e.s.Recipients(e.Context(), App, 2, cursor)
			if err != nil || len(items) > 2 {
				e.Fatalf("%d items, %v", len(items), err)
			}
			for _, it := range items {
				names = append(names, it.Name)
			}
			cursor = next
		}
		wantIDs(e, "names", names, []string{"alice", "bob", "carol", "dave"})
		bob, err := e.s.Recipient(e.Context(), App, "bob")
		if err != nil || bob.Name != "bob" || bob.Pending != 2 || bob.LastSeq != 2 || !bob.LastSeen.Equal(at) || !slices.Equal(bob.Devices, []string{"tv"}) {
			e.Errorf("bob: %+v, %v", bob, err)
		}
		if dave, err := e.s.Recipient(e.Context(), App, "dave"); err != nil || dave.LastSeq != 0 || !slices.Equal(dave.Devices, []string{"car"}) {
			e.Errorf("dave, who was only seen: %+v, %v", dave, err)
		}
		if _, err := e.s.Recipient(e.Context(), App, "nobody"); !notFound(err) {
			e.Errorf("nobody: %v, want not found", err)
		}
		if _, err := e.s.Recipient(e.Context(), "other", "bob"); !notFound(err) {
			e.Errorf("bob of another app: %v, want not found", err)
		}
	}},
	{"WhoWasJustSeenIsKnownAtOnce", nil, func(e *env) {
		e.s.Seen([]mailbox.Seen{{App: App, Recipient: "r", Device: "phone", At: e.clock.Now()}})
		info, err := e.s.Recipient(e.Context(), App, "r")
		if err != nil || !info.LastSeen.Equal(e.clock.Now()) || !slices.Equal(info.Devices, []string{"phone"}) {
			e.Errorf("%+v, %v", info, err)
		}
	}},
	{"PruneDeletesWhatSettledLongAgoAndNothingElse", []Ability{Status}, func(e *env) {
		e.stored(e.note("open"), "r", "s")
		var batch []*mailbox.Append
		var acks []*mailbox.Settle
		for i := range 200 {
			id := fmt.Sprint("old", i)
			batch = append(batch, &mailbox.Append{N: e.note(id), To: []string{"r"}})
			if i != 100 {
				acks = append(acks, e.ackOf("r", id))
			}
		}
		e.storedAtOnce(batch...)
		e.ackedAtOnce(acks...)
		e.acked("s", "open")
		since := e.clock.Advance(time.Hour / 2)
		e.stored(e.note("young"), "r")
		e.acked("r", "young")
		e.pruneAll(since)
		for range 2 {
			got, _ := e.history("r", 0, 1000, 0)
			wantIDs(e, "history", got, []string{"young", "old100", "open"})
			got, _ = e.history("s", 0, 1000, 0)
			wantIDs(e, "history", got, nil)
			e.wantPending("r", "open", "old100")
			e.reopen()
		}
		e.stored(e.note("old3"), "r")
		if seq := e.record("r", "old3").Seq; seq != 203 {
			e.Errorf("seq %d after pruning, want 203", seq)
		}
		e.clock.Advance(time.Hour)
		e.ends("r", "old3", notification.Acked, mailbox.SettleLate)
		e.expire()
		e.pruneAll(e.clock.Advance(time.Hour))
		e.reopen()
		e.stored(e.note("first"), "r")
		if rec := e.record("r", "first"); rec.Seq != 204 {
			e.Errorf("seq %d after everything was pruned, want 204", rec.Seq)
		}
	}},
	{"PositionsAreNotGivenOutAgain", []Ability{Crash}, func(e *env) {
		e.stored(e.note("a"), "r")
		e.acked("r", "a")
		e.pruneAll(e.clock.Advance(time.Hour))
		e.reopen()
		e.stored(e.note("b"), "r")
		if err := e.s.Erase(e.Context(), App, "r"); err != nil {
			e.Fatal(err)
		}
		e.reopen()
		e.stored(e.note("c"), "r")
		last := int64(0)
		for _, it := range e.rec.All().Stored {
			if it.Pos <= last {
				e.Errorf("%s is at %d, which is not after %d", it.N.ID, it.Pos, last)
			}
			last = it.Pos
		}
		if err := e.s.Erase(e.Context(), App, "r"); err != nil || e.o.Crash == nil {
			return
		}
		s := e.o.Crash()
		if err := s.Append(e.Context(), []*mailbox.Append{{N: e.note("d"), To: []string{"r"}}}); err != nil {
			e.Fatal(err)
		}
		if recs, err := s.Lookup(e.Context(), App, "d", "r"); err != nil || recs[0].Pos <= last {
			e.Errorf("after a crash: %+v, %v; want a position after %d", recs, err, last)
		}
	}},
	{"AnErasedRecipientIsForgotten", []Ability{Status}, func(e *env) {
		var batch []*mailbox.Append
		var acks []*mailbox.Settle
		for i := range 120 {
			id := fmt.Sprint("n", i)
			batch = append(batch, &mailbox.Append{N: e.note(id), To: []string{"r", "s"}})
			if i%2 == 0 {
				acks = append(acks, e.ackOf("r", id))
			}
		}
		e.storedAtOnce(batch...)
		e.ackedAtOnce(acks...)
		e.stored(e.note("later", sendAfter(time.Second, time.Hour)), "r")
		e.s.Seen([]mailbox.Seen{{App: App, Recipient: "r", Device: "phone", At: e.clock.Now()}})
		if err := e.s.Erase(e.Context(), App, "r"); err != nil {
			e.Fatal(err)
		}
		check := func() {
			e.Helper()
			e.wantPending("r")
			if got, _ := e.history("r", 0, 10, 0); len(got) != 0 {
				e.Errorf("history %v", got)
			}
			if _, err := e.s.Recipient(e.Context(), App, "r"); !notFound(err) {
				e.Errorf("recipient: %v, want not found", err)
			}
			if recs, err := e.s.Lookup(e.Context(), App, "n1", ""); err != nil || len(recs) != 1 || recs[0].To != "s" {
				e.Errorf("lookup: %+v, %v; want the other's copy alone", recs, err)
			}
			if n := len(e.pending(mailbox.PendingQuery{Recipient: "s", Limit: 1000}).Items); n != 120 {
				e.Errorf("the other has %d pending, want 120", n)
			}
			if st := e.s.Stats(); st.Pending != 120 || st.Scheduled != 0 {
				e.Errorf("stats %+v", st)
			}
		}
		check()
		e.reopen()
		check()
		e.clock.Advance(time.Second)
		e.due()
		e.stored(e.note("n1"), "r")
		if it := e.wantPending("r", "n1")[0]; it.Seq != 1 {
			e.Errorf("seq %d after erasing, want 1", it.Seq)
		}
		if err := e.s.Erase(e.Context(), App, "nobody"); !notFound(err) {
			e.Errorf("erasing nobody: %v, want not found", err)
		}
	}},
	{"WhatHasChangedLatelyIsListedWhoeverItWasFor", []Ability{Status}, func(e *env) {
		var batch []*mailbox.Append
		var acks []*mailbox.Settle
		for i := range 300 {
			to, id := fmt.Sprint("r", i), fmt.Sprint("old", i)
			batch = append(batch, &mailbox.Append{N: e.note(id, ttl(24*time.Hour)), To: []string{to}})
			if i%3 == 0 {
				acks = append(acks, e.ackOf(to, id))
			}
		}
		e.storedAtOnce(batch...)
		e.ackedAtOnce(acks...)
		e.stored(e.note("overdue", ttl(time.Minute)), "r1")
		since := e.clock.Advance(time.Hour)
		e.wantChanged(since)
		e.stored(e.note("young"), "r1", "new")
		e.stored(e.note("theirs", app("other")), "r1")
		e.acked("r1", "old1")
		at := e.clock.Advance(time.Minute)
		e.ends("r299", "old299", notification.Failed, mailbox.SettleDone)
		for range 2 {
			e.wantChanged(since, "app old1 r1 acked", "app old299 r299 failed", "app young r1 stored", "app young new stored", "other theirs r1 stored")
			e.wantChanged(at, "app old299 r299 failed")
			e.reopen()
		}
	}},
}

// wantChanged checks which copies have changed since a time, as app, id, recipient and status, in any order.
func (e *env) wantChanged(since time.Time, want ...string) {
	e.Helper()
	s, ok := e.s.(mailbox.Changes)
	if !ok {
		e.Fatal("the store cannot tell what has changed")
	}
	var got []string
	for place, first := int64(0), true; first || place != 0; first = false {
		list, next, err := s.Changed(e.Context(), since, place)
		if err != nil {
			e.Fatal(err)
		}
		for i := range list {
			got = append(got, fmt.Sprint(list[i].App, " ", list[i].ID, " ", list[i].To, " ", list[i].Status))
		}
		if place = next; first && len(list) > 0 && list[0].CreatedAt.IsZero() {
			e.Errorf("%+v says not when it was stored", list[0])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	wantIDs(e, "changed", got, want)
}
