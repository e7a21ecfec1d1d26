package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/eventually"
)

var lifeCases = []testCase{
	{"WhatWasAcknowledgedIsThereAfterACrash", []Ability{Crash}, func(e *env) {
		if e.o.Crash == nil {
			e.Skip("this store cannot be crashed here")
		}
		e.stored(e.note("a"), "r", "s")
		e.stored(e.note("b", sendAfter(time.Minute, time.Hour)), "r")
		e.acked("r", "a")
		e.stored(e.note("c"), "r")
		s := e.o.Crash()
		res, err := s.Pending(e.Context(), []mailbox.PendingQuery{{App: App, Recipient: "r"}, {App: App, Recipient: "s"}})
		if err != nil {
			e.Fatal(err)
		}
		wantIDs(e, "r", itemIDs(res[0].Items), []string{"c"})
		wantIDs(e, "s", itemIDs(res[1].Items), []string{"a"})
		if res[0].LastSeq != 2 || s.Stats().Scheduled != 1 {
			e.Errorf("last seq %d, %d scheduled; want 2 and 1", res[0].LastSeq, s.Stats().Scheduled)
		}
	}},
	{"TimeIsTheStoresAndUpkeepIsToldWhenToLook", nil, func(e *env) {
		before := e.s.Clock()()
		e.clock.Advance(time.Minute)
		if now := e.s.Clock()(); !now.Equal(before.Add(time.Minute)) {
			e.Errorf("a minute after %s it is %s", before, now)
		}
		if d := e.s.LookAgain(); d <= 0 || d > time.Hour {
			e.Errorf("upkeep may look again after %s; want some time up to an hour", d)
		}
	}},
	{"AnObserverIsToldOfWhatComesAfterIt", nil, func(e *env) {
		e.stored(e.note("before"), "r")
		later := &Recorder{}
		e.s.Observe(later)
		e.stored(e.note("after"), "r")
		wantIDs(e, "told the first", itemIDs(e.rec.All().Stored), []string{"before"})
		wantIDs(e, "told the second", itemIDs(later.All().Stored), []string{"after"})
	}},
	{"ACrashInTheMiddleOfWorkLosesNothingAnswered", []Ability{Crash}, crashWhileBusy},
	{"StatsCountWhatWaits", nil, func(e *env) {
		e.stored(e.note("a"), "r", "s")
		e.stored(e.note("b", sendAfter(time.Minute, time.Hour)), "r")
		e.acked("r", "a")
		for range 2 {
			if st := e.s.Stats(); st.Pending != 1 || st.Scheduled != 1 || st.Full {
				e.Errorf("stats %+v, want 1 pending and 1 scheduled", st)
			}
			if err := e.s.Ready(e.Context()); err != nil {
				e.Errorf("not ready: %v", err)
			}
			e.reopen()
		}
	}},
}

// crashWhileBusy copies the store while publishers work, and checks that the copy has everything acknowledged before.
func crashWhileBusy(e *env) {
	if e.o.Crash == nil {
		e.Skip("this store cannot be crashed here")
	}
	var mu sync.Mutex
	answered, acked := map[string]bool{}, map[string]bool{}
	stop := make(chan struct{})
	var crashing atomic.Bool // while set, an operation may time out, which proves nothing
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("p%d-%d", p, i)
				a := &mailbox.Append{N: e.note(id), To: []string{fmt.Sprintf("r%d-%d", p, i/500)}}
				if err := e.s.Append(e.Context(), []*mailbox.Append{a}); err != nil {
					if !crashing.Load() {
						e.Errorf("append: %v", err)
					}
					return
				}
				mu.Lock()
				answered[id] = true
				mu.Unlock()
				if i%2 == 0 {
					q := &mailbox.Settle{App: App, Recipient: a.To[0], ID: id, As: notification.Acked, At: a.N.CreatedAt}
					if err := e.s.Settle(e.Context(), []*mailbox.Settle{q}); err != nil {
						if !crashing.Load() {
							e.Errorf("settle: %v", err)
						}
						return
					}
					mu.Lock()
					acked[id] = true
					mu.Unlock()
				}
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(answered)
	}
	eventually.True(e, "publishing", func() bool { return count() > 200 })
	mu.Lock()
	before, done := make(map[string]bool), make(map[string]bool)
	for id := range answered {
		before[id] = true
	}
	for id := range acked {
		done[id] = true
	}
	mu.Unlock()
	crashing.Store(true)
	s := e.o.Crash()
	close(stop)
	wg.Wait()
	for id := range before {
		recs, err := s.Lookup(e.Context(), App, id, "")
		if err != nil || len(recs) != 1 {
			e.Fatalf("%s is lost: %v", id, err)
		}
		if done[id] && recs[0].Status != notification.Acked {
			e.Errorf("%s is %s, want acked", id, recs[0].Status)
		}
	}
}
