package channeldb_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/pushgate/channeldb"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// clock is a time that tests set.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// each runs a test on each database.
func each(t *testing.T, test func(t *testing.T, s *channeldb.Store, at *clock)) {
	for name, cfg := range map[string]func(t *testing.T) store.Config{
		"sqlite": func(t *testing.T) store.Config { return store.Config{Data: t.TempDir()} },
		"postgres": func(t *testing.T) store.Config {
			return store.Config{Data: t.TempDir(), Postgres: pgtest.Database(t), Node: "n1", Boot: "bootaaaa"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := cfg(t)
			lite, pg := channeldb.Migrations()
			c.MinFree, c.Tables = 1<<20, []store.Tables{{Module: "push", SQLite: lite, Postgres: pg}}
			stores, err := store.Open(context.WithoutCancel(t.Context()), c)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = stores.Close() })
			at := &clock{time.UnixMilli(1_800_000_000_000)}
			test(t, &channeldb.Store{DB: stores.Database("push"), Most: 3, Now: at.now}, at)
		})
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestRegistrationsCanBeRepeated(t *testing.T) {
	each(t, func(t *testing.T, s *channeldb.Store, _ *clock) {
		ctx, token := t.Context(), must[string](t)
		first := token(s.Register(ctx, "d", "c", ""))
		if again := token(s.Register(ctx, "d", "c", "")); again != first || len(first) != channeldb.TokenLength {
			t.Errorf("tokens %s and %s of one registration", first, again)
		}
		bound := token(s.Register(ctx, "d", "c", "key"))
		if bound == first {
			t.Error("another sender's key kept the token")
		}
		if ch := must[*channeldb.Channel](t)(s.Find(ctx, first)); ch != nil {
			t.Errorf("the former token finds %+v", ch)
		}
		if ch := must[*channeldb.Channel](t)(s.Find(ctx, bound)); ch == nil || *ch != (channeldb.Channel{Token: bound, Device: "d", Name: "c", Sender: "key"}) {
			t.Errorf("the token finds %+v", ch)
		}
		if other := token(s.Register(ctx, "e", "c", "key")); other == bound {
			t.Error("two devices have one token")
		}
	})
}

func TestDevicesAreKnownOnceTheyHaveAChannel(t *testing.T) {
	each(t, func(t *testing.T, s *channeldb.Store, at *clock) {
		ctx, known := t.Context(), must[bool](t)
		if known(s.Known(ctx, "d")) {
			t.Error("a device that never registered is known")
		}
		must[string](t)(s.Register(ctx, "d", "c", ""))
		if err := s.Unregister(ctx, "d", "c"); err != nil {
			t.Fatal(err)
		}
		if err := s.Unregister(ctx, "d", "never"); err != nil {
			t.Errorf("the end of a channel that is not there: %v", err)
		}
		at.at = at.at.Add(25 * time.Hour)
		if !known(s.Known(ctx, "d")) {
			t.Error("a device that ended its channel is not known")
		}
		gone, more, err := s.Sweep(ctx, at.at.Add(-time.Hour))
		if err != nil || more || len(gone) > 0 {
			t.Errorf("a device that has just come is deleted: %v, %t, %v", gone, more, err)
		}
	})
}

func TestSweepDeletesDevicesWithTheirChannels(t *testing.T) {
	each(t, func(t *testing.T, s *channeldb.Store, at *clock) {
		ctx := t.Context()
		old := must[string](t)(s.Register(ctx, "old", "c", ""))
		at.at = at.at.Add(time.Hour)
		young := must[string](t)(s.Register(ctx, "young", "c", "k"))
		gone, more, err := s.Sweep(ctx, at.at)
		if err != nil || more || len(gone) != 1 || gone[0] != "old" {
			t.Fatalf("%v, %t, %v; want old", gone, more, err)
		}
		if must[*channeldb.Channel](t)(s.Find(ctx, old)) != nil || must[*channeldb.Channel](t)(s.Find(ctx, young)) == nil {
			t.Error("the wrong channels are left")
		}
		if n, err := s.Count(ctx); err != nil || n != (channeldb.Counts{Devices: 1, Channels: 1, Bound: 1}) {
			t.Errorf("%+v, %v; want 1 each", n, err)
		}
	})
}

func TestDeviceHasNoMoreChannelsThanAllowed(t *testing.T) {
	each(t, func(t *testing.T, s *channeldb.Store, _ *clock) {
		ctx := t.Context()
		const tries = 12
		errs := make([]error, tries)
		var all sync.WaitGroup
		for i := range tries {
			all.Go(func() { _, errs[i] = s.Register(ctx, "d", fmt.Sprint(i), "") })
		}
		all.Wait()
		made := 0
		for _, err := range errs {
			switch {
			case err == nil:
				made++
			case !errors.Is(err, channeldb.ErrTooMany):
				t.Error(err)
			}
		}
		if made != s.Most {
			t.Errorf("%d of %d registrations at once were accepted, want %d", made, tries, s.Most)
		}
	})
}

func TestLatestDevicesComeFirst(t *testing.T) {
	each(t, func(t *testing.T, s *channeldb.Store, at *clock) {
		ctx, token := t.Context(), must[string](t)
		for _, c := range []struct{ device, channel, sender string }{{"a", "1", ""}, {"b", "1", "k"}, {"b", "2", ""}, {"c", "1", "k"}} {
			at.at = at.at.Add(time.Second)
			token(s.Register(ctx, c.device, c.channel, c.sender))
		}
		seen := at.at
		list, err := s.Latest(ctx, 2)
		want := []channeldb.Device{{ID: "c", Seen: seen, Channels: 1, Bound: 1}, {ID: "b", Seen: seen.Add(-time.Second), Channels: 2, Bound: 1}}
		if err != nil || len(list) != 2 || !same(list[0], want[0]) || !same(list[1], want[1]) {
			t.Errorf("%+v, %v; want %+v", list, err, want)
		}
	})
}

// same compares devices to the millisecond.
func same(a, b channeldb.Device) bool {
	at := a.Seen.UnixMilli() == b.Seen.UnixMilli()
	a.Seen, b.Seen = time.Time{}, time.Time{}
	return at && a == b
}
