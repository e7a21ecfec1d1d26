package signal_test

import (
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/objects/signal"
)

func TestRegistrationThatCannotBeStoredFailsForNow(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		w.store.writes.Store(true)
		u.register("a")
		u.want("failed unavailable* a")
		u.wantDigest() // so the client asks again
		w.store.writes.Store(false)
		time.Sleep(5 * time.Second)
		u.want("a ?") // the change was kept and is tried again
		u.wantDigest("a")
		u.close()
		u = w.connect("unit-1", "main")
		defer u.close()
		u.wantDigest("a")
	})
}

func TestClientThatLeavesUnstoredIsStoredLater(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		w.store.writes.Store(true)
		u.register("a")
		u.told()
		u.close()
		w.store.writes.Store(false)
		time.Sleep(5 * time.Second)
		w.restart()
		u = w.connect("unit-1", "main")
		defer u.close()
		u.wantDigest("a")
	})
}

func TestUnreadableRegistrationsAreReadLater(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		u.register("a")
		u.told()
		u.close()
		w.flushed()
		w.store.reads.Store(true)
		u = w.connect("unit-1", "main")
		defer u.close()
		if digest, _ := u.s.(session.Digester).Digest(); digest != "" {
			w.Errorf("the digest of a set that could not be read is %s; the client would send everything", digest)
		}
		u.register("b")
		u.want("failed unavailable* b")
		w.put("a", 1)
		w.store.reads.Store(false)
		time.Sleep(5 * time.Second)
		u.want("registered", "a 1")
		u.wantDigest("a")
		u.register("b")
		u.want("registered b", "b ?")
	})
}

func TestResetOfUnreadableRegistrationsTakesTheirPlace(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		u.register("a", "b")
		u.told()
		u.close()
		w.flushed()
		w.store.reads.Store(true)
		u = w.connect("unit-1", "main")
		defer u.close()
		u.send(`{"register":{"objects":["b","c"],"reset":true}}`)
		u.want("registered b c")
		u.wantDigest("b", "c")
		w.store.reads.Store(false)
		time.Sleep(5 * time.Second)
		u.want("b ?", "c ?")
		u.wantDigest("b", "c")
	})
}

// Acknowledgements from before a reset must not be written after it: otherwise a crash would undo the reset.
func TestResetIsStoredAfterWhatIsBeingWrittenDown(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		w.put("a", 1)
		u := w.connect("unit-1", "main")
		defer u.close()
		u.register("a")
		u.told()
		release := w.store.holdTouches()
		u.ack("a", 1)
		time.Sleep(2 * time.Second) // it is being written down
		var early atomic.Bool
		w.store.mu.Lock()
		w.store.saved = func(*objectstore.Save) { early.Store(w.store.touches.Load() != nil) }
		w.store.mu.Unlock()
		u.send(`{"register":{"objects":["b"],"reset":true}}`)
		synctest.Wait()
		release()
		u.want("registered b", "b ?")
		if early.Load() {
			w.Error("the set was given to the store while what is older was still on its way")
		}
	})
}

func TestClientsAwayForTooLongAreDropped(t *testing.T) {
	const day = 10 * time.Minute // of a shorter year
	inWorld(t, signal.Config{Retain: 60 * day}, func(w *world) {
		gone, stays, back := w.connect("gone", "main"), w.connect("stays", "main"), w.connect("back", "main")
		for _, u := range []*unit{gone, stays, back} {
			u.register("a")
			u.told()
		}
		gone.close()
		back.close()
		time.Sleep(59 * day)
		w.connect("back", "main").close()
		time.Sleep(8 * day)
		w.put("a", 1)
		stays.want("a 1")
		stays.close()
		for name, want := range map[string]int{"gone": 0, "stays": 1, "back": 1} {
			if rs, err := w.svc.OfRecipient(w.Context(), app, name); err != nil || len(rs) != want {
				w.Errorf("%s has %d registrations, %v; want %d", name, len(rs), err, want)
			}
		}
	})
}

