package redisstream

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
)

const driver = "f8f6d2a4-3b5c-4c1e-9f7a-0d2b4c6e8f10"

func TestWhatWaitsIsReadAndWhatComesIsRouted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	for i := range 100 {
		w.add(driver, "old"+strconv.Itoa(i))
	}
	w.Joined(driver)
	got := w.pending(driver)
	if len(got.Items) != 64 || got.Items[0].N.ID != "old0" || got.Items[63].N.ID != "old63" || got.Items[63].Seq != 64 {
		t.Fatalf("the first read has %v", ids(got.Items))
	}
	until(t, "all that waited being known", func() bool { return len(w.routes(driver)) == 100 })
	var have []int64
	for _, it := range got.Items {
		have = append(have, it.Pos)
	}
	got = w.pending(driver, have...)
	if len(got.Items) != 36 || got.Items[0].N.ID != "old64" || got.Items[35].Pos != 100 || got.LastSeq != 100 || got.More {
		t.Errorf("the second read has %v up to %d, more %v", ids(got.Items), got.LastSeq, got.More)
	}
	for i := range 20 {
		w.add(driver, "new"+strconv.Itoa(i))
	}
	until(t, "what came", func() bool { return len(w.routes(driver)) == 120 })
	w.mu.Lock()
	for i, it := range w.routed {
		if it.Seq != uint64(i+1) || i >= 100 && it.N.ID != "new"+strconv.Itoa(i-100) {
			t.Errorf("%d. routed is %s with seq %d", i, it.N.ID, it.Seq)
		}
	}
	w.mu.Unlock()
	for range 2 { // also of what nobody waits for
		if heads, err := w.Heads(t.Context(), []mailbox.Address{{App: "rides", Recipient: driver}, {App: "rides", Recipient: "x"}}); err != nil || heads[0] != (mailbox.Head{LastSeq: 120, Waits: true}) || heads[1] != (mailbox.Head{}) {
			t.Errorf("heads are %v, %v", heads, err)
		}
	}
}

func TestAReadHasBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	for i := range 5 {
		w.add(driver, "n"+strconv.Itoa(i), "body", strings.Repeat("x", 1000))
	}
	w.Joined(driver)
	res, err := w.Pending(t.Context(), []mailbox.PendingQuery{
		{Recipient: driver, Limit: 2}, {Recipient: driver, Limit: 10, Bytes: 2500}, {Recipient: "nobody", Limit: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids(res[0].Items), []string{"n0", "n1"}) || !res[0].More || res[0].LastSeq != 5 {
		t.Errorf("by number: %v, %+v", ids(res[0].Items), res[0])
	}
	if !slices.Equal(ids(res[1].Items), []string{"n0", "n1", "n2"}) || !res[1].More {
		t.Errorf("by size: %v", ids(res[1].Items))
	}
	if len(res[2].Items) != 0 || res[2].LastSeq != 0 {
		t.Errorf("of nobody: %+v", res[2])
	}
}

func TestAcknowledgedEntriesAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	w.Joined(driver)
	w.pending(driver)
	w.add(driver, "a", "category", "RIDE")
	w.add(driver, "b", "category", "RIDE")
	until(t, "both", func() bool { return len(w.routes(driver)) == 2 })
	w.mu.Lock()
	items := slices.Clone(w.routed)
	w.mu.Unlock()
	w.deliver(items...)
	w.deliver(items[0])
	w.ack(driver, "a", items[0].Pos)
	w.ack(driver, "b", 0) // by a session that did not deliver it
	until(t, "both being deleted", func() bool { return w.left(Key(driver, 128)) == 0 })
	until(t, "sessions being told", func() bool { return len(w.endings(notification.Acked)) == 2 })
	for _, id := range []string{"a", "", "never"} { // twice, empty, foreign
		w.ack(driver, id, 0)
	}
	w.ack("nobody", "a", 1)
	for what, n := range map[string]int{
		"found RIDE": 2, "sent RIDE pubsub_fresh false": 2, "sent RIDE retry true": 1, "acked RIDE sent true": 2, "acked UNKNOWN sent false": 4,
	} {
		if got := w.counted(what); got != n {
			t.Errorf("%q was counted %d times, want %d", what, got, n)
		}
	}
	if got := w.pending(driver); len(got.Items) != 0 || got.LastSeq != 2 {
		t.Errorf("still pending: %v up to %d", ids(got.Items), got.LastSeq)
	}
	until(t, "nothing being kept of them", func() bool { return w.kept(driver) == 0 })
}

