package eventdb

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/event"
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

// readAll follows until it has n events.
func readAll(t *testing.T, l *Log, app string, since uint64, n, page int) []event.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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
	l.tails.limit = 200 << 10
	l.Emit([]event.Event{ev("a", 0)})
	first := readAll(t, l, "a", 0, 1, 1)[0]
	n := 0
	for l.tails.look("a", first.ID).inMemory { // until memory has moved on
		batch := make([]event.Event, 1000)
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
	if ms := int64(last >> idShift); ms < time.Now().Add(-time.Minute).UnixMilli() {
		t.Errorf("id is of the time %d, not of now", ms)
	}
	readAll(t, l, "a", 0, 1, 1)
	if n, err := l.deleteOldest(t.Context(), 1<<63-1); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // in here it is the year 2000
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
		time.Sleep(30 * time.Second)
		l.Emit([]event.Event{ev("a", 1)})
		time.Sleep(35 * time.Second)
		evs, err := l.readFile(t.Context(), "a", 0, 10)
		if err != nil || len(evs) != 1 {
			t.Fatalf("%d events are left (%v), want the younger one", len(evs), err)
		}
		check(t, evs, "a", 1)
	})
}

// The machine's clock may be set while the server runs: events are as old as the store's clock says, which does not jump.
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
	l.limit = 1 << 20
	held, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = l.db.Do(context.Background(), func(*sqlite.Conn) error { close(held); <-release; return nil })
	})
	<-held
	start := l.Last()
	batch := make([]event.Event, 10_000)
	emitted := uint64(0)
	for l.Stats().Dropped == 0 {
		for i := range batch {
			batch[i] = ev("a", i)
		}
		l.Emit(batch)
		emitted += uint64(len(batch))
		if s := l.Stats(); s.QueuedBytes > l.limit+2*chunkBytes {
			t.Fatalf("%d bytes are queued", s.QueuedBytes)
		}
	}
	newest := l.Last()
	close(release)
	wg.Wait()
	for since := start; since < newest; {
		_, last, err := l.Read(t.Context(), "a", since, 10_000, true)
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

func TestSinceBeyondTheNewestMeansNow(t *testing.T) {
	l := open(t, file(t), Options{})
	emitAndWait(t, l, 5)
	got := make(chan []event.Event)
	go func() { got <- readAll(t, l, "a", 1<<64-1, 1, 10) }()
	for l.tails.waiting("a") == 0 {
	}
	l.Emit([]event.Event{ev("a", 3)})
	check(t, <-got, "a", 3)
}

func (ts *tails) waiting(app string) int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byApp[app]; t != nil && t.news != nil {
		return 1
	}
	return 0
}

func TestEveryEventTypeSurvivesEncoding(t *testing.T) {
	c := &chunk{app: "a"}
	all := append([]event.Type{"of a newer version"}, event.Types...)
	for i, typ := range all {
		e := ev("a", 100-i) // times may go back
		e.Type = typ
		c.append(uint64(1000+i*300), &e)
	}
	for i, e := range c.decoded() {
		want := ev("a", 100-i)
		want.Type, want.ID = all[i], uint64(1000+i*300)
		if e != want {
			t.Errorf("got %+v, want %+v", e, want)
		}
		if i > 0 && typeCodes[e.Type] == 0 {
			t.Errorf("%s has no number of its own", e.Type)
		}
	}
}

func FuzzDecode(f *testing.F) {
	c := &chunk{app: "a"}
	for i := range 5 {
		e := ev("a", i)
		c.append(uint64(i+1), &e)
	}
	f.Add(string(c.data))
	f.Add("")
	f.Add("\x01\x01\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, data string) {
		evs, err := decode("a", data, nil)
		if err == nil && len(data) > 0 && len(evs) > len(data) {
			t.Errorf("%d events from %d bytes", len(evs), len(data))
		}
	})
}

// BenchmarkEmit measures an event from Emit to the file, at the batch size of 75,000 events a second.
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
		if l.Stats().QueuedBytes > 256<<10 { // as much as 50 ms bring
			chunks, upto := l.take()
			if err := l.store(ctx, chunks, upto); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch)), "ns/event")
	if d := l.Stats().Dropped; d > 0 {
		b.Errorf("%d dropped", d)
	}
}

func TestNothingIsKeptInMemoryForAnAppThatNobodyFollows(t *testing.T) {
	l := open(t, file(t), Options{})
	kept := func() int {
		l.tails.mu.Lock()
		defer l.tails.mu.Unlock()
		return len(l.tails.of("a").chunks)
	}
	for i := range 100 {
		l.Emit([]event.Event{ev("a", i)})
	}
	l.Emit([]event.Event{ev("b", 0)})
	check(t, readAll(t, l, "b", 0, 1, 1), "b", 0) // written after all of a's
	if n := kept(); n != 0 {
		t.Errorf("%d chunks are kept for nobody", n)
	}
	check(t, readAll(t, l, "a", 0, 100, 100), "a", 0)
	since := l.Last()
	l.Emit([]event.Event{ev("a", 100)})
	check(t, readAll(t, l, "a", since, 1, 1), "a", 100)
	if n := kept(); n != 1 {
		t.Errorf("a follower came, and %d chunks are kept", n)
	}
	l.tails.mu.Lock()
	l.tails.of("a").looked = time.Now().Add(-2 * followedFor) // and went
	l.tails.mu.Unlock()
	l.Emit([]event.Event{ev("a", 101)})
	l.Emit([]event.Event{ev("b", 1)})
	check(t, readAll(t, l, "b", since, 1, 1), "b", 1)
	if n := kept(); n != 0 {
		t.Errorf("the follower went, and %d chunks are kept", n)
	}
	check(t, readAll(t, l, "a", since, 2, 2), "a", 100)
}

func TestForgettingAnAppLeavesTheOthersInMemory(t *testing.T) {
	var ts tails
	ts.start(0)
	var all []*chunk
	for i, app := range []string{"a", "b", "a", "b"} {
		ts.of(app).looked = time.Now()
		all = append(all, &chunk{app: app, last: uint64(i + 1), data: make([]byte, 10*(i+1))})
	}
	ts.publish(all, 4)
	ts.drop("a", ts.of("a"))
	if len(ts.order) != 2 || ts.order[0] != all[1] || ts.order[1] != all[3] || len(ts.of("b").chunks) != 2 {
		t.Errorf("%d chunks are left, %d of them b's; want b's 2", len(ts.order), len(ts.of("b").chunks))
	}
	if ts.bytes != 20+40 {
		t.Errorf("%d bytes are counted, want b's 60", ts.bytes)
	}
}