func TestErasedRecipientHasNothing(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u, other := w.connect("unit-1", "main"), w.connect("unit-2", "main")
		defer other.close()
		u.register("a")
		other.register("a")
		u.told()
		other.told()
		release := w.store.hold()
		u.register("b")
		synctest.Wait()
		erased := make(chan error, 1)
		go func() { erased <- w.svc.Erase(w.Context(), app, "unit-1") }()
		synctest.Wait()
		release() // the running save must not restore the registration
		if err := <-erased; err != nil {
			w.Fatal(err)
		}
		u.close()
		w.put("a", 1)
		other.want("a 1")
		u.want()
		u = w.connect("unit-1", "main")
		defer u.close()
		u.wantDigest()
		if rs, err := w.svc.OfRecipient(w.Context(), app, "unit-1"); err != nil || len(rs) != 0 {
			w.Errorf("%+v, %v", rs, err)
		}
	})
}

func TestSessionErasedWhileItOpensCanRegister(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		u.register("a")
		u.told()
		late := &unit{w: w, who: u.who}
		late.s = w.svc.Open(w.Context(), late, late.who, true)
		if err := w.svc.Erase(w.Context(), app, "unit-1"); err != nil {
			w.Fatal(err)
		}
		u.close()
		late.s.Join()
		late.s.Start()
		defer late.close()
		synctest.Wait()
		late.told()
		late.register("b")
		late.want("registered b", "b ?")
		late.wantDigest("b")
	})
}

func TestViewsSayWhoHasWhat(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		w.put("a", 7)
		u, away, nameless := w.connect("unit-1", "main"), w.connect("unit-2", "main"), w.connect("unit-3", "")
		for _, c := range []*unit{u, away, nameless} {
			c.register("a")
			c.told()
		}
		u.ack("a", 7)
		away.ack("a", 7)
		away.close()
		w.flushed()
		w.put("a", 8)
		u.told()
		nameless.told()
		rs, err := w.svc.Registrations(w.Context(), app, object.Key{Group: "north", Object: "a"})
		if err != nil || len(rs) != 3 {
			w.Fatalf("%+v, %v", rs, err)
		}
		for i, want := range []struct {
			recipient, device string
			online            bool
			sent, acked       object.Version
		}{{"unit-1", "main", true, 8, 7}, {"unit-2", "main", false, 7, 7}, {"unit-3", "", true, 8, 0}} {
			r := rs[i]
			if r.Recipient != want.recipient || r.Device != want.device || r.Online != want.online || r.SentVersion != want.sent || r.Acked != want.acked || r.LastSeen.IsZero() {
				w.Errorf("registration %+v, want %+v", r, want)
			}
		}
		looked, more, next, err := w.svc.Watching(w.Context(), app, object.Key{Group: "north", Object: "a"}, 0, 10)
		if err != nil || more || next != 0 || !reflect.DeepEqual(looked, rs) {
			w.Errorf("looked at in parts it is %+v, %v, %d, %v; want %+v", looked, more, next, err, rs)
		}
		if looked, more, next, _ = w.svc.Watching(w.Context(), app, object.Key{Group: "north", Object: "a"}, 0, 1); !more || next == 0 || len(looked) != 1 || !looked[0].Online {
			w.Errorf("one that is connected is %+v, %v, %d", looked, more, next)
		}
		if looked, more, _, _ = w.svc.Watching(w.Context(), app, object.Key{Group: "north", Object: "a"}, next, 1); more || len(looked) != 1 || looked[0].Recipient != "unit-2" {
			w.Errorf("one that is away is %+v, %v", looked, more)
		}
		if groups, next, err := w.svc.Groups(w.Context(), app, "", 10); err != nil || next != "" || !slices.Equal(groups, []string{"north"}) {
			w.Errorf("groups %v, %q, %v", groups, next, err)
		}
		u.close()
		nameless.close()
		if rs, err = w.svc.Registrations(w.Context(), "other", object.Key{Group: "north", Object: "a"}); err != nil || len(rs) != 0 {
			w.Errorf("another app sees %+v, %v", rs, err)
		}
	})
}
