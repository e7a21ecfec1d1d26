package eventdb

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/store/eventlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, path string, o Options) *Log {
	t.Helper()
	l, err := Open(t.Context(), path, o)
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

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "events.db") }

func ev(app string, n int) event.Event {
	return event.Event{App: app, Type: event.Types[n%len(event.Types)], At: time.UnixMilli(int64(1_700_000_000_000 + n)).UTC(), Note: fmt.Sprint("note-", n), To: fmt.Sprint("driver-", n%7)}
}

// readAll follows the log until it has n events.
func readAll(t *testing.T, l *Log, app string, since uint64, n, page int) []event.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var got []event.Event
	for len(got) < n {
		evs, last, err := l.Read(ctx, app, since, page, true)
		if err != nil {
			t.Fatalf("after %d of %d events: %v", len(got), n, err)
		}
		if last < since && since <= l.Last() {
			t.Fatalf("last went back from %d to %d", since, last)
		}
		since, got = last, append(got, evs...)
	}
	return got
}

func check(t *testing.T, got []event.Event, app string, first int) {
	t.Helper()
	for i, g := range got {
		want := ev(app, first+i)
		if i > 0 && g.ID <= got[i-1].ID {
			t.Fatalf("event %d: id %d after %d", i, g.ID, got[i-1].ID)
		}
		want.ID = g.ID
		if g != want {
			t.Fatalf("event %d is %+v, want %+v", i, g, want)
		}
	}
}

func TestCloseWritesWhatIsQueued(t *testing.T) {
	path := file(t)
	for i := range 20 {
		l := open(t, path, Options{})
		l.Emit([]event.Event{ev("a", i)})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if s := l.Stats(); s.Written != 1 || s.QueuedBytes != 0 {
			t.Fatalf("round %d: %+v", i, s)
		}
	}
	check(t, readAll(t, open(t, path, Options{}), "a", 0, 20, 100), "a", 0)
}

func TestFollowerBehindTheMemoryMissesNothing(t *testing.T) {
	l := open(t, file(t), Options{})
	l.Emit([]event.Event{ev("a", 0)})
	first := readAll(t, l, "a", 0, 1, 1)[0]
	n := 0
	for n < 120_000 { // more than the log keeps in memory
		batch := make([]event.Event, 12_000)
		for i := range batch {
			n++
			batch[i] = ev("a", n)
		}
		l.Emit(batch)
		readAll(t, l, "a", l.Last()-1, 1, 1)
	}
	check(t, readAll(t, l, "a", first.ID, n, 999), "a", 1)
}

func TestIdsGrowAlthoughTheClockIsSetBackAndEverythingWasDeleted(t *testing.T) {
	path := file(t)
	l := open(t, path, Options{})
	l.Emit([]event.Event{ev("a", 0)})
	last := l.Last()
	if ms := int64(last >> eventlog.IDShift); ms < time.Now().Add(-time.Minute).UnixMilli() {
		t.Errorf("id is of the time %d, not of now", ms)
	}
	readAll(t, l, "a", 0, 1, 1)
	if n, err := l.deleteOldest(t.Context(), 1<<63-1); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // inside the bubble it is the year 2000
		l, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		for i := range 10 {
			l.Emit([]event.Event{ev("a", i)})
			if l.Last() <= last {
				t.Fatalf("id %d after %d", l.Last(), last)
			}
			last = l.Last()
		}
	})
}

func TestOldEventsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(t.Context(), file(t), Options{MaxAge: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		l.Emit([]event.Event{ev("a", 0)})
		gone := l.Last()
		time.Sleep(30 * time.Second)
		l.Emit([]event.Event{ev("a", 1)})
		time.Sleep(35 * time.Second)
		evs, err := l.readFile(t.Context(), "a", 0, 10)
		if err != nil || len(evs) != 1 {
			t.Fatalf("%d events are left (%v), want the younger one", len(evs), err)
		}
		check(t, evs, "a", 1)
		if id, err := l.Gone(t.Context()); err != nil || id != gone {
			t.Errorf("events up to %d are said to be deleted (%v), want %d", id, err, gone)
		}
	})
}

