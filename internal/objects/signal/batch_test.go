package signal_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/signal"
)

// everyMinute gives group north an interval of a minute.
func everyMinute(_, group string) time.Duration {
	if group == "north" {
		return time.Minute
	}
	return 0
}

// until sleeps until a time after the last full hour.
func until(d time.Duration) {
	time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(d)))
	synctest.Wait()
}

func TestSignalsOfAFixedIntervalLeaveTogether(t *testing.T) {
	inWorld(t, signal.Config{Batch: everyMinute, BatchMost: 250 * time.Millisecond}, func(w *world) {
		until(0)
		u := w.connect("unit-1", "main")
		defer u.close()
		var names, all []string
		for i := range 20 {
			names = append(names, fmt.Sprint("o", i))
			all = append(all, fmt.Sprintf("o%d 2", i))
		}
		u.register(names...)
		u.told()
		for i, name := range names {
			until(time.Duration(i+1) * time.Second)
			w.put(name, 1)
			w.put(name, 2)
		}
		until(time.Minute - time.Millisecond)
		u.want()
		late := w.connect("unit-2", "main") // who registers within the interval gets the current version at once
		defer late.close()
		late.register("o3")
		late.want("registered o3", "o3 2")
		until(time.Minute)
		u.want(all...)
		late.want()
		for _, name := range names {
			u.ack(name, 2)
		}
		until(time.Minute + time.Second)
		w.put("o0", 3)
		w.put("o1", 3)
		until(2*time.Minute - time.Millisecond)
		u.want()
		until(2 * time.Minute)
		u.want("o0 3", "o1 3")
	})
}

func TestOtherGroupsDoNotWaitForAFixedInterval(t *testing.T) {
	inWorld(t, signal.Config{Batch: everyMinute, BatchMost: 250 * time.Millisecond, Workers: 1}, func(w *world) {
		until(0)
		slow := w.connect("unit-1", "main")
		defer slow.close()
		quick := w.connect("unit-2", "main", func(c *session.Client) { c.Group = "south" })
		defer quick.close()
		slow.register("a")
		quick.register("a")
		slow.told()
		quick.told()
		until(time.Second)
		w.put("a", 1)
		for v := range object.Version(5) {
			if _, _, err := w.svc.Put(w.Context(), app, object.Key{Group: "south", Object: "a"}, &object.Put{Version: v + 1}); err != nil {
				w.Fatal(err)
			}
			quick.want(fmt.Sprint("south/a ", v+1))
			quick.ack("a", int(v+1))
		}
		slow.want()
		until(time.Minute)
		slow.want("a 1")
	})
}

// A stop does not wait for an interval's end: the states are on disk, and clients learn them when they are back.
func TestStopDoesNotWaitForAFixedInterval(t *testing.T) {
	inWorld(t, signal.Config{Batch: everyMinute}, func(w *world) {
		until(0)
		u := w.connect("unit-1", "main")
		u.register("a")
		u.told()
		until(time.Second)
		w.put("a", 7)
		u.close()
		begun := time.Now()
		w.restart()
		if took := time.Since(begun); took >= time.Minute {
			w.Errorf("the restart took %s", took)
		}
		back := w.connect("unit-1", "main")
		defer back.close()
		back.want("a 7")
	})
}
