package sink_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/reconcile"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/eventdb"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kind is the ClickHouse kind with another writer.
type kind struct {
	clickhouse.Kind
	to sink.Writer
}

func (k kind) Open(sink.Target) (sink.Writer, error) { return k.to, nil }

// values makes settings from alternating names and values of fields.
func values(of ...any) setting.Values {
	v := setting.Values{}
	for i := 0; i < len(of); i += 2 {
		v[of[i].(string)] = setting.JSON(of[i+1])
	}
	return v
}

// world is sinks on real files with a writer that accepts or refuses events as the test sets it.
type world struct {
	*testing.T
	apps   *appdb.Store
	events *eventdb.Log
	sinks  *sink.Service
	cancel func() // begins the stop
	stop   func()

	mu      sync.Mutex
	batches [][]event.Event
	answer  func(attempt int) error
	tries   int

	dir    string
	kept   eventdb.Options
	copies []mailbox.Change // what the mailboxes know
}

// Changed is mailbox.Changes, two copies at a time.
func (w *world) Changed(_ context.Context, since time.Time, place int64) (list []mailbox.Change, next int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = min(place+2, int64(len(w.copies)))
	for _, c := range w.copies[place:next] {
		if !c.CreatedAt.Before(since) || !c.SettledAt.Before(since) {
			list = append(list, c)
		}
	}
	if next == int64(len(w.copies)) {
		next = 0
	}
	return list, next, nil
}

func (w *world) Write(_ context.Context, evs []event.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tries++
	if w.answer != nil {
		if err := w.answer(w.tries); err != nil {
			return err
		}
	}
	w.batches = append(w.batches, slices.Clone(evs))
	return nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t}
	dir := t.TempDir()
	w.dir = dir
	var err error
	if w.apps, err = appdb.Open(t.Context(), filepath.Join(dir, "apps.db"), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	w.openLog()
	if err := w.apps.CreateApp(t.Context(), access.App{Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	w.start()
	t.Cleanup(func() {
		w.stop()
		_ = w.events.Close()
		_ = w.apps.Close()
	})
	return w
}

func (w *world) openLog() {
	w.Helper()
	var err error
	if w.events, err = eventdb.Open(w.Context(), filepath.Join(w.dir, "events.db"), w.kept); err != nil {
		w.Fatal(err)
	}
}

func (w *world) start() {
	w.Helper()
	var err error
	w.sinks, err = sink.New(w.Context(), sink.Config{
		Store: &w.apps.Sinks, Progress: w.events, Events: w.events, Past: reconcile.Past{Log: w.events, Changes: w}, Now: w.kept.Now, Log: slog.New(slog.DiscardHandler),
		Kinds: map[string]sink.Kind{clickhouse.Name: kind{to: w}},
	})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.sinks.Run(ctx) }()
	w.cancel, w.stop = cancel, func() { cancel(); <-done }
}

func (w *world) set(c sink.Change) sink.Info {
	w.Helper()
	c.Values = values("url", "http://ch.example:8123")
	info, _, err := w.sinks.Set(w.Context(), "shop", clickhouse.Name, c)
	if err != nil {
		w.Fatal(err)
	}
	return info
}

func (w *world) emit(from, n int) {
	for i := range n {
		w.events.Emit([]event.Event{{App: "shop", Type: event.Stored, At: time.Now(), Note: fmt.Sprint("n", from+i), To: "ann"}})
	}
}

// until waits until ok accepts the sink's state.
func (w *world) until(what string, ok func(sink.Info) bool) {
	w.Helper()
	var info sink.Info
	var err error
	if !eventually.Holds(func() bool {
		info, err = w.sinks.Get(w.Context(), "shop", clickhouse.Name)
		return err == nil && ok(info)
	}) {
		w.Fatalf("%s: %+v, %v", what, info, err)
	}
}

func (w *world) notes() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.batches {
		for _, e := range b {
			list = append(list, e.Note)
		}
	}
	return list
}

