package redisstream

import (
	"slices"
	"strconv"
	"testing"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

func TestEntriesThatSomebodyElseDeletesAreTakenBack(t *testing.T) {
	t.Parallel()
	w := alone(t)
	a := w.add(driver, "a")
	b := w.add(driver, "b")
	w.add(driver, "c")
	w.Joined(driver)
	got := w.pending(driver).Items
	del := func(id string) {
		if err := w.redis.Do(t.Context(), w.redis.B().Xdel().Key(Key(driver, 128)).Id(id).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	del(a)
	items, err := w.Items(t.Context(), []mailbox.Ref{{Recipient: driver, Pos: got[0].Pos}, {Recipient: driver, Pos: got[1].Pos}, {Recipient: driver, Pos: 99}, {Recipient: "x", Pos: 1}})
	if err != nil || items[0] != nil || items[1] == nil || items[2] != nil || items[3] != nil {
		t.Fatalf("by position there are %v, %v", items, err)
	}
	del(b)
	w.look(w.online(driver)) // what the sweep does
	eventually.True(t, "both being taken back", func() bool { return slices.Equal(w.endings(notification.Expired), []string{"a", "b"}) })
	if err := w.redis.Do(t.Context(), w.redis.B().Del().Key(Key(driver, 128)).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if got := w.pending(driver); len(got.Items) != 0 {
		t.Errorf("after the key has vanished %v is pending", ids(got.Items))
	}
	w.add(driver, "d")
	w.untilRouted(driver, "d")
}

func TestABacklogIsFoundToItsEnd(t *testing.T) {
	t.Parallel()
	w := alone(t)
	var want []string
	for i := range 5 * readEntries {
		want = append(want, strconv.Itoa(i))
	}
	w.addMany(driver, want)
	w.Joined(driver)
	w.pending(driver)
	eventually.True(t, "all of it", func() bool { return slices.Equal(w.routes(driver), want) })
}

func TestAllOfALongBacklogComes(t *testing.T) {
	t.Parallel()
	w := alone(t)
	const n = maxEntries + 1000
	for at := 0; at < n; {
		batch := min(500, n-at)
		list := make([]string, batch)
		for i := range list {
			list[i] = strconv.Itoa(at + i)
		}
		w.addMany(driver, list)
		at += batch
	}
	w.Joined(driver)
	next := 0
	for next < n {
		var got []mailbox.Item
		eventually.True(t, "more", func() bool { got = w.pending(driver).Items; return len(got) > 0 })
		for _, it := range got {
			if it.N.ID != strconv.Itoa(next) {
				t.Fatalf("%s comes in the place of %d", it.N.ID, next)
			}
			next++
			w.ack(driver, it.N.ID, it.Pos)
		}
		if n := w.kept(driver); n > maxEntries {
			t.Fatalf("%d entries are kept", n)
		}
	}
	w.untilLeft(driver, 0)
}

func TestEntriesWithLowerIDsAreFoundAfterTheirKeyHasVanished(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := newWorld(t, s.URL())
	key := Key(driver, 128)
	const future = "99999999999999-0"
	w.add(driver, "before")
	do(t, s, "XADD "+key+" "+future+" bad entry") // a clock that was ahead
	w.Joined(driver)
	first := w.pending(driver).Items[0]
	do(t, s, "DEL "+key)
	w.add(driver, "after")
	w.look(w.online(driver)) // as the sweep does: the store still lists a deleted entry
	w.untilRouted(driver, "after")
	w.ack(driver, "before", first.Pos)
	w.ack(driver, "after", 0)
	eventually.True(t, "nothing being known any more", func() bool { return w.kept(driver) == 0 })
	w.add(driver, "again") // which a hint alone brings
	w.untilRouted(driver, "again")
}

func TestEntriesAreFoundWhereRedisDoesNotTell(t *testing.T) {
	t.Parallel()
	for way, c := range map[string]struct{ settings, but string }{
		ByKeyspace: {"Kt", "-client|tracking"},
		ByPoll:     {"", "-client|tracking -config"},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--notify-keyspace-events", c.settings)
			w := newWorld(t, as(t, s, c.but))
			w.add(driver, "a")
			w.Joined(driver)
			if got := w.pending(driver); w.Finding() != way || !slices.Equal(ids(got.Items), []string{"a"}) {
				t.Errorf("found by %s: %v", w.Finding(), ids(got.Items))
			}
			w.add(driver, "b")
			eventually.True(t, "what came", func() bool { return slices.Equal(w.routes(driver), []string{"a", "b"}) })
		})
	}
}

func TestAReadThatBeganBeforeADeletionBringsNothingBack(t *testing.T) {
	t.Parallel()
	w := alone(t)
	w.Joined(driver)
	w.pending(driver)
	w.add(driver, "a")
	eventually.True(t, "it being found", func() bool { return w.kept(driver) == 1 })
	st := w.online(driver)
	st.mu.Lock()
	st.whole = true
	st.mu.Unlock()
	c := w.begin(st)
	list := w.readOne(st.key, c.from)
	w.ack(driver, "a", 0)
	eventually.True(t, "it being deleted", func() bool { return w.departing() == 0 })
	w.recent.mu.Lock()
	w.recent.now, w.recent.old = nil, nil // recent would suppress the entry, too
	w.recent.mu.Unlock()
	w.took(c, list, nil)
	if len(c.items) != 0 {
		t.Errorf("%v came back", ids(c.items))
	}
	eventually.True(t, "nothing being kept of it", func() bool { return w.kept(driver) == 0 }) // a read after the hint of its deletion may be under way
}

func TestReadOfDepartedClientIsDropped(t *testing.T) {
	t.Parallel()
	w := alone(t)
	w.add(driver, "a")
	w.Joined(driver)
	st := w.online(driver)
	c := w.begin(st)
	list := w.readOne(st.key, c.from)
	w.Joined(driver)
	w.Left(driver)
	w.Left(driver)
	if w.online(driver) != nil {
		t.Fatal("it is not forgotten")
	}
	w.took(c, list, nil)
	if len(c.items) != 0 || st.known || st.entries != nil || st.reads != 0 {
		t.Errorf("%v was taken in", ids(c.items))
	}
}
