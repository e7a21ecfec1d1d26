package sqlitedb_test

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// owned is an op of an app that records when it was applied.
type owned struct {
	app   string
	n     int
	bytes int
	order *[]*owned
	done  *sync.WaitGroup
}

func (o *owned) Apply(*sqlite.Conn) error {
	*o.order = append(*o.order, o) // the writer's goroutine alone
	return nil
}
func (o *owned) Done(error)              { o.done.Done() }
func (o *owned) Size() (rows, bytes int) { return 1, o.bytes }

// held returns a database whose writer is blocked until release is called.
func held(t *testing.T) (db *sqlitedb.DB, release func()) {
	t.Helper()
	db = open(t, filepath.Join(t.TempDir(), "x.db"), sqlitedb.Options{})
	began, ends := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = db.Do(context.Background(), func(*sqlite.Conn) error { close(began); <-ends; return nil })
	})
	<-began
	return db, func() { close(ends); wg.Wait() }
}

func TestAnAppThatWritesMuchWaitsForItself(t *testing.T) {
	db, release := held(t)
	var order []*owned
	var done sync.WaitGroup
	submit := func(app string, n, bytes int) {
		done.Add(1)
		db.Submit(app, &owned{app: app, n: n, bytes: bytes, order: &order, done: &done})
	}
	for i := range 20_000 {
		submit("hostile", i, 1<<10)
	}
	for i := range 10 {
		submit("good", i, 1<<10)
	}
	before := db.Commits()
	release()
	done.Wait()
	last := slices.IndexFunc(order, func(o *owned) bool { return o.app == "good" && o.n == 9 })
	if last > 500 {
		t.Errorf("%d ops went before those of the other app", last)
	}
	next := map[string]int{}
	for _, o := range order {
		if o.n != next[o.app] {
			t.Fatalf("op %d of %s came in place of %d", o.n, o.app, next[o.app])
		}
		next[o.app]++
	}
	if n := db.Commits() - before; n > 40 {
		t.Errorf("%d commits, want them full", n)
	}
}

// lazy is an op that signals when it is done.
type lazy struct{ done chan error }

func (*lazy) Apply(*sqlite.Conn) error { return nil }
func (l *lazy) Done(err error)         { l.done <- err }
func (*lazy) Size() (rows, bytes int)  { return 1, 0 }

func TestLazyWriteGetsNoCommitOfItsOwnAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	synctest.Test(t, func(t *testing.T) {
		db := open(t, path, sqlitedb.Options{})
		l := &lazy{done: make(chan error, 1)}
		// The op arrives while the writer is committing, which then checks for more.
		if err := db.Do(t.Context(), func(*sqlite.Conn) error { db.SubmitLazy(l); return nil }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(l.done) > 0 {
			t.Error("it did not wait for company")
		}
		if err := <-l.done; err != nil { // nobody came
			t.Error(err)
		}
	})
}

func TestLazyWriteWaitsForItsTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	synctest.Test(t, func(t *testing.T) {
		db := open(t, path, sqlitedb.Options{})
		first, second := &lazy{done: make(chan error, 1)}, &lazy{done: make(chan error, 1)}
		db.SubmitLazy(first)
		time.Sleep(4 * time.Millisecond)
		if err := db.Do(t.Context(), insert("x")); err != nil || len(first.done) == 0 {
			t.Fatalf("it did not ride along: %v", err)
		}
		db.SubmitLazy(second)
		time.Sleep(4 * time.Millisecond) // beyond the delay of the first op
		synctest.Wait()
		if len(second.done) > 0 {
			t.Error("it got a commit of its own after 4 ms")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if len(second.done) == 0 {
			t.Error("it still waits after 5 ms")
		}
	})
}

func TestAnAppMayQueueWhatIsLeft(t *testing.T) {
	db, release := held(t)
	var order []*owned
	var done, submitting sync.WaitGroup
	done.Add(101)
	for i := range 100 { // 100 MB
		submitting.Go(func() { db.Submit("hostile", &owned{app: "hostile", n: i, bytes: 1 << 20, order: &order, done: &done}) })
	}
	for db.Queued() < 32 {
	}
	// No app gets more than half of the room, so this returns although the writer is blocked.
	db.Submit("good", &owned{app: "good", bytes: 1 << 20, order: &order, done: &done})
	if n := db.Queued(); n > 34 {
		t.Errorf("%d MB are queued", n)
	}
	release()
	submitting.Wait()
	done.Wait()
}