func TestASinkGetsEachEventOnceAcrossRestarts(t *testing.T) {
	w := newWorld(t)
	w.emit(0, 3)
	if err := w.events.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	backfill := true
	w.set(sink.Change{Backfill: &backfill})
	var want []string
	for round := range 3 {
		w.emit(3+round*10, 10)
		w.until("all are there", func(i sink.Info) bool { return i.Written == uint64(13+round*10) && i.State == sink.Writing })
		w.stop()
		w.start()
	}
	for i := range 33 {
		want = append(want, fmt.Sprint("n", i))
	}
	if got := w.notes(); !slices.Equal(got, want) {
		t.Errorf("%d events came: %v", len(got), got)
	}
}

// TestLagIsTheAgeOfTheOldestEventThatWaits: a sink that has never written, or not for a long time, has the lag of its oldest waiting event.
func TestLagIsTheAgeOfTheOldestEventThatWaits(t *testing.T) {
	w := newWorld(t)
	begun := time.Now()
	lag := func() time.Duration {
		info, err := w.sinks.Get(w.Context(), "shop", clickhouse.Name)
		if err != nil {
			w.Fatal(err)
		}
		return info.Lag(time.Now())
	}
	w.answer = func(int) error { return &push.RetryError{Reason: "no"} }
	for _, backfill := range []bool{false, true} {
		w.set(sink.Change{Backfill: &backfill})
		if got := lag(); got != 0 {
			t.Errorf("with no event, backfill %v: %s", backfill, got)
		}
		if err := w.sinks.Delete(t.Context(), "shop", clickhouse.Name, setting.Match{}); err != nil {
			t.Fatal(err)
		}
	}
	backfill := true
	w.set(sink.Change{Backfill: &backfill})
	w.events.Emit([]event.Event{{App: "another", Type: event.Stored, At: time.Now(), Note: "n", To: "ann"}})
	if err := w.events.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := lag(); got != 0 {
		t.Errorf("with another app's event: %s", got)
	}
	w.emit(0, 1)
	w.until("it fails", func(i sink.Info) bool { return i.State == sink.Failing })
	if got, most := lag(), time.Since(begun); got > most+time.Second {
		t.Errorf("%s with an event of %s ago at most", got, most)
	}
	w.mu.Lock()
	w.answer = nil
	w.mu.Unlock()
	w.set(sink.Change{}) // tries at once
	w.until("all is written", func(i sink.Info) bool { return i.Written == 1 && i.Lag(time.Now()) == 0 })
}

func TestABatchThatIsTakenWhileTheServerStopsDoesNotComeAgain(t *testing.T) {
	w := newWorld(t)
	w.answer = func(int) error {
		w.cancel()
		return nil
	}
	w.set(sink.Change{})
	w.emit(0, 5)
	w.until("it is taken", func(i sink.Info) bool { return i.Written == 5 })
	w.stop()
	w.mu.Lock()
	w.answer = nil
	w.mu.Unlock()
	w.start()
	w.emit(5, 1)
	w.until("the next one is there", func(i sink.Info) bool { return i.Written == 6 })
	if got, want := w.notes(), []string{"n0", "n1", "n2", "n3", "n4", "n5"}; !slices.Equal(got, want) {
		t.Errorf("%v came, want %v", got, want)
	}
}

func TestSinkBatchWithoutAnswerIsRepeatedUnchanged(t *testing.T) {
	w := newWorld(t)
	asked := make(chan struct{})
	var once sync.Once
	w.answer = func(int) error {
		once.Do(func() { close(asked) })
		return &push.RetryError{Reason: "no answer"}
	}
	w.set(sink.Change{})
	w.emit(0, 5)
	<-asked
	w.until("it fails", func(i sink.Info) bool { return i.State == sink.Failing && i.Error == "no answer" && !i.Since.IsZero() })
	w.stop()
	w.emit(5, 5)
	if err := w.events.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.answer = nil
	w.mu.Unlock()
	w.start()
	w.until("all are there", func(i sink.Info) bool { return i.Written == 10 })
	if len(w.batches[0]) > 5 || len(w.notes()) != 10 {
		t.Errorf("the batch of %d events that was under way came again with %d", 5, len(w.batches[0]))
	}
}