// The machine's clock may be set while the server runs: ages of events follow the store's clock, which does not jump.
func TestEventsAreAsOldAsTheStoresClockSays(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Date(2003, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	l, err := Open(t.Context(), file(t), Options{MaxAge: time.Minute, Now: func() time.Time { return time.Unix(0, now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	left := func() int {
		t.Helper()
		l.prune(t.Context())
		evs, err := l.readFile(t.Context(), "a", 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(evs)
	}
	before := l.Last()
	l.Emit([]event.Event{ev("a", 0)})
	if _, _, err := l.Read(t.Context(), "a", before, 1, true); err != nil { // until it is written
		t.Fatal(err)
	}
	if n := left(); n != 1 {
		t.Fatalf("%d events are left: that of this minute was taken for one of years ago", n)
	}
	first := l.Last()
	now.Add(-int64(time.Hour))
	l.Emit([]event.Event{ev("a", 1)})
	if l.Last() <= first {
		t.Error("ids went back with the clock")
	}
	now.Add(int64(2 * time.Hour))
	if n := left(); n != 0 {
		t.Errorf("%d events are left when they are an hour old", n)
	}
}

func TestFileStaysWithinItsSize(t *testing.T) {
	const most = 3 << 20
	l := open(t, file(t), Options{MaxBytes: most})
	for range 30 {
		emitAndWait(t, l, 4000)
		l.prune(t.Context())
	}
	used, _, err := l.space(t.Context())
	if err != nil || used > most {
		t.Errorf("%d bytes are used (%v), want at most %d", used, err, most)
	}
	if used < most/2 {
		t.Errorf("only %d bytes are left of at most %d", used, most)
	}
}

func emitAndWait(t *testing.T, l *Log, n int) {
	t.Helper()
	batch := make([]event.Event, n)
	for i := range batch {
		batch[i] = ev("a", i)
		batch[i].Note = rand.Text() // does not compress, so that the file's size is meaningful
	}
	l.Emit(batch)
	readAll(t, l, "a", l.Last()-1, 1, 1)
}

func TestLogShortOfDiskTakesNoMoreThanItHas(t *testing.T) {
	free := int64(1 << 40)
	l := open(t, file(t), Options{Free: func() int64 { return free }, MinFree: 1 << 20})
	for range 10 {
		emitAndWait(t, l, 2000)
	}
	used, unused, err := l.space(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	free = 1000
	for range 30 {
		emitAndWait(t, l, 2000)
	}
	used2, unused2, err := l.space(t.Context())
	if err != nil || used2+unused2 > used+unused {
		t.Errorf("the file grew from %d to %d bytes (%v)", used+unused, used2+unused2, err)
	}
	if s := l.Stats(); s.Dropped != 0 || s.Written != 40*2000 {
		t.Errorf("%d written, %d dropped: new events should have displaced old ones", s.Written, s.Dropped)
	}
}

func TestOverloadDropsTheOldestAndCountsThem(t *testing.T) {
	l := open(t, file(t), Options{})
	const limit = 16<<20 + 128<<10 // plus the chunks being filled
	held, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = l.db.Do(context.Background(), func(*sqlite.Conn) error { close(held); <-release; return nil })
	})
	<-held
	start := l.Last()
	batch := make([]event.Event, 500)
	emitted := uint64(0)
	for l.Stats().Dropped == 0 {
		for i := range batch {
			batch[i] = ev("a", i)
			batch[i].Note = fmt.Sprintf("%0900d", emitted+uint64(i)) // events of a kilobyte fill the queue soon
		}
		l.Emit(batch)
		emitted += uint64(len(batch))
		if s := l.Stats(); s.QueuedBytes > limit {
			t.Fatalf("%d bytes are queued", s.QueuedBytes)
		}
	}
	newest := l.Last()
	close(release)
	wg.Wait()
	for since := start; since < newest; {
		_, last, err := l.Read(t.Context(), "a", since, 1000, true)
		if err != nil {
			t.Fatal(err)
		}
		since = last
	}
	if s := l.Stats(); s.Written+s.Dropped != emitted || s.QueuedBytes != 0 {
		t.Errorf("%d written and %d dropped of %d, %d bytes queued", s.Written, s.Dropped, emitted, s.QueuedBytes)
	}
}

func TestEventsAfterCloseAreCountedAsDropped(t *testing.T) {
	l := open(t, file(t), Options{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.Emit([]event.Event{ev("a", 1)})
	if l.Stats().Dropped != 1 {
		t.Error("an event after Close was not counted as dropped")
	}
}

// BenchmarkEmit measures one event from Emit until it is in the file, at the batch size of 75,000 events a second.
func BenchmarkEmit(b *testing.B) {
	l := open(b, file(b), Options{})
	batch := make([]event.Event, 75)
	for i := range batch {
		batch[i] = ev("demo", i)
		batch[i].Note = "01JD5Z8Q2M3N4P5R6S7T8V9W0X"
	}
	ctx := context.Background()
	for b.Loop() {
		l.Emit(batch)
		if l.Stats().QueuedBytes > 256<<10 { // about the events of 50 ms
			chunks, upto := l.queue.Take()
			if err := l.store(ctx, chunks, upto, time.Now()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch)), "ns/event")
	if d := l.Stats().Dropped; d > 0 {
		b.Errorf("%d dropped", d)
	}
}
