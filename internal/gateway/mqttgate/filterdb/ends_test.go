package filterdb_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// TestEndsOfFiltersAreNeverRefused: while the disk is slow, new filters beyond a number are refused, and ends of filters wait in any number.
func TestEndsOfFiltersAreNeverRefused(t *testing.T) {
	n := start(t, store.Config{})
	dropped, forgotten, extended := device("dropped"), device("forgotten"), device("extended")
	for _, d := range []filterdb.Device{dropped, forgotten, extended} {
		n.keep(d, "jobs.>", time.Hour)
	}
	begun, release := n.fault.holds()
	n.Extend(device("nobody"), n.now().Add(time.Hour))
	<-begun
	refused := make(chan error, 1)
	for i := 0; len(refused) == 0; i++ {
		if i > 100_000 {
			t.Fatal("new filters that wait have no limit")
		}
		n.Keep(device(fmt.Sprint("d", i)), []string{"news.>"}, n.now().Add(time.Hour), func(err error) {
			if err != nil {
				refused <- err
			}
		})
	}
	n.Drop(dropped, "jobs.>")
	n.Forget(forgotten)
	n.Extend(extended, n.now().Add(2*time.Hour))
	n.want("jobs.1", extended) // at once
	release()
	n.settle()
	n.again()
	n.pass(90 * time.Minute)
	n.want("jobs.1", extended)
	if list := n.erased.all(); !slices.Equal(list, []string{forgotten.Mailbox()}) {
		t.Errorf("erased %v", list)
	}
}

// TestEndsOfFiltersAreStoredOnceTheDatabaseIsBack: new filters are refused meanwhile.
func TestEndsOfFiltersAreStoredOnceTheDatabaseIsBack(t *testing.T) {
	n := start(t, store.Config{})
	a, b, c := device("a"), device("b"), device("c")
	for _, d := range []filterdb.Device{a, b, c} {
		n.keep(d, "jobs.>", time.Hour)
		n.keep(d, "news.>", time.Hour)
	}
	n.fault.fails(errors.New("the database is away"))
	n.Drop(a, "jobs.>")
	n.Forget(b)
	done := make(chan error, 1)
	n.Keep(c, []string{"more.>"}, n.now().Add(time.Hour), func(err error) { done <- err })
	if err := <-done; err == nil {
		t.Error("a filter is granted that is not on disk")
	}
	n.want("jobs.1", c)
	n.fault.fails(nil)
	n.settle()
	for range 2 {
		n.want("jobs.1", c)
		n.want("news.1", a, c)
		n.want("more.1")
		n.again()
	}
	if list := n.erased.all(); !slices.Equal(list, []string{b.Mailbox()}) {
		t.Errorf("erased %v", list)
	}
}

// TestMailboxThatCannotBeErasedIsErasedLater: and until then the device gets no new filter, with which what waits would come to its next session.
func TestMailboxThatCannotBeErasedIsErasedLater(t *testing.T) {
	n := start(t, store.Config{})
	d := device("d")
	n.keep(d, "jobs.>", time.Hour)
	n.erased.fails(errors.New("the mailbox is away"))
	n.Forget(d)
	done := make(chan error, 1)
	n.Keep(d, []string{"jobs.>"}, n.now().Add(time.Hour), func(err error) { done <- err })
	if err := <-done; err == nil {
		t.Error("a filter is granted before what waited for the former session is erased")
	}
	n.erased.fails(nil)
	n.keep(d, "jobs.>", time.Hour)
	n.want("jobs.1", d)
	if list := n.erased.all(); len(list) == 0 {
		t.Error("nothing was erased")
	}
}

// TestStopWithoutADatabaseEnds: what could not be stored is given up, and the log says so.
func TestStopWithoutADatabaseEnds(t *testing.T) {
	n := start(t, store.Config{})
	d := device("d")
	n.keep(d, "jobs.>", time.Hour)
	n.fault.fails(errors.New("the database is away"))
	n.Drop(d, "jobs.>")
	_ = n.Close()
	n.fault.fails(nil)
	n.open()
	n.want("jobs.1", d) // until its time is over
}

// TestReadingDoesNotBringBackWhatWasDropped: other nodes' changes are read while a drop is on its way to the disk.
func TestReadingDoesNotBringBackWhatWasDropped(t *testing.T) {
	url := pgtest.Database(t)
	one, two := start(t, store.Config{Postgres: url, Node: "n1", Boot: "bootaaaa"}), start(t, store.Config{Postgres: url, Node: "n2", Boot: "bootbbbb"})
	a, b := device("a"), device("b")
	one.keep(a, "jobs.>", time.Hour)
	one.fault.fails(errors.New("the database is away"))
	one.Drop(a, "jobs.>")
	two.keep(b, "jobs.>", time.Hour)
	if err := one.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	one.want("jobs.1", b)
	one.fault.fails(nil)
	one.settle()
	if err := two.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	two.want("jobs.1", b)
}

// TestMatchesOfAFormerSessionAreKnown: what was matched before a device was forgotten has an earlier revision than its end, and what is matched by its
// next session a later one, on every node and after a restart.
func TestMatchesOfAFormerSessionAreKnown(t *testing.T) {
	for name, cfg := range map[string]store.Config{"SQLite": {}, "PostgreSQL": {Postgres: pgtest.Database(t), Node: "n1", Boot: "bootaaaa"}} {
		t.Run(name, func(t *testing.T) {
			n := start(t, cfg)
			d := device("d")
			match := func() int64 {
				t.Helper()
				boxes, _, rev := n.Match("demo", "jobs.1", func(string) bool { return false })
				if len(boxes) != 1 {
					t.Fatalf("a message goes to %v", boxes)
				}
				return rev
			}
			n.keep(d, "jobs.>", time.Hour)
			if rev := n.Ended(d); rev != 0 {
				t.Errorf("the first session of a device began after another ended at %d", rev)
			}
			before := match()
			n.Forget(d)
			n.keep(d, "jobs.>", time.Hour)
			for range 2 {
				if ended := n.Ended(d); before >= ended || match() < ended {
					t.Errorf("the former session's message has revision %d, the present one's %d, and the end %d", before, match(), ended)
				}
				n.again()
			}
			n.pass(61 * time.Minute)
			n.keep(d, "jobs.>", time.Hour)
			n.Sweep()
			n.settle()
			for range 2 {
				if rev := n.Ended(d); rev != 0 {
					t.Errorf("after an hour the end at %d is known still", rev)
				}
				n.again()
			}
		})
	}
}

// TestClientThatComesToAnotherNodeHasItsFilters: they are read before it is served.
func TestClientThatComesToAnotherNodeHasItsFilters(t *testing.T) {
	url := pgtest.Database(t)
	one, two := start(t, store.Config{Postgres: url, Node: "n1", Boot: "bootaaaa"}), start(t, store.Config{Postgres: url, Node: "n2", Boot: "bootbbbb"})
	d := device("d")
	for i := range 3 {
		filter := fmt.Sprint("jobs.", i)
		one.keep(d, filter, time.Hour)
		read := make(chan []string, 2)
		for range cap(read) {
			two.Refresh(func() { read <- two.Filters(d) })
		}
		for range cap(read) {
			if list := <-read; !slices.Contains(list, filter) {
				t.Errorf("the other node has %v", list)
			}
		}
	}
}