func TestARefusalStopsASinkUntilItIsSetAgain(t *testing.T) {
	w := newWorld(t)
	w.answer = func(int) error { return &sink.StopError{Reason: "ClickHouse answered 403: wrong password"} }
	w.set(sink.Change{})
	w.emit(0, 5)
	stopped := func(i sink.Info) bool {
		return i.State == sink.Stopped && i.Error == "ClickHouse answered 403: wrong password"
	}
	w.until("it has stopped", stopped)
	w.stop()
	w.start()
	w.until("it is stopped after a start", stopped)
	if w.tries != 1 {
		t.Errorf("%d attempts", w.tries)
	}
	w.mu.Lock()
	w.answer = nil
	w.mu.Unlock()
	w.set(sink.Change{})
	w.until("it goes on", func(i sink.Info) bool { return i.Written == 5 && i.State == sink.Writing })
}

func TestAFormerOwnerSavesNothing(t *testing.T) {
	w := newWorld(t)
	first, p, err := w.events.OwnSinkProgress(t.Context(), "shop", clickhouse.Name)
	if err != nil || p != nil {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := w.events.SaveSinkProgress(t.Context(), "shop", clickhouse.Name, first, &sink.Progress{Cursor: 7}); err != nil {
		t.Fatal(err)
	}
	second, p, err := w.events.OwnSinkProgress(t.Context(), "shop", clickhouse.Name)
	if err != nil || p == nil || p.Cursor != 7 || second <= first {
		t.Fatalf("%d after %d, %+v, %v", second, first, p, err)
	}
	if err := w.events.SaveSinkProgress(t.Context(), "shop", clickhouse.Name, first, &sink.Progress{Cursor: 8}); !errors.Is(err, sink.ErrFormer) {
		t.Errorf("a former owner: %v", err)
	}
}

func TestASinkMayLeadToAPrivateAddressWhileItsURLStays(t *testing.T) {
	w := newWorld(t)
	off := false
	for _, step := range []struct {
		c    sink.Change
		want bool
	}{
		{sink.Change{Values: values("url", "http://a"), Private: true}, true},
		{sink.Change{Enabled: &off}, true},
		{sink.Change{Values: values("url", "http://a", "user", "u")}, true},
		{sink.Change{Values: values("url", "http://b")}, false},
		{sink.Change{Values: values("url", "http://a")}, false},
	} {
		if info, _, err := w.sinks.Set(t.Context(), "shop", clickhouse.Name, step.c); err != nil || info.Private != step.want {
			t.Errorf("after %+v: %t, %v; want %t", step.c, info.Private, err, step.want)
		}
	}
}

func TestASinksPasswordGoesToNoOtherServer(t *testing.T) {
	w := newWorld(t)
	set := func(of ...any) error {
		_, _, err := w.sinks.Set(t.Context(), "shop", clickhouse.Name, sink.Change{Values: values(of...)})
		return err
	}
	for _, step := range []struct {
		of      []any
		refused bool
	}{
		{[]any{"url", "http://a", "user", "u", "password", "sekret"}, false},
		{[]any{"url", "http://evil"}, true},
		{[]any{"user", "v"}, true},
		{[]any{"url", "http://a:80/", "keep", 48 * time.Hour}, false},
		{[]any{"url", "http://b", "password", "sekret"}, false},
		{[]any{"url", "http://c", "password", ""}, false},
		{[]any{"url", "http://d"}, false},
	} {
		if err := set(step.of...); (err != nil) != step.refused || err != nil && !strings.Contains(err.Error(), "password: was stored for") {
			t.Errorf("%v: %v", step.of, err)
		}
	}
}

func TestBadSettingsNameTheirField(t *testing.T) {
	w := newWorld(t)
	for field, v := range map[string]setting.Values{
		"url": values("url", "ftp://x"), "url must not": values("url", "http://u:sekret@x"), "database": values("url", "http://x", "database", "a b"),
		"keep": values("url", "http://x", "keep", time.Hour),
	} {
		if _, _, err := w.sinks.Set(t.Context(), "shop", clickhouse.Name, sink.Change{Values: v}); err == nil || !strings.HasPrefix(errors.Unwrap(err).Error(), strings.Fields(field)[0]) {
			t.Errorf("%s was taken, or refused by another name: %v", field, err)
		}
	}
}
