package signal_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/signal"
)

func TestRegisteringTellsTheVersionAtOnceAndEveryLaterOne(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		w.put("config", 7)
		u := w.connect("unit-1", "main")
		defer u.close()
		u.register("config", "never")
		if got := u.told(); len(got) != 3 || got[0] != "registered config never" {
			w.Fatalf("told %q, want registered first, then both objects", got)
		}
		u.wantDigest("config", "never")
		w.put("config", 8)
		u.want("config 8")
		w.put("other", 1)
		w.put("config", 5) // is not above the current
		u.want()
		w.put("never", 1)
		u.want("never 1")
	})
}

func TestAnswersAndStatesLeaveInOneWrite(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		w.put("a", 1)
		w.put("b", 2)
		first := w.connect("unit-1", "main")
		defer first.close()
		first.register("a", "b", "c") // now the states of all three have been read
		first.want("registered a b c", "a 1", "b 2", "c ?")
		u := w.connect("unit-2", "main")
		defer u.close()
		u.register("a", "b", "c")
		u.want("registered a b c", "a 1", "b 2", "c ?")
		if u.writes != 1 {
			w.Errorf("an answer and three states took %d writes, want 1", u.writes)
		}
		if u.corked != 0 {
			w.Errorf("the session stays corked")
		}
	})
}

// TestNumbersOfSessionsAreUsedAgain lets sessions begin and end while others stay registered for the same objects: lists drop ended
// sessions late, and a number must neither be lost nor be assigned to another session while a list still has it.
func TestNumbersOfSessionsAreUsedAgain(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		stays := make([]*unit, 5)
		for i := range stays {
			stays[i] = w.connect(fmt.Sprint("stays-", i), "")
			stays[i].register("a", "b")
			stays[i].told()
			defer stays[i].close()
		}
		for i := range 200 {
			u := w.connect(fmt.Sprint("unit-", i), "")
			u.register("a", fmt.Sprint("own-", i))
			u.told()
			if i%3 == 0 {
				u.send(`{"unregister":{"objects":["a"]}}`)
			}
			if i%7 == 0 {
				u.send(`{"register":{"objects":["b","a","a"],"reset":true}}`)
			}
			w.put("a", object.Version(i+1))
			if got := u.told(); slices.Contains(got, fmt.Sprint("a ", i+1)) != (i%3 != 0 || i%7 == 0) {
				w.Fatalf("session %d was told %q", i, got)
			}
			u.close()
			for _, s := range stays {
				s.want(fmt.Sprint("a ", i+1))
			}
		}
		if n := w.svc.Numbers(); n > 20 {
			w.Errorf("%d numbers for at most 6 sessions at a time", n)
		}
	})
}

func TestSlowSessionHoldsNothingAndGetsTheNewest(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u, quick := w.connect("unit-1", "main"), w.connect("unit-2", "main")
		defer u.close()
		defer quick.close()
		u.register("a", "b")
		quick.register("a", "b")
		u.told()
		quick.told()
		u.block(true)
		for v := range 50 {
			w.put("a", object.Version(v+1))
			w.put("b", object.Version(v+1))
			synctest.Wait()
		}
		if got := quick.told(); len(got) != 100 {
			w.Errorf("the quick one was told %d times of 100", len(got))
		}
		u.block(false)
		u.want("a 50", "b 50")
	})
}

func TestReturningClientGetsOneVersionPerChangedObject(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		u.register("a", "b", "c", "d")
		for _, o := range []string{"a", "b", "c", "d"} {
			w.put(o, 1)
		}
		u.told()
		for _, o := range []string{"a", "b", "c"} {
			u.ack(o, 1)
		}
		u.close()
		w.flushed()
		w.restart() // what clients have is kept
		for v := range 1000 {
			w.put("a", object.Version(v+2))
			w.put("b", object.Version(v+2))
		}
		u = w.connect("unit-1", "main")
		defer u.close()
		u.wantDigest("a", "b", "c", "d")
		u.want("a 1001", "b 1001", "d 1") // d was not acknowledged, and c has not changed
	})
}

func TestUnknownIsToldOnlineAndOnEveryReturn(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		w.put("a", 7)
		u := w.connect("unit-1", "main")
		u.register("a")
		u.want("registered a", "a 7")
		u.ack("a", 7)
		w.putAs("a", object.Put{Unknown: true})
		u.want("a ?7")
		u.close()
		for range 2 {
			u = w.connect("unit-1", "main")
			u.want("a ?7")
			u.close()
		}
		w.put("a", 8)
		u = w.connect("unit-1", "main")
		u.want("a 8")
		u.close()
	})
}

func TestSourceIsNotTold(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		main, spare, other := w.connect("unit-1", "main"), w.connect("unit-1", "spare"), w.connect("unit-2", "main")
		all := []*unit{main, spare, other}
		for _, u := range all {
			defer u.close()
			u.register("a")
			u.told()
		}
		w.putAs("a", object.Put{Version: 1, Origin: object.Origin{Recipient: "unit-1", Device: "main"}})
		main.want()
		spare.want("a 1")
		other.want("a 1")
		w.putAs("a", object.Put{Version: 2, Origin: object.Origin{Recipient: "unit-1"}})
		main.want()
		spare.want()
		other.want("a 2")
		main.register("a") // the device registers again, so it does not know the version
		main.want("registered a", "a 2")
		w.putAs("a", object.Put{Unknown: true, Origin: object.Origin{Recipient: "unit-1"}})
		main.want("a ?2") // if no client knows the version, the source does not know it either
	})
}

