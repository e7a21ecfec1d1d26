package reconcile_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/reconcile"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a log and a mailbox in memory.
type world struct {
	mu     sync.Mutex
	events []event.Event
	gaps   []event.Gap
	copies []mailbox.Change
	late   []event.Event // events that another node emits after the mailbox was read
	cutoff time.Time
}

func (w *world) Emit(evs []event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range evs {
		e.ID = event.IDAt(time.Now()) + uint64(len(w.events))
		w.events = append(w.events, e)
	}
}

func (w *world) Read(_ context.Context, app string, since uint64, limit int, _ bool) (evs []event.Event, last uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last = since
	for _, e := range w.events {
		if e.ID > since && e.App == app && len(evs) < limit {
			evs, last = append(evs, e), e.ID
		}
	}
	return evs, last, nil
}

func (w *world) CutOff(_ context.Context, age time.Duration) (time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutoff = time.Now().Add(-age)
	return w.cutoff, nil
}

func (w *world) Last() uint64                { return 0 }
func (w *world) Flush(context.Context) error { return nil }

func (w *world) Gaps(context.Context, func(context.Context) ([]string, error)) ([]event.Gap, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.gaps), nil
}

func (w *world) Repaired(context.Context, []event.Gap) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gaps = nil
	return nil
}

func (w *world) Changed(_ context.Context, since time.Time, place int64) (list []mailbox.Change, next int64, err error) {
	if place == int64(len(w.copies)) {
		w.Emit(w.late)
		w.late = nil
		return nil, 0, nil
	}
	c := w.copies[place]
	if c.CreatedAt.Before(since) && c.SettledAt.Before(since) {
		return nil, place + 1, nil
	}
	return []mailbox.Change{c}, place + 1, nil
}

// names are events in short.
func names(evs []event.Event) (list []string) {
	for _, e := range evs {
		list = append(list, fmt.Sprintf("%s %s %s %s %t", e.App, e.Type, e.Note, e.To, e.Reconciled))
	}
	slices.Sort(list)
	return list
}

func TestMissingEventsAreEmittedOnceAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := &world{}
		add := func(id string, stored, delivered, settled time.Duration, as notification.Status) {
			at := func(d time.Duration) time.Time {
				if d < 0 {
					return time.Time{}
				}
				return start.Add(d)
			}
			w.copies = append(w.copies, mailbox.Change{App: "shop", Record: mailbox.Record{
				ID: id, To: "ann", Status: as, CreatedAt: at(stored), DeliveredAt: at(delivered), SettledAt: at(settled),
			}})
		}
		emit := func(t event.Type, id string) {
			w.Emit([]event.Event{{App: "shop", Type: t, At: time.Now(), Note: id, To: "ann"}})
		}
		add("long-ago", time.Second, time.Second, time.Second, notification.Acked) // the log does not keep its events any more
		add("away", 0, -1, 40*time.Minute, notification.Expired)                   // expired while no server ran, and was reported as soon as one started
		add("away-untold", 0, -1, 41*time.Minute, notification.Expired)
		time.Sleep(time.Hour)
		emit(event.Expired, "away")
		add("whole", time.Hour, time.Hour, time.Hour, notification.Acked)
		emit(event.Stored, "whole")
		emit(event.Delivered, "whole")
		emit(event.Acked, "whole")
		whole := time.Now()
		time.Sleep(time.Second)
		add("lost", time.Hour+time.Second, time.Hour+time.Second, time.Hour+time.Second, notification.Acked)
		add("half", time.Hour, -1, time.Hour+time.Second, notification.Recalled)
		emit(event.Stored, "half")
		add("open", time.Hour+time.Second, -1, -1, notification.Stored)
		add("under-way", time.Hour+time.Second, -1, -1, notification.Stored)
		w.late = []event.Event{{App: "shop", Type: event.Stored, Note: "under-way", To: "ann", At: time.Now()}}
		w.gaps = []event.Gap{{Lost: 1, From: whole, Since: start.Add(30 * time.Minute)}}

		m := reconcile.New(reconcile.Config{Log: w, Changes: w, Notes: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = m.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		<-done
		if len(w.gaps) > 0 {
			t.Errorf("%+v is not mended", w.gaps)
		}
		var made []event.Event
		for _, e := range w.events {
			if e.Reconciled {
				made = append(made, e)
			}
		}
		want := []string{
			"shop acked lost ann true", "shop delivered lost ann true", "shop expired away-untold ann true",
			"shop recalled half ann true", "shop stored lost ann true", "shop stored open ann true",
		}
		if got := names(made); !slices.Equal(got, want) {
			t.Errorf("made anew:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// A node that is committing emits its event only after the commit. If the reconciler recreated the event before that, it would be reported
// twice.
func TestEventsAfterRoundStartAreLeftToNextRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{gaps: []event.Gap{{Lost: 1, From: time.Now(), Since: time.Now()}}}
		for id, at := range map[string]time.Duration{"before": -time.Second, "after": time.Second} {
			w.copies = append(w.copies, mailbox.Change{App: "shop", Record: mailbox.Record{ID: id, To: "ann", CreatedAt: time.Now().Add(at)}})
		}
		m := reconcile.New(reconcile.Config{Log: w, Changes: w, Notes: slog.New(slog.DiscardHandler)})
		mend := func(gaps int, want ...string) {
			t.Helper()
			begun := time.Now()
			if found, err := m.Reconcile(t.Context()); err != nil || !found {
				t.Fatalf("found: %t, %v", found, err)
			}
			if got := names(w.events); !slices.Equal(got, want) || len(w.gaps) != gaps || !w.cutoff.Equal(begun) {
				t.Errorf("%q are told, %d gaps are left, events from before %v are refused; want %q, %d, %v", got, len(w.gaps), w.cutoff, want, gaps, begun)
			}
		}
		mend(1, "shop stored before ann true")
		mend(0, "shop stored after ann true", "shop stored before ann true")
	})
}

func TestFirstDeliveriesThatTheLogHasFromBeforeACrashAreKnownOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		emit := func(app string, t event.Type, id string) {
			w.Emit([]event.Event{{App: app, Type: t, At: time.Now(), Note: id, To: "ann"}})
		}
		emit("shop", event.Delivered, "long-ago")
		time.Sleep(time.Hour)
		emit("shop", event.Stored, "n1")
		emit("shop", event.Delivered, "n1")
		emit("other", event.Delivered, "n2")
		emit("shop", event.Delivered, "n3")
		m := reconcile.New(reconcile.Config{Log: w, Changes: w, Notes: slog.New(slog.DiscardHandler)})
		asked := func(reported *reconcile.Reported, app string) (known []string) {
			for _, id := range []string{"long-ago", "n1", "n2", "n3"} {
				if reported.Take(app, id, "ann") {
					known = append(known, id)
				}
			}
			return known
		}
		reported, err := m.Reported(t.Context(), []string{"shop", "other"})
		if got := asked(reported, "shop"); err != nil || len(got) > 0 {
			t.Errorf("after an orderly stop %q are known, %v", got, err)
		}
		w.gaps = []event.Gap{{Lost: 1, From: time.Now(), Since: time.Now()}}
		reported, err = m.Reported(t.Context(), []string{"shop", "other"})
		if got, want := asked(reported, "shop"), []string{"n1", "n3"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%q are known, want %q, %v", got, want, err)
		}
		if got := asked(reported, "shop"); len(got) > 0 {
			t.Errorf("%q are known once more", got)
		}
		time.Sleep(2 * time.Hour)
		if got := asked(reported, "other"); len(got) > 0 {
			t.Errorf("%q are known after hours", got)
		}
	})
}
