package redisstream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/redisserver"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

func TestMain(m *testing.M) {
	// The library waits a second before it reads a cluster's nodes again, and cannot be interrupted.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"), // The library closes nodes that have left a cluster after five seconds.
	)
}

// do executes a Redis command.
func do(t *testing.T, s *redisserver.Server, command string) string {
	t.Helper()
	answer, err := s.Do(command)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// world is a store on Redis that records its reports.
type world struct {
	*Store
	t         *testing.T
	publisher *link
	redis     rueidis.Client
	mu        sync.Mutex
	routed    []mailbox.Item
	ended     []mailbox.Settled
	reread    map[string]int
	counts    map[string]int
	poison    []error
	after     time.Duration // how far the store's clock is ahead
	frozen    time.Time     // the time at which the clock is frozen; zero: it runs
	shards    int           // 0: 128
}

// newWorld opens a store on servers. It runs until the test ends.
func newWorld(t *testing.T, urls ...string) *world {
	t.Helper()
	w := publisherOnly(t, urls...)
	w.open(urls...)
	return w
}

// publisherOnly is a world without a store.
func publisherOnly(t *testing.T, urls ...string) *world {
	t.Helper()
	w := &world{t: t, reread: map[string]int{}, counts: map[string]int{}}
	publisher, err := dial(t.Context(), urls)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(publisher.close)
	w.publisher, w.redis = publisher, publisher.main
	return w
}

// alone opens a store on a server of its own.
func alone(t *testing.T) *world {
	t.Helper()
	return newWorld(t, redistest.Start(t).URL())
}

func (w *world) open(urls ...string) {
	w.t.Helper()
	s, err := Open(w.t.Context(), Config{URLs: urls, App: "rides", MaxShards: cmp.Or(w.shards, 128), AnyShards: true, Observer: w, Log: quiet(), Now: w.now})
	if err != nil {
		w.t.Fatal(err)
	}
	s.RouteTo(w, nil)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	w.t.Cleanup(func() {
		stop()
		wg.Wait()
		_ = s.Close(context.Background())
	})
	w.Store = s
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.frozen.IsZero() {
		return w.frozen
	}
	return time.Now().Add(w.after)
}

// freeze stops the store's clock.
func (w *world) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = time.Now()
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after += d
}

func (w *world) Route(items []mailbox.Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.routed = append(w.routed, items...)
}

func (w *world) Settled(done []mailbox.Settled) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, done...)
}

func (w *world) Inboxes([]inbox.Change) {}

func (w *world) Hold([]inbox.Change) func() { return func() {} }

func (w *world) Reread(_, recipient string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reread[recipient]++
}

func (w *world) count(what ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[fmt.Sprint(what...)]++
}

func (w *world) counted(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[what]
}

func (w *world) Found(category string) { w.count("found ", category) }
func (w *world) Sent(category string, stored time.Time, again bool, how string) {
	if d := time.Since(stored); d < -time.Hour || d > time.Hour {
		w.t.Errorf("what was sent is said to be stored at %s", stored)
	}
	w.count("sent ", category, " ", how, " ", again)
}

func (w *world) Acked(category string, lastSent time.Time) {
	w.count("acked ", category, " sent ", !lastSent.IsZero())
}

func (w *world) Expired(category string, sent bool) { w.count("expired ", category, " sent ", sent) }
func (w *world) CleanupSkipped(origin string)       { w.count("skipped ", origin) }
func (w *world) Poisoned(key string, err error) {
	w.count("poisoned ", key)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.poison = append(w.poison, err)
}

// routes returns the ids of the notifications that were routed to a client.
func (w *world) routes(client string) (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, it := range w.routed {
		if it.Recipient == client {
			ids = append(ids, it.N.ID)
		}
	}
	return ids
}

