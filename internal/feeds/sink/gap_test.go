package sink_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/sqlite/eventdb"
)

// clock is the store's clock, which a test moves.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.at.Load()).UTC() }

// forget waits until the log has deleted its old events.
func (w *world) forget() {
	w.Helper()
	if err := w.events.Flush(w.Context()); err != nil {
		w.Fatal(err)
	}
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		gone, err := w.events.Gone(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		if gone > 0 {
			return
		}
		if time.Since(begun) > time.Minute {
			w.Fatal("the log has deleted nothing")
		}
	}
}

// TestEventsPrunedBeforeSinkReadThemAreRebuilt uses a log that keeps events for an hour, a sink that is away for three hours and a server
// that ends meanwhile.
func TestEventsPrunedBeforeSinkReadThemAreRebuilt(t *testing.T) {
	c := &clock{}
	c.at.Store(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).UnixMilli())
	w := newWorld(t)
	w.stop()
	_ = w.events.Close()
	w.kept = eventdb.Options{MaxAge: time.Hour, Now: c.now}
	w.openLog()
	w.start()
	w.set(sink.Change{})

	// settles stores a copy and acknowledges it a second later, in the records of the mailboxes and the log.
	settles := func(app, id string) {
		c.at.Add(1000)
		created := c.now()
		c.at.Add(1000)
		w.mu.Lock()
		w.copies = append(w.copies, mailbox.Change{App: app, Record: mailbox.Record{ID: id, To: "ann", Status: notification.Acked, CreatedAt: created, SettledAt: c.now()}})
		w.mu.Unlock()
		w.events.Emit([]event.Event{{App: app, Type: event.Stored, At: created, Note: id, To: "ann"}, {App: app, Type: event.Acked, At: c.now(), Note: id, To: "ann"}})
	}
	settles("shop", "had")
	w.until("the first are there", func(i sink.Info) bool { return i.Written == 2 })

	w.mu.Lock()
	w.answer = func(int) error { return &push.RetryError{Reason: "away"} }
	w.mu.Unlock()
	for i := range 5 {
		settles("shop", fmt.Sprint("lost", i))
		settles("other", fmt.Sprint("foreign", i))
	}
	w.until("it fails", func(i sink.Info) bool { return i.State == sink.Failing })
	w.stop()
	c.at.Add(3 * time.Hour.Milliseconds())
	settles("shop", "late")
	w.forget()

	w.mu.Lock()
	before := len(w.batches)
	w.answer = func(attempt int) error { // the sink stores a batch, but its answer is lost
		if attempt%2 == 0 {
			return &push.RetryError{Reason: "no answer"}
		}
		return nil
	}
	w.mu.Unlock()
	w.start()
	w.until("all are there", func(i sink.Info) bool { return i.Written == 14 && i.State == sink.Writing })
	info, err := w.sinks.Get(t.Context(), "shop", clickhouse.Name)
	if err != nil || info.Gaps != 1 || info.Reconciled != 10 {
		t.Errorf("%d gaps, %d events made anew, %v; want 1 and 10", info.Gaps, info.Reconciled, err)
	}
	var got []string
	ids := map[uint64]bool{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.batches[before:] {
		for _, e := range b {
			got = append(got, fmt.Sprint(e.Type, " ", e.Note, " ", e.Reconciled))
			ids[e.ID] = true
		}
	}
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprintf("stored lost%d true", i), fmt.Sprintf("acked lost%d true", i))
	}
	want = append(want, "stored late false", "acked late false")
	if !slices.Equal(got, want) || len(ids) != len(want) {
		t.Errorf("%d ids, and there came\n%s\nwant\n%s", len(ids), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestASinkThatBeginsWithAllThatThereIsMissesNothing(t *testing.T) {
	c := &clock{}
	c.at.Store(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).UnixMilli())
	w := newWorld(t)
	w.stop()
	_ = w.events.Close()
	w.kept = eventdb.Options{MaxAge: time.Hour, Now: c.now}
	w.openLog()
	w.emit(0, 3)
	if err := w.events.Flush(t.Context()); err != nil { // under ids of now
		t.Fatal(err)
	}
	c.at.Add(3 * time.Hour.Milliseconds())
	w.forget()
	w.start()
	all := true
	w.set(sink.Change{Backfill: &all})
	w.emit(3, 3)
	w.until("what is left is there", func(i sink.Info) bool { return i.Written == 3 && i.Gaps == 0 })
}