func TestUnacknowledgedVersionsComeAgain(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		observer := w.connect("unit-2", "", func(c *session.Client) { c.Observer = true })
		defer u.close()
		defer observer.close()
		u.register("a", "b")
		observer.register("a")
		w.put("a", 1)
		w.put("b", 1)
		u.told()
		observer.told()
		u.ack("b", 1)
		u.ack("a", 1)
		w.put("a", 2)
		u.want("a 2")
		observer.want("a 2")
		u.ack("a", 1) // acknowledges an older version, which changes nothing
		for _, wait := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
			var waited time.Duration
			var got []string
			for got == nil {
				time.Sleep(time.Second)
				got = u.told()
				waited += time.Second
			}
			if !slices.Equal(got, []string{"a 2"}) {
				w.Fatalf("told %q", got)
			}
			if late := waited - wait*time.Second; late < -time.Second || late > 2*time.Second {
				w.Fatalf("it came again after %s, want about %ds", waited, wait)
			}
		}
		u.ack("a", 2)
		time.Sleep(time.Hour)
		u.want()
		observer.want() // nobody expects it to acknowledge
		if c := w.svc.Counts(); c.Resent != 7 {
			w.Errorf("%d redeliveries are counted, want 7", c.Resent)
		}
	})
}

func TestNewVersionTakesThePlaceOfTheUnacknowledged(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		u := w.connect("unit-1", "main")
		defer u.close()
		u.register("a")
		w.put("a", 1)
		u.told()
		time.Sleep(8 * time.Second)
		w.put("a", 2)
		u.want("a 2")
		time.Sleep(8 * time.Second)
		u.want() // the first version's redelivery would be due, but the version is outdated
		time.Sleep(4 * time.Second)
		u.want("a 2")
	})
}

func TestDevicesGroupsAndAppsAreApart(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		main, spare := w.connect("unit-1", "main"), w.connect("unit-1", "spare")
		south := w.connect("unit-2", "main", func(c *session.Client) { c.Group = "south" })
		foreign := w.connect("unit-1", "main", func(c *session.Client) { c.App = "other" })
		for _, u := range []*unit{main, spare, south, foreign} {
			defer u.close()
		}
		main.register("a", "b")
		spare.register("b", "c")
		south.register("a")
		foreign.register("a", "b", "c")
		for _, u := range []*unit{main, spare, south, foreign} {
			u.told()
		}
		spare.send(`{"register":{"objects":["c"],"reset":true}}`)
		spare.want("registered c", "c ?")
		main.wantDigest("a", "b")
		for _, o := range []string{"a", "b", "c"} {
			w.put(o, 1)
		}
		main.want("a 1", "b 1")
		spare.want("c 1")
		south.want()
		foreign.want()
		south.send(`{"register":{"objects":["b"],"group":"north"}}`)
		south.want("registered b", "b 1")
	})
}

func TestNamelessSessionsRegistrationsEndWithIt(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		w.put("a", 1)
		u, other := w.connect("unit-1", ""), w.connect("unit-1", "")
		u.register("a")
		u.want("registered a", "a 1")
		u.wantDigest("a")
		other.wantDigest()
		u.close()
		u = w.connect("unit-1", "")
		u.wantDigest()
		u.want()
		u.close()
		other.close()
		if n := w.svc.Live(); n != 0 {
			w.Errorf("%d registrations are live", n)
		}
	})
}

func TestNewSessionOfADeviceTakesOver(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		old := w.connect("unit-1", "main")
		old.register("a")
		w.put("a", 1)
		old.told()
		u := w.connect("unit-1", "main")
		defer u.close()
		u.wantDigest("a")
		u.want("a 1")
		w.put("a", 2)
		u.want("a 2")
		old.want()
		old.register("b") // too late
		old.ack("a", 2)
		old.want()
		old.close()
		u.wantDigest("a")
		w.put("a", 3)
		u.want("a 3")
	})
}

func TestHeldBackChangesOfOneObjectBecomeOne(t *testing.T) {
	inWorld(t, signal.Config{BatchMost: time.Second}, func(w *world) {
		u := w.connect("unit-1", "main")
		defer u.close()
		u.register("a", "b")
		u.told()
		w.svc.HoldBack(app, 100*time.Millisecond)
		for v := range 9 {
			w.put("a", object.Version(v+1))
			w.put("b", object.Version(v+1))
			time.Sleep(10 * time.Millisecond)
		}
		u.want()
		time.Sleep(25 * time.Millisecond)
		u.want("a 9", "b 9")
		time.Sleep(time.Second)
		w.put("a", 10)
		u.want("a 10") // the queue was short, so objects are no longer held back
	})
}

func TestSlowReadOfAnObjectBringsNothingOldBack(t *testing.T) {
	inWorld(t, signal.Config{}, func(w *world) {
		w.put("a", 1)
		u := w.connect("unit-1", "main")
		defer u.close()
		w.store.slow.Store(int64(time.Second))
		u.register("a")
		u.want("registered a")
		w.put("a", 2) // while version 1 is being read
		u.want("a 2")
		time.Sleep(2 * time.Second)
		u.want()
		late := w.connect("unit-2", "main")
		defer late.close()
		late.register("a")
		late.want("registered a", "a 2")
	})
}
