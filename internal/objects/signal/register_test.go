package signal_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/objects/signal"
)

func TestNothingIsConfirmedBeforeItIsStored(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		defer u.close()
		release := w.store.hold()
		u.register("a")
		u.register("b")
		w.put("a", 1)
		u.want() // not even the object: the registered frame is sent first
		u.wantDigest()
		release()
		u.want("registered a", "registered b", "a 1", "b ?")
		u.wantDigest("a", "b")
	})
}

func TestSessionThatNeverJoinsTakesNothing(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		defer u.close()
		u.register("a")
		u.told()
		w.svc.Open(w.Context(), &unit{w: w}, u.who, true).Closed()
		w.put("a", 1)
		u.want("a 1")
	})
}

func TestResetSwapsTheSetAtItsEnd(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		defer u.close()
		u.register("a", "b")
		u.told()
		u.send(`{"register":{"objects":["b"],"reset":true,"more":true}}`)
		u.send(`{"register":{"objects":["c","d"],"more":true}}`)
		w.put("a", 1)
		w.put("b", 1)
		w.put("c", 1)
		u.want("a 1", "b 1") // still the old set
		u.wantDigest("a", "b")
		u.send(`{"unregister":{"objects":["d"]}}`)
		u.send(`{"register":{"objects":["e","e"]}}`)
		u.want("registered", "registered b", "registered c d", "registered e e", "b 1", "c 1", "e ?")
		u.wantDigest("b", "c", "e")
		w.put("a", 2)
		w.put("b", 2)
		u.want("b 2")
		u.send(`{"register":{"reset":true}}`)
		u.want("registered")
		u.wantDigest()
		w.put("b", 3)
		u.want()
	})
}

func TestUnregisteredIsNotTold(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		defer u.close()
		u.register("a", "b")
		u.told()
		u.send(`{"unregister":{"objects":["a","a","never"]}}`)
		u.want("registered")
		u.wantDigest("b")
		w.put("a", 1)
		w.put("b", 1)
		u.want("b 1")
		u.register("a")
		u.want("registered a", "a 1")
	})
}

func TestRegistrationsRefusedForGoodLeaveTheDigestAlone(t *testing.T) {
	inWorld(t, signal.Config{MaxRegistrations: 3}, func(w *world) {
		u := w.connect("unit-1", "main", func(c *session.Client) {
			c.Rights, c.Only = &session.Rights{Objects: []string{"camera-*", "x"}}, "north"
		})
		defer u.close()
		u.register("camera-1", "secret", "camera-2")
		u.want("failed forbidden secret", "registered camera-1 camera-2", "camera-1 ?", "camera-2 ?")
		u.send(`{"register":{"objects":["x"],"group":"south"}}`)
		u.want("failed forbidden x")
		u.register("camera-3", "camera-4")
		u.want("registered camera-3", "camera-3 ?", "failed too_many camera-4")
		u.register("camera-4")
		u.want("failed too_many camera-4") // and no registered frame is sent
		u.wantDigest("camera-1", "camera-2", "camera-3")
		u.send(`{"register":{"objects":["camera-1","camera-2","camera-4","camera-5"],"reset":true}}`)
		u.want("failed too_many camera-5", "registered camera-1 camera-2 camera-4", "camera-1 ?", "camera-2 ?", "camera-4 ?")
		u.wantDigest("camera-1", "camera-2", "camera-4")
		u.send(`{"register":{"objects":["secret"],"reset":true,"more":true}}`)
		u.want("failed forbidden secret")
		u.send(`{"register":{"objects":["x","secret-2"],"reset":true}}`)
		u.want("failed forbidden secret-2", "registered", "registered x", "x ?")
		u.wantDigest("x")
		u.send(`{"register":{"objects":["x"],"group":"south","reset":true}}`)
		u.want("failed forbidden x", "registered")
		u.wantDigest()

		ungrouped := w.connect("unit-2", "", func(c *session.Client) { c.Group = "" })
		defer ungrouped.close()
		ungrouped.register("a")
		ungrouped.want("failed group_required a")
		ungrouped.send(`{"register":{"objects":["a"],"group":"north"}}`)
		ungrouped.want("registered a", "a ?")
	})
}

func TestNewTokenTakesAwayWhatItDoesNotAllow(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		u.register("a", "b")
		u.told()
		u.who.Rights = &session.Rights{Objects: []string{"b"}}
		u.s.Renew(u.who)
		u.wantDigest("b")
		w.put("a", 1)
		w.put("b", 1)
		u.want("b 1")
		u.register("a")
		u.want("failed forbidden a")
		u.ack("b", 1)
		u.close()
		u = w.connect("unit-1", "main", func(c *session.Client) { c.Rights = &session.Rights{Objects: []string{}} })
		defer u.close()
		w.put("b", 2)
		u.want()
		u.wantDigest()
	})
}

func TestManyRegisterFramesAtOnceAreAllAnsweredInTheEnd(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		defer u.close()
		release := w.store.hold()
		var all []string
		for i := range 100 {
			name := fmt.Sprint("o", i)
			all = append(all, name)
			u.register(name)
		}
		release()
		u.told()
		u.wantDigest(all...)
		if n := w.svc.Live(); n != 100 {
			w.Errorf("%d registrations are live, want 100", n)
		}
	})
}

func TestResyncLeavesNoMomentWithoutAWantedObject(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		defer u.close()
		u.register("wanted", "gone")
		u.told()
		kept := object.Key{Group: "north", Object: "wanted"}
		var without atomic.Int64
		w.store.mu.Lock()
		w.store.saved = func(v *objectstore.Save) {
			if !slices.Contains(v.Keys, kept) {
				without.Add(1) // a crash now would lose the registration
			}
		}
		w.store.mu.Unlock()
		done := make(chan struct{})
		seen := make(chan int)
		go func() {
			n := 0
			for ; ; n++ {
				rs, err := w.svc.Registrations(w.Context(), app, kept)
				if err != nil || len(rs) != 1 || !rs[0].Online {
					without.Add(1)
				}
				select {
				case <-done:
					seen <- n
					return
				default:
					runtime.Gosched()
				}
			}
		}()
		for i := range 200 {
			w.put("wanted", object.Version(i+1))
			u.send(`{"register":{"objects":["new-%d"],"reset":true,"more":true}}`, i)
			runtime.Gosched()
			u.send(`{"register":{"objects":["wanted"]}}`)
			w.put("wanted", object.Version(i+1))
		}
		close(done)
		if looked := <-seen; looked < 10 || without.Load() > 0 {
			w.Errorf("%d of %d looks and saves found the object not registered", without.Load(), looked)
		}
		got := u.told()
		if i := slices.Index(got, "wanted 200"); i < 0 {
			w.Errorf("the last version was not told")
		}
		u.wantDigest("wanted", "new-199")
	})
}
