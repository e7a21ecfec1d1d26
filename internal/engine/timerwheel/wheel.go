// Package timerwheel keeps very many coarse timers cheaply: a hashed wheel of intrusive slots. Arming, moving and
// stopping a timer allocates nothing, and moving one later (what a heartbeat does on every frame) takes no lock.
package timerwheel

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// slots is how many ticks one round of the wheel takes. The wheel examines a timer further away than a round once a round: at 50 ms a tick
// that is every 102 s, so 100,000 day-long timers cost a thousand looks a second.
const slots = 2048

// DefaultTick is fine enough for heartbeats and redelivery, and wakes an idle owner only 20 times a second.
const DefaultTick = 50 * time.Millisecond

// Timer is one timer, embedded in the value that it belongs to. The zero value with Owner set is ready. A Timer belongs to one wheel and
// must not be copied after it was armed.
type Timer[T any] struct {
	Owner T

	when atomic.Int64 // tick at which the timer is due, never before the slot it is linked in; 0: not armed
	next *Timer[T]
	at   **Timer[T] // the pointer that links this timer; nil: not linked. Wheel.mu guards it, like next.
}

// Wheel runs timers of one kind. Set and Stop may be called from any goroutine, also from within the callback.
type Wheel[T any] struct {
	tick  time.Duration
	start time.Time
	fire  func(t *Timer[T], now time.Time)

	mu    sync.Mutex
	slot  [slots]*Timer[T]
	due   *Timer[T] // taken from their slots, not fired yet
	done  int64     // last tick that was handled
	count atomic.Int64
}

// New makes a wheel that calls fire for every timer that is due, from the goroutine that runs Advance (or Run), holding no lock. A tick of
// 0 means DefaultTick.
func New[T any](tick time.Duration, fire func(t *Timer[T], now time.Time)) *Wheel[T] {
	if tick <= 0 {
		tick = DefaultTick
	}
	return &Wheel[T]{tick: tick, start: time.Now(), fire: fire}
}

// Set arms t to fire once, at the earliest after d and normally within two ticks after that. If t is armed already, Set moves it. A d of
// zero or less fires at the next tick.
func (w *Wheel[T]) Set(t *Timer[T], d time.Duration) {
	when := w.dueTick(d)
	for {
		old := t.when.Load()
		if old == 0 || when < old {
			break
		}
		// Later than before: leave the timer where it is linked; the wheel moves it when it gets there.
		if t.when.CompareAndSwap(old, when) {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.when.Store(when)
	w.unlink(t)
	w.place(t, when)
}

// Stop disarms t and reports whether it was armed. It does not wait for a callback that has begun.
func (w *Wheel[T]) Stop(t *Timer[T]) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	armed := t.when.Swap(0) != 0
	w.unlink(t)
	return armed
}

// Len counts the armed timers.
func (w *Wheel[T]) Len() int { return int(w.count.Load()) }

// Advance fires the timers that are due by now. Only one goroutine may call it at a time.
func (w *Wheel[T]) Advance(now time.Time) {
	tick := int64(now.Sub(w.start) / w.tick)
	w.mu.Lock()
	from := max(w.done+1, tick-slots+1) // after a long sleep one whole round reaches every slot
	for k := from; k <= tick; k++ {
		w.collect(k, tick)
	}
	w.done = max(w.done, tick)
	for {
		t := w.takeDue(tick)
		if t == nil {
			break
		}
		w.mu.Unlock()
		w.fire(t, now)
		w.mu.Lock()
	}
	w.mu.Unlock()
}

// Run advances the wheel every tick until ctx ends.
func (w *Wheel[T]) Run(ctx context.Context) {
	tk := time.NewTicker(w.tick)
	defer tk.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tk.C:
			w.Advance(time.Now())
		}
	}
}

// dueTick is the first tick that begins after d has passed, counted from the true time: the wheel may lag behind.
func (w *Wheel[T]) dueTick(d time.Duration) int64 {
	d = min(max(d, 0), 1<<61) // 73 years: far enough, and the sum below cannot overflow
	return int64((time.Since(w.start)+d)/w.tick) + 1
}

// collect visits the slot of tick k. It moves the timers that are due by tick to the due list, and the timers that were set to a later time
// to their new slots.
func (w *Wheel[T]) collect(k, tick int64) {
	var next *Timer[T]
	for t := w.slot[k&(slots-1)]; t != nil; t = next {
		next = t.next
		when := t.when.Load()
		switch {
		case when <= tick:
			w.unlink(t)
			w.link(t, &w.due)
		case when&(slots-1) != k&(slots-1):
			w.unlink(t)
			w.place(t, when)
		}
	}
}

// takeDue disarms and returns the next timer to fire. A timer that was set to a later time while it was in the due list goes back to a
// slot.
func (w *Wheel[T]) takeDue(tick int64) *Timer[T] {
	for t := w.due; t != nil; t = w.due {
		w.unlink(t)
		when := t.when.Load()
		if when <= tick && t.when.CompareAndSwap(when, 0) {
			return t
		}
		w.place(t, t.when.Load())
	}
	return nil
}

// place links t in the slot of tick when, or of the next tick that the wheel examines if when is past.
func (w *Wheel[T]) place(t *Timer[T], when int64) {
	w.link(t, &w.slot[max(when, w.done+1)&(slots-1)])
}

func (w *Wheel[T]) link(t *Timer[T], head **Timer[T]) {
	t.next = *head
	if t.next != nil {
		t.next.at = &t.next
	}
	t.at = head
	*head = t
	w.count.Add(1)
}

func (w *Wheel[T]) unlink(t *Timer[T]) {
	if t.at == nil {
		return
	}
	*t.at = t.next
	if t.next != nil {
		t.next.at = t.at
	}
	t.next, t.at = nil, nil
	w.count.Add(-1)
}