func TestTwoEntriesOfOneNotificationAreSentOnceAndBothDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	w.add(driver, "a")
	w.add(driver, "a")
	w.Joined(driver)
	got := w.pending(driver)
	if !slices.Equal(ids(got.Items), []string{"a"}) || got.LastSeq != 1 {
		t.Fatalf("pending are %v up to %d", ids(got.Items), got.LastSeq)
	}
	w.add(driver, "a")
	w.add(driver, "b")
	until(t, "what came after them", func() bool { return slices.Contains(w.routes(driver), "b") })
	w.ack(driver, "a", got.Items[0].Pos)
	until(t, "all three being deleted", func() bool { return w.left(Key(driver, 128)) == 1 })
	w.add(driver, "a") // the publisher tries again though it was acknowledged
	w.add(driver, "c")
	until(t, "what came after that", func() bool { return slices.Contains(w.routes(driver), "c") })
	until(t, "it being deleted too", func() bool { return w.left(Key(driver, 128)) == 2 })
	if r := w.routes(driver); !slices.Equal(r, []string{"a", "b", "c"}) {
		t.Errorf("routed are %v", r)
	}
}

func TestASecondEntryTakesThePlaceOfOneThatExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	w.add(driver, "a")
	w.add(driver, "a", "ttl", w.now().Add(time.Hour).UTC().Format(time.RFC3339))
	w.Joined(driver)
	first := w.pending(driver).Items[0]
	w.deliver(first)
	w.advance(20 * time.Minute)
	until(t, "the first being deleted", func() bool { return w.left(Key(driver, 128)) == 1 })
	items, err := w.Items(t.Context(), []mailbox.Ref{{Recipient: driver, Pos: first.Pos}})
	if err != nil || items[0] == nil || items[0].N.ID != "a" || items[0].Attempts != 1 {
		t.Fatalf("at its position is %+v, %v", items[0], err)
	}
	w.ack(driver, "a", first.Pos)
	until(t, "the second being deleted", func() bool { return w.left(Key(driver, 128)) == 0 })
	if n := w.counted("expired NEW_RIDE_AVAILABLE sent true"); n != 0 || len(w.endings(notification.Expired)) != 0 {
		t.Error("it is said to have expired")
	}
}

func TestExpiredEntriesAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	w.Joined(driver) // so that it is not taken for one who does not come back
	w.add(driver, "late", "ttl", "2020-01-01T00:00:00Z")
	w.add(driver, "sent")
	w.add(driver, "unsent")
	got := w.pending(driver)
	if !slices.Equal(ids(got.Items), []string{"sent", "unsent"}) {
		t.Fatalf("pending are %v", ids(got.Items))
	}
	w.deliver(got.Items[0])
	w.advance(20 * time.Minute)
	until(t, "all being deleted", func() bool { return w.left(Key(driver, 128)) == 0 })
	until(t, "sessions being told", func() bool { return len(w.endings(notification.Expired)) == 2 })
	if sent, not := w.counted("expired NEW_RIDE_AVAILABLE sent true"), w.counted("expired NEW_RIDE_AVAILABLE sent false"); sent != 1 || not != 2 {
		t.Errorf("%d expired that were sent, %d that were not", sent, not)
	}
}

