package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
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
