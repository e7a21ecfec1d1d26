package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// RunTwoObjects tests two stores of objects on one database.
func RunTwoObjects(t *testing.T, open Two[objectstore.Store]) {
	t.Helper()
	t.Run("VersionsAreGivenInTurnAndKnownToBoth", func(t *testing.T) {
		clock, k := testclock.New(), key("north", "counter")
		a, b := open(t, clock.Now)
		stores, seen := [2]objectstore.Store{a, b}, [101]atomic.Bool{}
		atOnce(4, 25, func(caller, _ int) {
			v := &objectstore.Put{App: App, Key: k, At: clock.Now()}
			if err := stores[caller%2].Put(t.Context(), []*objectstore.Put{v}); err != nil || !v.Changed || seen[v.State.Version].Swap(true) {
				t.Errorf("put answered %+v, %v", v.State, err)
			}
		})
		for _, s := range stores {
			if states, err := s.Get(t.Context(), App, []object.Key{k}); err != nil || states[0].Version != 100 {
				t.Errorf("%+v, %v; want version 100", states, err)
			}
		}
	})
	t.Run("RegistrationsSavedThroughOneAreReadThroughTheOther", func(t *testing.T) {
		clock, k := testclock.New(), key("north", "a")
		a, b := open(t, clock.Now)
		id := objectstore.ClientID{App: App, Recipient: "unit-1", Device: "main"}
		done := make(chan error, 1)
		a.Save(&objectstore.Save{ID: id, Keys: []object.Key{k}, SeenAt: clock.Now(), Done: func(err error) { done <- err }})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if v, err := b.Load(t.Context(), id); err != nil || v == nil || len(v.Keys) != 1 || v.Keys[0] != k {
			t.Errorf("%+v, %v", v, err)
		}
	})
	t.Run("WhatAStoppedNodeWritesLateOfProgressChangesNothing", func(t *testing.T) {
		clock, k := testclock.New(), key("north", "a")
		a, b := open(t, clock.Now)
		id := objectstore.ClientID{App: App, Recipient: "unit-1", Device: "main"}
		done := make(chan error, 1)
		wait := func(err error) { done <- err }
		a.Save(&objectstore.Save{ID: id, Keys: []object.Key{k}, SeenAt: clock.Now(), Done: wait})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		touch := func(s objectstore.Store, opened time.Time, acked object.Version) {
			t.Helper()
			clock.Advance(time.Second)
			s.Touch([]objectstore.Touch{{ID: id, SeenAt: clock.Now(), Opened: opened, Progress: []objectstore.Progress{{Object: k.Hash(), Acked: acked, Sent: acked}}}}, wait)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		want := func(what string, acked object.Version) {
			t.Helper()
			if v, err := a.Load(t.Context(), id); err != nil || v == nil || len(v.Progress) != 1 || v.Progress[0].Acked != acked || !v.SeenAt.Equal(clock.Now()) {
				t.Errorf("%s: %+v, %v; want version %d", what, v, err, acked)
			}
		}
		first := clock.Now()
		touch(a, first, 1)
		clock.Advance(time.Second)
		second := clock.Now() // through the other node
		touch(b, second, 7)
		touch(a, first, 2)
		want("late", 7)
		touch(b, second, 3) // the session has requested the object again
		want("the session's own", 3)
		clock.Advance(time.Second)
		touch(a, clock.Now(), 4)
		want("back at the first node", 4)
	})
	t.Run("BatchesInAnyOrderNeverWaitForEachOther", func(t *testing.T) {
		clock := testclock.New()
		a, b := open(t, clock.Now)
		stores := [2]objectstore.Store{a, b}
		atOnce(6, 10, func(caller, nth int) {
			batch := make([]*objectstore.Put, 40)
			for i := range batch {
				name := i
				if caller%2 == 0 {
					name = len(batch) - 1 - i
				}
				batch[i] = &objectstore.Put{App: App, Key: key("north", fmt.Sprint("o", name)), At: clock.Now()}
			}
			if err := stores[caller%2].Put(t.Context(), batch); err != nil {
				t.Errorf("batch %d of caller %d: %v", nth, caller, err)
			}
		})
		items, err := a.List(t.Context(), App, "north", "", "", 100)
		if err != nil || len(items) != 40 {
			t.Fatalf("%d objects, %v", len(items), err)
		}
		for _, it := range items {
			if it.Version != 60 {
				t.Errorf("%s is at version %s, want 60", it.Key, it.Version)
			}
		}
	})
	t.Run("WhatOneHasChangedIsNewsToTheOther", func(t *testing.T) {
		clock := testclock.New()
		a, b := open(t, clock.Now)
		shared, ok := b.(objectstore.Shared)
		if !ok {
			t.Skip("nodes do not share this store")
		}
		put := func(app, name string, p object.Put) {
			if err := a.Put(t.Context(), []*objectstore.Put{{App: app, Key: key("north", name), Put: p, At: clock.Now()}}); err != nil {
				t.Fatal(err)
			}
		}
		put(App, "before", object.Put{})
		put(App, "c", object.Put{})
		clock.Advance(time.Hour)
		since := clock.Now()
		put("other", "a", object.Put{Version: 7})
		put(App, "b", object.Put{Unknown: true, Version: 3})
		clock.Advance(time.Second)
		put(App, "c", object.Put{}) // changed before, too
		put(App, "a", object.Put{})
		put(App, "a", object.Put{Version: 1}) // changes nothing
		want := []objectstore.News{
			{App: App, Key: key("north", "b"), Version: 3},
			{App: "other", Key: key("north", "a"), Version: 7, Known: true},
			{App: App, Key: key("north", "a"), Version: 1, Known: true},
			{App: App, Key: key("north", "c"), Version: 2, Known: true},
		}
		for _, limit := range []int{1, 2, 3, 4, 100} {
			var got []objectstore.News
			for from := (*objectstore.NewsMark)(nil); ; {
				page, next, err := shared.News(t.Context(), since, from, limit)
				if err != nil || len(page) > limit {
					t.Fatalf("a page of %d has %d, %v", limit, len(page), err)
				}
				if got = append(got, page...); next == nil {
					break
				}
				from = next
			}
			if !slices.Equal(got, want) {
				t.Errorf("in pages of %d: %+v, want %+v", limit, got, want)
			}
		}
	})
}

// RunTwoEndpoints tests two stores of endpoints on one database.
func RunTwoEndpoints(t *testing.T, open Two[EndpointStore]) {
	t.Helper()
	t.Run("AnAddressRegisteredThroughBothIsOneEndpoint", func(t *testing.T) {
		a, b := open(t, testclock.New().Now)
		stores := [2]EndpointStore{a, b}
		var created atomic.Int64
		atOnce(4, 25, func(caller, nth int) {
			done, err := stores[caller%2].Register(t.Context(), App, []audience.Registration{chat(nth)})
			if err != nil || done[0].Err != nil {
				t.Errorf("register: %v, %+v", err, done)
				return
			}
			if done[len(done)-1].Created {
				created.Add(1)
			}
		})
		for _, s := range stores {
			active, _, err := s.EndpointCounts(t.Context(), App)
			if err != nil || active[push.Telegram] != 25 || created.Load() != 25 {
				t.Errorf("%d endpoints, %d were created, %v; want 25", active[push.Telegram], created.Load(), err)
			}
		}
	})
	t.Run("WhoeverRegistersWhileTheOtherEnumeratesIsMetOnce", func(t *testing.T) {
		a, b := open(t, testclock.New().Now)
		var registering sync.WaitGroup
		for caller := range 4 {
			registering.Go(func() {
				for nth := range 50 {
					done, err := [2]EndpointStore{a, b}[caller%2].Register(t.Context(), App, []audience.Registration{chat(1000*caller + nth)})
					if err != nil || done[0].Err != nil {
						t.Errorf("register: %v, %+v", err, done)
					}
				}
			})
		}
		over := make(chan struct{})
		go func() {
			registering.Wait()
			close(over)
		}()
		met := make(map[int64]bool)
		for after, last := int64(0), false; ; {
			page, _, more, err := b.SelectEndpoints(t.Context(), App, &audience.Selection{}, after, 10)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page {
				if after = page[i].Number; met[after] {
					t.Errorf("%d is met twice", after)
				}
				met[after] = true
			}
			if last && !more {
				break
			}
			select {
			case <-over:
				last = true
			default:
			}
		}
		if len(met) != 200 {
			t.Errorf("%d of 200 were met", len(met))
		}
	})
}

// RunTwoCampaigns tests two stores of campaigns on one database.
func RunTwoCampaigns(t *testing.T, open Two[CampaignStore]) {
	t.Helper()
	begin := func(t *testing.T) (e *campaignEnv, other CampaignStore) {
		e = &campaignEnv{T: t, clock: testclock.New()}
		e.s, other = open(t, e.clock.Now)
		var err error
		e.epoch, err = e.s.Own(t.Context(), App)
		e.check(err)
		return e, other
	}
	t.Run("WhatOneClaimedTheOtherIsNotGiven", func(t *testing.T) {
		e, other := begin(t)
		e.hooks(40)
		c := e.running()
		e.enumerate(c)
		targets, stores := e.due(c), [2]CampaignStore{e.s, other}
		var claimed atomic.Int64
		atOnce(4, 10, func(caller, nth int) {
			got, err := stores[caller%2].Claim(t.Context(), e.epoch, c.Num, targets[nth*4:nth*4+4], e.clock.Now())
			if err != nil {
				t.Error(err)
			}
			claimed.Add(int64(len(got)))
		})
		if n := claimed.Load(); n != 40 {
			t.Errorf("40 deliveries were claimed %d times", n)
		}
	})
	t.Run("ACampaignIsDeletedWhileItsDeliveriesAreWritten", func(t *testing.T) {
		e, other := begin(t)
		appErasedWhileEnumerated(e, other)
	})
	t.Run("TwoEraseAnAppWhileItsCampaignIsSent", func(t *testing.T) {
		e, other := begin(t)
		appErasedByTwo(e, other)
	})
	t.Run("WhenOneTakesTheQueueOverTheOtherIsAFormerOwner", func(t *testing.T) {
		e, other := begin(t)
		e.hooks(1)
		c := e.running()
		e.enumerate(c)
		targets := e.due(c)
		_, err := other.Own(t.Context(), App)
		e.check(err)
		if _, err := e.s.Claim(t.Context(), e.epoch, c.Num, targets, e.clock.Now()); !errors.Is(err, campaign.ErrStale) {
			t.Errorf("a former owner claims: %v", err)
		}
	})
	t.Run("AFewChangesAtOnceLoseNone", func(t *testing.T) {
		e, other := begin(t)
		c := e.running()
		stores := [2]CampaignStore{e.s, other}
		atOnce(4, 10, func(caller, _ int) {
			_, err := stores[caller%2].Change(t.Context(), App, c.ID, func(c *campaign.Campaign) error {
				c.StartedAt = c.StartedAt.Add(time.Second)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		for _, s := range stores {
			if got, err := s.Get(t.Context(), App, c.ID); err != nil || !got.StartedAt.Equal(c.StartedAt.Add(40*time.Second)) {
				t.Errorf("%+v, %v", got, err)
			}
		}
	})
}