func TestPoisonIsSetAsideAndHoldsUpNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	key := Key(driver, 128)
	w.add(driver, "before", "ttl", "soon")
	w.add(driver, "good1")
	w.Joined(driver)
	if got := w.pending(driver); !slices.Equal(ids(got.Items), []string{"good1"}) {
		t.Fatalf("pending are %v", ids(got.Items))
	}
	w.add(driver, "bad", "entity.data", "{")
	w.add(driver, "good2")
	until(t, "what came after it", func() bool { return slices.Contains(w.routes(driver), "good2") })
	until(t, "both being deleted", func() bool { return w.left(key) == 2 })
	until(t, "both being counted", func() bool { return w.counted("poisoned "+key) == 2 })
	_, shard, _ := ClientOf(key)
	q := fmt.Sprintf("godwit:quarantine{%d}", shard)
	list, err := entriesOf(w.redis.Do(t.Context(), w.redis.B().Xrange().Key(q).Start("-").End("+").Build()))
	if err != nil || len(list) != 2 {
		t.Fatalf("the quarantine has %v, %v", list, err)
	}
	for _, want := range []Field{{"quarantine.stream", key}, {"id", "before"}, {"ttl", "soon"}} {
		if !slices.Contains(list[0].fields, want) {
			t.Errorf("%v is not among what was set aside: %v", want, list[0].fields)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if msg := w.poison[0].Error(); !strings.Contains(msg, "ttl") || !strings.Contains(msg, key) {
		t.Errorf("the reason is %q", msg)
	}
}

func TestPoisonThatCannotBeSetAsideStaysAndHoldsUpNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	do(t, s, "ACL SETUSER limited on >secret ~N* &* +@all")
	w := newWorld(t, strings.Replace(s.URL(), "redis://", "redis://limited:secret@", 1))
	w.add(driver, "bad", "show", "")
	w.add(driver, "good")
	w.Joined(driver)
	if got := w.pending(driver); !slices.Equal(ids(got.Items), []string{"good"}) {
		t.Fatalf("pending are %v", ids(got.Items))
	}
	until(t, "it being tried", func() bool { return w.counted("skipped poison") > 0 })
	w.ack(driver, "good", 0)
	until(t, "the other one being deleted", func() bool { return w.left(Key(driver, 128)) == 1 })
}

func TestEntriesThatSomebodyElseDeletesAreTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
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
	until(t, "both being taken back", func() bool { return slices.Equal(w.endings(notification.Expired), []string{"a", "b"}) })
	if err := w.redis.Do(t.Context(), w.redis.B().Del().Key(Key(driver, 128)).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if got := w.pending(driver); len(got.Items) != 0 {
		t.Errorf("after the key has vanished %v is pending", ids(got.Items))
	}
	w.add(driver, "d")
	until(t, "what came then", func() bool { return slices.Contains(w.routes(driver), "d") })
}

func TestAClientThatComesBackStartsAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	w.add(driver, "a")
	w.add(driver, "b")
	w.Joined(driver)
	w.Joined(driver) // on another device
	got := w.pending(driver).Items
	w.deliver(got...)
	w.ack(driver, "a", got[0].Pos)
	w.Left(driver)
	if w.online(driver) == nil {
		t.Fatal("it is forgotten while a session is left")
	}
	w.Left(driver)
	w.Left(driver)
	until(t, "it being forgotten", func() bool { return w.online(driver) == nil })
	w.add(driver, "c")
	w.Joined(driver)
	if got := w.pending(driver).Items; !slices.Equal(ids(got), []string{"b", "c"}) {
		t.Errorf("then pending are %v", ids(got))
	}
}

func TestABacklogIsFoundToItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	var want []string
	for i := range 5 * readEntries {
		want = append(want, strconv.Itoa(i))
	}
	w.addMany(driver, want)
	w.Joined(driver)
	w.pending(driver)
	until(t, "all of it", func() bool { return slices.Equal(w.routes(driver), want) })
}

func TestAllOfALongBacklogComes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
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
		until(t, "more", func() bool { got = w.pending(driver).Items; return len(got) > 0 })
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
	until(t, "all being deleted", func() bool { return w.left(Key(driver, 128)) == 0 })
}

