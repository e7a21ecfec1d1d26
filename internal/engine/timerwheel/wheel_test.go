package timerwheel

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type owner struct {
	timer Timer[*owner]
	fired []time.Time
}

func newOwner() *owner {
	o := &owner{}
	o.timer.Owner = o
	return o
}

// running starts a wheel inside a synctest bubble; each timer that fires is recorded in its owner.
func running(t *testing.T, onFire func(*owner)) *Wheel[*owner] {
	w := New(0, func(tm *Timer[*owner], now time.Time) {
		tm.Owner.fired = append(tm.Owner.fired, now)
		if onFire != nil {
			onFire(tm.Owner)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return w
}

func TestTimerFiresOnceAndNeverEarly(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 49 * time.Millisecond, 50 * time.Millisecond, 10 * time.Second, 103 * time.Second, 3 * time.Hour} {
		t.Run(d.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, o, start := running(t, nil), newOwner(), time.Now()
				time.Sleep(17 * time.Millisecond)
				set := time.Now()
				w.Set(&o.timer, d)
				time.Sleep(d + time.Second)
				synctest.Wait()
				if len(o.fired) != 1 {
					t.Fatalf("fired %d times, want once", len(o.fired))
				}
				if got := o.fired[0].Sub(set); got < d || got > d+2*DefaultTick {
					t.Errorf("fired after %s (%s from the start), want %s to %s", got, o.fired[0].Sub(start), d, d+2*DefaultTick)
				}
				if w.Len() != 0 {
					t.Errorf("%d timers left", w.Len())
				}
			})
		})
	}
}

func TestMovedTimerFiresAtItsLastTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := running(t, nil), newOwner()
		for range 100 { // a heartbeat: later each time
			w.Set(&o.timer, 30*time.Second)
			time.Sleep(time.Second)
		}
		if len(o.fired) != 0 {
			t.Fatal("fired though it was moved in time")
		}
		w.Set(&o.timer, time.Second) // and earlier again
		time.Sleep(1200 * time.Millisecond)
		synctest.Wait()
		if len(o.fired) != 1 {
			t.Fatalf("fired %d times, want once", len(o.fired))
		}
	})
}

func TestStoppedTimerDoesNotFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newOwner(), newOwner()
		var w *Wheel[*owner]
		stopOther := func(o *owner) { w.Stop(&map[*owner]*owner{a: b, b: a}[o].timer) }
		w = running(t, stopOther)
		w.Set(&a.timer, time.Second)
		if !w.Stop(&a.timer) || w.Stop(&a.timer) {
			t.Error("Stop must say whether the timer was armed")
		}
		time.Sleep(2 * time.Second)
		// Two timers are due in the same tick: the first to fire stops the other.
		w.Set(&a.timer, time.Second)
		w.Set(&b.timer, time.Second)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(a.fired) + len(b.fired); n != 1 {
			t.Errorf("%d fired, want 1", n)
		}
		if w.Len() != 0 {
			t.Errorf("%d timers left", w.Len())
		}
	})
}

func TestTimerMayBeSetFromItsCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *Wheel[*owner]
		w = running(t, func(o *owner) { w.Set(&o.timer, 0) })
		o := newOwner()
		w.Set(&o.timer, 0)
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if n := len(o.fired); n < 18 || n > 20 {
			t.Errorf("fired %d times in a second, want once a tick", n)
		}
		w.Stop(&o.timer)
	})
}

func TestWheelCatchesUpAfterAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fired int
		w := New(0, func(*Timer[*owner], time.Time) { fired++ })
		for i := range 1000 {
			w.Set(&newOwner().timer, time.Duration(i)*time.Second)
		}
		time.Sleep(500 * time.Second) // Advance was not called for several rounds
		w.Advance(time.Now())
		if fired != 500 {
			t.Errorf("fired %d, want 500", fired)
		}
		time.Sleep(500 * time.Second)
		w.Advance(time.Now())
		if fired != 1000 || w.Len() != 0 {
			t.Errorf("fired %d, left %d, want all", fired, w.Len())
		}
	})
}

// TestConcurrentUseLosesNoTimer moves, stops and re-arms from many goroutines; at the end each armed timer fires.
func TestConcurrentUseLosesNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := running(t, nil)
		owners := make([]*owner, 64)
		for i := range owners {
			owners[i] = newOwner()
		}
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 1))
				for range 2000 {
					o := owners[r.IntN(len(owners))]
					switch r.IntN(8) {
					case 0:
						w.Stop(&o.timer)
					case 1:
						time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
					default:
						w.Set(&o.timer, time.Duration(r.IntN(5000))*time.Millisecond)
					}
				}
			})
		}
		wg.Wait()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, o := range owners {
			o.fired = nil
			w.Set(&o.timer, 5*time.Second)
		}
		if w.Len() != len(owners) {
			t.Errorf("%d armed, want %d", w.Len(), len(owners))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for i, o := range owners {
			if len(o.fired) != 1 {
				t.Errorf("timer %d fired %d times, want once", i, len(o.fired))
			}
		}
	})
}

func TestArmingAllocatesNothing(t *testing.T) {
	w, o := New(0, func(*Timer[*owner], time.Time) {}), newOwner()
	n := testing.AllocsPerRun(100, func() {
		w.Set(&o.timer, time.Hour)
		w.Set(&o.timer, 2*time.Hour)
		w.Set(&o.timer, time.Minute)
		w.Stop(&o.timer)
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	w := New(0, func(*Timer[*owner], time.Time) {})
	b.RunParallel(func(pb *testing.PB) {
		o := newOwner()
		for pb.Next() {
			w.Set(&o.timer, 30*time.Second)
		}
	})
}
