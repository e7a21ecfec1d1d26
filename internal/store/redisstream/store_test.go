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

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

const driver = "f8f6d2a4-3b5c-4c1e-9f7a-0d2b4c6e8f10"

func TestPendingEntriesAreReadAndNewOnesRouted(t *testing.T) {
	t.Parallel()
	w := alone(t)
	for i := range 100 {
		w.add(driver, "old"+strconv.Itoa(i))
	}
	w.Joined(driver)
	got := w.pending(driver)
	if len(got.Items) != 64 || got.Items[0].N.ID != "old0" || got.Items[63].N.ID != "old63" || got.Items[63].Seq != 64 {
		t.Fatalf("the first read has %v", ids(got.Items))
	}
	eventually.True(t, "all that waited being known", func() bool { return len(w.routes(driver)) == 100 })
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
	eventually.True(t, "what came", func() bool { return len(w.routes(driver)) == 120 })
	w.mu.Lock()
	for i, it := range w.routed {
		if it.Seq != uint64(i+1) || i >= 100 && it.N.ID != "new"+strconv.Itoa(i-100) {
			t.Errorf("%d. routed is %s with seq %d", i, it.N.ID, it.Seq)
		}
	}
	w.mu.Unlock()
	for range 2 { // repeated; x is not online
		if heads, err := w.Heads(t.Context(), []mailbox.Address{{App: "rides", Recipient: driver}, {App: "rides", Recipient: "x"}}); err != nil || heads[0] != (mailbox.Head{LastSeq: 120, Waits: true}) || heads[1] != (mailbox.Head{}) {
			t.Errorf("heads are %v, %v", heads, err)
		}
	}
}

func TestAReadHasBounds(t *testing.T) {
	t.Parallel()
	w := alone(t)
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
	w := alone(t)
	w.Joined(driver)
	w.pending(driver)
	w.add(driver, "a", "category", "RIDE")
	w.add(driver, "b", "category", "RIDE")
	eventually.True(t, "both", func() bool { return len(w.routes(driver)) == 2 })
	w.mu.Lock()
	items := slices.Clone(w.routed)
	w.mu.Unlock()
	w.deliver(items...)
	w.deliver(items[0])
	w.ack(driver, "a", items[0].Pos)
	w.ack(driver, "b", 0) // from a session that did not deliver it
	w.untilLeft(driver, 0)
	eventually.True(t, "sessions being told", func() bool { return len(w.endings(notification.Acked)) == 2 })
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
	eventually.True(t, "nothing being kept of them", func() bool { return w.kept(driver) == 0 })
}

func TestTwoEntriesOfOneNotificationAreSentOnceAndBothDeleted(t *testing.T) {
	t.Parallel()
	w := alone(t)
	w.add(driver, "a")
	w.add(driver, "a")
	w.Joined(driver)
	got := w.pending(driver)
	if !slices.Equal(ids(got.Items), []string{"a"}) || got.LastSeq != 1 {
		t.Fatalf("pending are %v up to %d", ids(got.Items), got.LastSeq)
	}
	w.add(driver, "a")
	w.add(driver, "b")
	w.untilRouted(driver, "b")
	w.ack(driver, "a", got.Items[0].Pos)
	w.untilLeft(driver, 1)
	w.add(driver, "a") // the publisher repeats it although it was acknowledged
	w.add(driver, "c")
	w.untilRouted(driver, "c")
	w.untilLeft(driver, 2)
	if r := w.routes(driver); !slices.Equal(r, []string{"a", "b", "c"}) {
		t.Errorf("routed are %v", r)
	}
}

func TestSecondEntryReplacesExpiringOne(t *testing.T) {
	t.Parallel()
	w := alone(t)
	w.add(driver, "a")
	w.add(driver, "a", "ttl", w.now().Add(time.Hour).UTC().Format(time.RFC3339))
	w.Joined(driver)
	first := w.pending(driver).Items[0]
	w.deliver(first)
	w.advance(20 * time.Minute)
	w.untilLeft(driver, 1)
	items, err := w.Items(t.Context(), []mailbox.Ref{{Recipient: driver, Pos: first.Pos}})
	if err != nil || items[0] == nil || items[0].N.ID != "a" || items[0].Attempts != 1 {
		t.Fatalf("at its position is %+v, %v", items[0], err)
	}
	w.ack(driver, "a", first.Pos)
	w.untilLeft(driver, 0)
	if n := w.counted("expired NEW_RIDE_AVAILABLE sent true"); n != 0 || len(w.endings(notification.Expired)) != 0 {
		t.Error("it is said to have expired")
	}
}

func TestExpiredEntriesAreDeleted(t *testing.T) {
	t.Parallel()
	w := alone(t)
	w.Joined(driver) // keeps the client from counting as offline
	w.add(driver, "late", "ttl", "2020-01-01T00:00:00Z")
	w.add(driver, "sent")
	w.add(driver, "unsent")
	got := w.wantPending(driver, "sent", "unsent")
	w.deliver(got.Items[0])
	w.advance(20 * time.Minute)
	w.untilLeft(driver, 0)
	eventually.True(t, "sessions being told", func() bool { return len(w.endings(notification.Expired)) == 2 })
	if sent, not := w.counted("expired NEW_RIDE_AVAILABLE sent true"), w.counted("expired NEW_RIDE_AVAILABLE sent false"); sent != 1 || not != 2 {
		t.Errorf("%d expired that were sent, %d that were not", sent, not)
	}
}

func TestReturningClientStartsAnew(t *testing.T) {
	t.Parallel()
	w := alone(t)
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
	eventually.True(t, "it being forgotten", func() bool { return w.online(driver) == nil })
	w.add(driver, "c")
	w.Joined(driver)
	w.wantPending(driver, "b", "c")
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

func TestAnAcknowledgementMayBeQuickerThanWhatSaysThatItWasSent(t *testing.T) {
	t.Parallel()
	w := alone(t)
	got := w.joined(driver, "a", "b")
	for _, it := range got {
		w.SettleLater([]*mailbox.Settle{{Recipient: driver, ID: it.N.ID, Pos: it.Pos, As: notification.Acked, Attempts: 1, At: w.now()}})
		w.deliver(it)
	}
	eventually.True(t, "both being deleted", func() bool { return w.counted("acked NEW_RIDE_AVAILABLE sent true") == 2 })
	if n, again := w.counted("sent NEW_RIDE_AVAILABLE catchup false"), w.counted("sent NEW_RIDE_AVAILABLE retry true"); n != 2 || again != 0 {
		t.Errorf("%d were sent and %d again", n, again)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
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

func TestAcknowledgedEntriesAreDeletedBeforeClose(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
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