func TestEntriesWithLowerIDsAreFoundAfterTheirKeyHasVanished(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := newWorld(t, s.URL())
	key := Key(driver, 128)
	const future = "99999999999999-0"
	w.add(driver, "before")
	do(t, s, "XADD "+key+" "+future+" bad entry") // a clock that was ahead
	w.Joined(driver)
	first := w.pending(driver).Items[0]
	do(t, s, "DEL "+key)
	w.add(driver, "after")
	w.look(w.online(driver)) // what the sweep does: something is still known of what was there
	until(t, "what came after", func() bool { return slices.Contains(w.routes(driver), "after") })
	w.ack(driver, "before", first.Pos)
	w.ack(driver, "after", 0)
	until(t, "nothing being known any more", func() bool { return w.kept(driver) == 0 })
	w.add(driver, "again") // which a hint alone brings
	until(t, "what came then", func() bool { return slices.Contains(w.routes(driver), "again") })
}

func TestEntriesAreFoundWhereRedisDoesNotTell(t *testing.T) {
	t.Parallel()
	for way, c := range map[string]struct{ settings, but string }{
		ByKeyspace: {"Kt", "-client|tracking"},
		ByPoll:     {"", "-client|tracking -config"},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "--notify-keyspace-events", c.settings)
			w := newWorld(t, as(t, s, c.but))
			w.add(driver, "a")
			w.Joined(driver)
			if got := w.pending(driver); w.Finding() != way || !slices.Equal(ids(got.Items), []string{"a"}) {
				t.Errorf("found by %s: %v", w.Finding(), ids(got.Items))
			}
			w.add(driver, "b")
			until(t, "what came", func() bool { return slices.Equal(w.routes(driver), []string{"a", "b"}) })
		})
	}
}

func TestAnIdleClientCostsLittle(t *testing.T) {
	const clients, most = 10_000, 400
	s := &Store{cfg: Config{MaxShards: 128}, seed: maphash.MakeSeed()}
	for i := range s.buckets {
		s.buckets[i].m = make(map[string]*stream)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range clients {
		s.Joined(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
	}
	if each := (int64(heap()) - int64(before)) / clients; each > most {
		t.Errorf("an idle client costs %d bytes, more than %d", each, most)
	} else {
		t.Logf("an idle client costs %d bytes", each)
	}
	runtime.KeepAlive(s)
}

func TestAReadThatBeganBeforeADeletionBringsNothingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	w.Joined(driver)
	w.pending(driver)
	w.add(driver, "a")
	until(t, "it being found", func() bool { return w.kept(driver) == 1 })
	st := w.online(driver)
	st.mu.Lock()
	st.whole = true
	st.mu.Unlock()
	c := w.begin(st)
	list, err := entriesOf(w.redis.Do(t.Context(), w.Store.link.rangeFrom(st.key, c.from, readEntries)))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	w.ack(driver, "a", 0)
	until(t, "it being deleted", func() bool { return w.departing() == 0 })
	w.recent.mu.Lock()
	w.recent.now, w.recent.old = nil, nil // which would keep it back, too
	w.recent.mu.Unlock()
	w.took(c, list, nil)
	if len(c.items) != 0 {
		t.Errorf("%v came back", ids(c.items))
	}
	until(t, "nothing being kept of it", func() bool { return w.kept(driver) == 0 }) // the hint of its deletion may be being read
}

func TestAnAcknowledgementMayBeQuickerThanWhatSaysThatItWasSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	w.add(driver, "a")
	w.add(driver, "b")
	w.Joined(driver)
	got := w.pending(driver).Items
	for _, it := range got {
		w.SettleLater([]*mailbox.Settle{{Recipient: driver, ID: it.N.ID, Pos: it.Pos, As: notification.Acked, Attempts: 1, At: w.now()}})
		w.deliver(it)
	}
	until(t, "both being deleted", func() bool { return w.counted("acked NEW_RIDE_AVAILABLE sent true") == 2 })
	if n, again := w.counted("sent NEW_RIDE_AVAILABLE catchup false"), w.counted("sent NEW_RIDE_AVAILABLE retry true"); n != 2 || again != 0 {
		t.Errorf("%d were sent and %d again", n, again)
	}
}

func TestARedisThatHangsLosesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := newWorld(t, s.URL())
	w.add(driver, "a")
	w.add(driver, "b")
	w.Joined(driver)
	got := w.pending(driver).Items
	s.Stop()
	w.ack(driver, "a", got[0].Pos)
	if again := w.pending(driver); len(again.Items) != 0 || again.More {
		t.Errorf("of a Redis that hangs there is %v", ids(again.Items))
	}
	s.Continue()
	until(t, "what was acknowledged being deleted", func() bool { return w.departing() == 0 })
	until(t, "sessions being told to read again", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.reread[driver] > 0
	})
	if got := w.pending(driver).Items; !slices.Equal(ids(got), []string{"b"}) {
		t.Errorf("then pending are %v", ids(got))
	}
}

func TestWhatWasAcknowledgedStaysSoForAClientThatComesBackMeanwhile(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := newWorld(t, s.URL())
	w.add(driver, "a")
	w.add(driver, "b")
	w.Joined(driver)
	got := w.pending(driver).Items
	s.Kill()
	w.ack(driver, "a", got[0].Pos)
	w.Left(driver)
	w.Joined(driver)
	if n := w.kept(driver); n != 1 {
		t.Errorf("%d entries are known, want the one that is to be deleted", n)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	w.reconnect()
	var now []mailbox.Item
	until(t, "what is left being read", func() bool { now = w.pending(driver).Items; return len(now) > 0 })
	if !slices.Equal(ids(now), []string{"b"}) {
		t.Errorf("then pending are %v", ids(now))
	}
	until(t, "it being deleted", func() bool { return w.left(Key(driver, 128)) == 1 })
}

func TestAReadForAClientThatLeftMeanwhileIsNotTakenIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	w.add(driver, "a")
	w.Joined(driver)
	st := w.online(driver)
	c := w.begin(st)
	list, err := entriesOf(w.redis.Do(t.Context(), w.Store.link.rangeFrom(st.key, c.from, readEntries)))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
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

func TestTokens(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := newWorld(t, s.URL())
	if _, ok, err := w.Token(t.Context(), "t1"); ok || err != nil {
		t.Errorf("an unknown token: %v, %v", ok, err)
	}
	if err := w.KeepToken(t.Context(), "t1", driver, time.Hour); err != nil {
		t.Fatal(err)
	}
	if client, ok, err := w.Token(t.Context(), "t1"); client != driver || !ok || err != nil {
		t.Errorf("a token that was kept: %q, %v, %v", client, ok, err)
	}
	if ttl, err := strconv.Atoi(do(t, s, "TTL NS:t1")); err != nil || ttl > 3600 || ttl < 3000 {
		t.Errorf("it is kept for %d s", ttl)
	}
	do(t, s, "SET NS:t2 "+driver) // by the other service
	if client, ok, err := w.Token(t.Context(), "t2"); client != driver || !ok || err != nil {
		t.Errorf("the other service's token: %q, %v, %v", client, ok, err)
	}
	s.Kill()
	if _, _, err := w.Token(t.Context(), "t-secret"); err == nil || strings.Contains(err.Error(), "t-secret") {
		t.Errorf("without Redis: %v", err)
	}
}

func TestClientsThatDoNotComeBackAreCleanedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t).URL())
	w.freeze()
	gone := "00000000-0000-0000-0000-000000000001"
	for i := range 40 {
		w.add(gone, "old"+strconv.Itoa(i), "ttl", "2020-01-01T00:00:00Z")
	}
	w.add(gone, "recent", "ttl", w.now().Add(-30*time.Second).UTC().Format(time.RFC3339Nano))
	w.add(gone, "good")
	w.add(gone, "bad", "ttl", "x")
	until(t, "old entries being deleted", func() bool {
		// The first look may have been before they came.
		if err := (&orphanage{s: w.Store, me: "test", until: time.Now().Add(time.Hour)}).clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		return w.left(Key(gone, 128)) == 3
	})
	until(t, "all being counted", func() bool { return w.counted("expired NEW_RIDE_AVAILABLE sent false") == 40 })
}

