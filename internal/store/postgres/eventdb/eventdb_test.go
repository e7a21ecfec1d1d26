package eventdb

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(t testing.TB) Config { return Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t)} }

func open(t testing.TB, cfg Config) *Log {
	t.Helper()
	l, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// opener makes a new schema and returns a function that opens a log on it, and that first closes the log of its previous call.
func opener(t *testing.T) (open1 func() *Log) {
	t.Helper()
	cfg := config(t)
	var l *Log
	return func() *Log {
		t.Helper()
		if l != nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		l = open(t, cfg)
		return l
	}
}

func TestConformance(t *testing.T) {
	storetest.RunEvents(t, func(t *testing.T) (event.Log, func() event.Log) {
		open := opener(t)
		return open(), func() event.Log { return open() }
	}, func(t *testing.T, now func() time.Time) (a, b event.Log) {
		cfg := config(t)
		cfg.Now = now
		return open(t, cfg), open(t, cfg)
	})
}

func TestProgressConformance(t *testing.T) {
	storetest.RunProgress(t, func(t *testing.T) (hook.ProgressStore, func() hook.ProgressStore) {
		open := opener(t)
		return open(), func() hook.ProgressStore { return open() }
	}, func(t *testing.T, now func() time.Time) (a, b hook.ProgressStore) {
		cfg := config(t)
		cfg.Now = now
		return open(t, cfg), open(t, cfg)
	})
}

func TestSinkProgressConformance(t *testing.T) {
	storetest.RunSinkProgress(t, func(t *testing.T) (sink.ProgressStore, func() sink.ProgressStore) {
		open := opener(t)
		return open(), func() sink.ProgressStore { return open() }
	})
}

func ev(app string, n int) event.Event {
	return event.Event{App: app, Type: event.Types[n%len(event.Types)], At: time.UnixMilli(int64(1_700_000_000_000 + n)).UTC(), Note: fmt.Sprint("note-", n), To: "driver"}
}

// emitAndWait has n events stored.
func emitAndWait(t *testing.T, l *Log, app string, from, n int) {
	t.Helper()
	since := l.Last()
	for i := range n {
		l.Emit([]event.Event{ev(app, from+i)})
	}
	readAll(t, l, app, since, from, n)
}

func readAll(t *testing.T, l *Log, app string, since uint64, from, n int) (last uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("the events did not come"))
	defer cancel()
	for got := 0; got < n; {
		evs, to, err := l.Read(ctx, app, since, 1000, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range evs {
			if want := ev(app, from+got); e.Note != want.Note || e.ID <= since {
				t.Fatalf("event %d is %+v, want %+v", got, e, want)
			}
			since = e.ID
			got++
		}
		since = to
	}
	return since
}

func TestOldEventsAreDeleted(t *testing.T) {
	cfg := config(t)
	now := time.Now()
	cfg.Now, cfg.MaxAge = func() time.Time { return now }, time.Hour
	l := open(t, cfg)
	emitAndWait(t, l, "a", 0, 10)
	last := readAll(t, l, "a", 0, 0, 10)
	now = now.Add(30 * time.Minute)
	emitAndWait(t, l, "a", 10, 10)
	now = now.Add(31 * time.Minute)
	if err := l.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	readAll(t, open(t, cfg), "a", 0, 10, 10)
	if bytes, rows := size(t, l); bytes != rows {
		t.Errorf("%d bytes are counted and %d are there", bytes, rows)
	}
	if gone, err := l.Gone(t.Context()); err != nil || gone != last {
		t.Errorf("events up to %d are said to be deleted (%v), want %d", gone, err, last)
	}
}

// size returns the counted bytes, and the bytes that exist.
func size(t *testing.T, l *Log) (counted, there int64) {
	t.Helper()
	err := l.db.Pool().QueryRow(t.Context(), "SELECT bytes, (SELECT coalesce(sum(octet_length(data)), 0) FROM chunk) FROM head").Scan(&counted, &there)
	if err != nil {
		t.Fatal(err)
	}
	return counted, there
}

func TestNoMoreIsKeptThanIsAllowed(t *testing.T) {
	cfg := config(t)
	cfg.MaxBytes = 4000
	l := open(t, cfg)
	for i := range 10 {
		emitAndWait(t, l, "a", i*50, 50)
	}
	before, _ := size(t, l)
	if err := l.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, there := size(t, l); after != there || before <= cfg.MaxBytes || after > cfg.MaxBytes || after < cfg.MaxBytes/2 {
		t.Errorf("of %d bytes %d are left, counted as %d; %d are allowed", before, there, after, cfg.MaxBytes)
	}
}

func TestAFollowerIsToldWhatOtherNodesStore(t *testing.T) {
	cfg := config(t)
	a, b := open(t, cfg), open(t, cfg)
	done := make(chan struct{})
	go func() {
		defer close(done)
		readAll(t, b, "a", 0, 0, 300)
	}()
	for i := range 30 {
		emitAndWait(t, a, "a", i*10, 10)
		b.Emit([]event.Event{ev("b", i)})
	}
	<-done
	readAll(t, a, "b", 0, 0, 30)
}

func TestEventsDuringDatabaseOutageAreStoredLater(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	l := open(t, Config{URL: server.URL()})
	emitAndWait(t, l, "a", 0, 10)
	last := l.Last()
	if _, err := l.DB().Pool().Exec(t.Context(), "CHECKPOINT"); err != nil { // commits of events do not wait for the disk
		t.Fatal(err)
	}
	server.Kill()
	for i := range 10 {
		l.Emit([]event.Event{ev("a", 10+i)})
	}
	if _, _, err := l.Read(t.Context(), "a", last+1, 10, false); err == nil {
		t.Error("a read of what is not known here succeeded")
	}
	server.Restart(t)
	for { // after a failure the log queries the database only once in a while
		if _, _, err := l.Read(t.Context(), "a", l.Last(), 10, false); err == nil {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the log never recovers")
		}
		time.Sleep(10 * time.Millisecond)
	}
	readAll(t, l, "a", 0, 0, 20)
	if s := l.Stats(); s.Dropped != 0 || s.QueuedBytes != 0 {
		t.Errorf("%+v", s)
	}
}

func TestADatabaseThatStaysAwayCostsTheLastEventsAndNoTime(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	l := open(t, Config{URL: server.URL()})
	server.Kill()
	l.Emit([]event.Event{ev("a", 0)})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if s := l.Stats(); s.Dropped != 1 {
		t.Errorf("%+v, want the event counted as lost", s)
	}
}

// BenchmarkStore measures the commits a second of all nodes together: each commit locks one row.
func BenchmarkStore(b *testing.B) {
	for _, nodes := range []int{1, 4} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			server := pgtest.Start(b, pgtest.Options{Fsync: true})
			b.ResetTimer()
			work := make(chan int)
			done := make(chan error)
			for range nodes {
				l := open(b, Config{URL: server.URL()})
				go func() {
					for range work {
						for i := range 100 {
							l.queue.Emit([]event.Event{ev("demo", i)})
						}
						chunks, _ := l.queue.Take()
						if _, err := l.store(context.Background(), chunks, time.Now()); err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			for i := range b.N {
				work <- i
			}
			close(work)
			for range nodes {
				if err := <-done; err != nil {
					b.Error(err)
				}
			}
		})
	}
}