// endings returns the ids of the notifications that ended with a status.
func (w *world) endings(as notification.Status) (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.ended {
		if e.As == as {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// restart starts a killed server again, and waits until the publisher can reach it.
func (w *world) restart(s *redisserver.Server) {
	w.t.Helper()
	if err := s.Restart(); err != nil {
		w.t.Fatal(err)
	}
	w.reconnect()
}

// reconnect waits until the publisher's connection works again.
func (w *world) reconnect() {
	w.t.Helper()
	eventually.True(w.t, "Redis being there for the publisher", func() bool {
		return w.redis.Do(w.t.Context(), w.redis.B().Ping().Build()).Error() == nil
	})
}

// add publishes as publishers do: the entry and the key's expiry in one transaction. changes are those of fields.
func (w *world) add(client, id string, changes ...string) string {
	w.t.Helper()
	entry, err := w.publish(client, id, changes...)
	if err != nil {
		w.t.Fatal(err)
	}
	return entry
}

// try is add for a Redis that may be unreachable.
func (w *world) try(client, id string) error {
	_, err := w.publish(client, id)
	return err
}

func (w *world) publish(client, id string, changes ...string) (entry string, err error) {
	return w.publishTo(Key(client, 128), id, changes...)
}

// publishTo publishes to a stream by its key.
func (w *world) publishTo(key, id string, changes ...string) (entry string, err error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), callWithin)
	defer cancel()
	b := w.redis.B()
	fv := b.Xadd().Key(key).Id("*").FieldValue()
	ttl := w.now().Add(10 * time.Minute).UTC().Format("2006-01-02 15:04:05.000000 UTC")
	for _, f := range fields(append([]string{"id", id, "ttl", ttl}, changes...)...) {
		fv = fv.FieldValue(f.Name, f.Value)
	}
	res := w.redis.DoMulti(ctx, b.Multi().Build(), fv.Build(), b.Expire().Key(key).Seconds(3600).Build(), b.Exec().Build())
	list, err := res[3].ToArray()
	if err != nil {
		return "", err
	}
	return list[0].ToString()
}

// addMany publishes many notifications to one client.
func (w *world) addMany(client string, list []string) {
	w.t.Helper()
	b := w.redis.B()
	ttl := w.now().Add(time.Hour).UTC().Format(time.RFC3339)
	cmds := make([]rueidis.Completed, len(list))
	for i, id := range list {
		fv := b.Xadd().Key(Key(client, 128)).Id("*").FieldValue()
		for _, f := range fields("id", id, "ttl", ttl) {
			fv = fv.FieldValue(f.Name, f.Value)
		}
		cmds[i] = fv.Build()
	}
	for _, res := range w.redis.DoMulti(w.t.Context(), cmds...) {
		if err := res.Error(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// left returns how many entries a client's stream has.
func (w *world) left(key string) int64 {
	w.t.Helper()
	n, err := w.redis.Do(w.t.Context(), w.redis.B().Xlen().Key(key).Build()).AsInt64()
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// untilLeft waits until a client's stream has exactly n entries.
func (w *world) untilLeft(client string, n int64) {
	w.t.Helper()
	eventually.True(w.t, fmt.Sprintf("%d entries being left", n), func() bool { return w.left(Key(client, 128)) == n })
}

// untilRouted waits until a notification is routed to a client.
func (w *world) untilRouted(client, id string) {
	w.t.Helper()
	eventually.True(w.t, id+" being routed", func() bool { return slices.Contains(w.routes(client), id) })
}

// untilReread waits for the call that makes a client's sessions read again.
func (w *world) untilReread(client string) {
	w.t.Helper()
	eventually.True(w.t, "sessions being told to read again", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.reread[client] > 0
	})
}

// readOne reads a stream of one entry from an id on, as the store does.
func (w *world) readOne(key string, from EntryID) []raw {
	w.t.Helper()
	list, err := entriesOf(w.redis.Do(w.t.Context(), w.Store.link.rangeFrom(key, from, readEntries)))
	if err != nil || len(list) != 1 {
		w.t.Fatal(list, err)
	}
	return list
}

// kept returns the number of a client's entries in memory.
func (w *world) kept(client string) int {
	st := w.online(client)
	if st == nil {
		return 0
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(st.entries)
}

// pending reads as a session does that already has the positions have.
func (w *world) pending(client string, have ...int64) mailbox.PendingResult {
	w.t.Helper()
	res, err := w.Pending(w.t.Context(), []mailbox.PendingQuery{{App: "rides", Recipient: client, Have: have, Limit: 64, Bytes: 1 << 19}})
	if err != nil {
		w.t.Fatal(err)
	}
	return res[0]
}

// joined publishes to a client, opens a session of it, and returns the items that the session reads.
func (w *world) joined(client string, list ...string) []mailbox.Item {
	w.t.Helper()
	for _, id := range list {
		w.add(client, id)
	}
	w.Joined(client)
	return w.pending(client).Items
}

// wantPending checks the pending notifications of a client.
func (w *world) wantPending(client string, want ...string) mailbox.PendingResult {
	w.t.Helper()
	got := w.pending(client)
	if !slices.Equal(ids(got.Items), want) {
		w.t.Fatalf("pending are %v, want %v", ids(got.Items), want)
	}
	return got
}

// deliver marks items as written.
func (w *world) deliver(items ...mailbox.Item) {
	for _, it := range items {
		w.Delivered([]mailbox.Mark{{App: "rides", Recipient: it.Recipient, ID: it.N.ID, Pos: it.Pos, Attempts: it.Attempts + 1, DeliveredAt: w.now()}})
	}
}

// ack acknowledges as a session does, by position or, with 0, by id.
func (w *world) ack(client, id string, pos int64) {
	w.SettleLater([]*mailbox.Settle{{App: "rides", Recipient: client, ID: id, Pos: pos, As: notification.Acked, At: w.now()}})
}

func ids(items []mailbox.Item) (list []string) {
	for _, it := range items {
		list = append(list, it.N.ID)
	}
	return list
}