func TestOneServerCleansUp(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l, err := dial(t.Context(), []string{s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	a, b := &orphanage{s: &Store{link: l}, me: "a"}, &orphanage{s: &Store{link: l}, me: "b"}
	for range 2 {
		if mine, err := a.own(t.Context()); !mine || err != nil {
			t.Errorf("the first one does not: %v, %v", mine, err)
		}
		if mine, err := b.own(t.Context()); mine || err != nil {
			t.Errorf("the second one does: %v, %v", mine, err)
		}
		a.until = time.Time{} // it renews
	}
	do(t, s, "DEL godwit:orphans")
	if mine, err := b.own(t.Context()); !mine || err != nil {
		t.Errorf("nobody does after the first one is gone: %v, %v", mine, err)
	}
}

func TestRedisAwayLosesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := newWorld(t, s.URL())
	w.add(driver, "a")
	w.add(driver, "b")
	w.Joined(driver)
	got := w.pending(driver).Items
	w.deliver(got...)
	if err := w.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	s.Kill()
	if err := w.Ready(t.Context()); err == nil {
		t.Error("it is ready without Redis")
	}
	w.ack(driver, "a", got[0].Pos)
	other := "00000000-0000-0000-0000-000000000001"
	w.Joined(other)
	if got := w.pending(other); len(got.Items) != 0 || got.More {
		t.Errorf("without Redis there is %+v", got)
	}
	if items, err := w.Items(t.Context(), []mailbox.Ref{{Recipient: driver, Pos: got[1].Pos}}); err != nil || items[0] != nil {
		t.Errorf("without Redis there is %v, %v", items, err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	w.reconnect()
	w.add(other, "c")
	until(t, "what was acknowledged being deleted", func() bool { return w.left(Key(driver, 128)) == 1 })
	until(t, "what came to another", func() bool { return slices.Contains(w.routes(other), "c") })
	until(t, "sessions being told to read again", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.reread[driver] > 0
	})
	if got := w.pending(driver).Items; !slices.Equal(ids(got), []string{"b"}) {
		t.Errorf("then pending are %v", ids(got))
	}
	if err := w.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatWasAcknowledgedIsDeletedBeforeTheStoreCloses(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := newWorld(t, s.URL())
	w.addMany(driver, []string{"a", "b", "c", "d", "e"})
	store, err := Open(t.Context(), Config{URLs: []string{s.URL()}, App: "rides", MaxShards: 128})
	if err != nil {
		t.Fatal(err)
	}
	store.Joined(driver)
	res, err := store.Pending(t.Context(), []mailbox.PendingQuery{{Recipient: driver, Limit: 64}})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range res[0].Items {
		store.SettleLater([]*mailbox.Settle{{Recipient: driver, ID: it.N.ID, Pos: it.Pos, As: notification.Acked}})
	}
	if err := store.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := w.left(Key(driver, 128)); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestShardsThatPublishersWouldSeeOtherwiseAreRefused(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 0, 3, 5, 127, 1 << 20} {
		if _, err := Open(t.Context(), Config{URLs: []string{"redis://127.0.0.1:1"}, MaxShards: n}); err == nil || !strings.Contains(err.Error(), strconv.Itoa(n)+" shards") {
			t.Errorf("%d shards: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Config{URLs: []string{"redis://u:secret@127.0.0.1:1"}, MaxShards: 4}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("no Redis: %v", err)
	}
}
