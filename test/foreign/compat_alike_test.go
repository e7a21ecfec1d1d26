package foreign

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"godwit.dev/godwit/bench/redispub"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
	"godwit.dev/godwit/test/blackbox"
)

// alike are cases in which both services behave alike.
var alike = map[string]func(*world){
	"show and the entity's data come as they are written": func(w *world) {
		client := uuid()
		a := w.online(client)
		for _, text := range []string{"", "xxxx", `{"fare":`} {
			e := entry("opaque")
			e.ID, e.Show, e.Entity = "opaque-"+strconv.Itoa(len(text)), text, text
			w.publish(client, e)
			if got := a.next(); got != wantPayload(e) {
				w.Fatalf("got %+v, want %+v", got, wantPayload(e))
			}
			a.ack(e.ID)
		}
		w.left(client, 0)
	},
	"an entry comes with all its fields and is deleted by the ack of its notification's id": func(w *world) {
		client := uuid()
		a := w.online(client)
		e := entry("ride")
		w.publish(client, e)
		if got := a.next(); got != wantPayload(e) {
			w.Fatalf("got %+v, want %+v", got, wantPayload(e))
		}
		w.left(client, 1)
		a.ack("ride")
		w.left(client, 0)
	},
	"what was published before comes at connect, in order": func(w *world) {
		client := uuid()
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint("ride-", i))
			w.publish(client, entry(want[i]))
		}
		a := w.online(client)
		for i := range want {
			if got := a.next(); got.id != want[i] {
				w.Fatalf("%d: got %s, want %s", i, got.id, want[i])
			}
			a.ack(want[i])
		}
		w.left(client, 0)
	},
	"what is not acknowledged comes again to the next connection": func(w *world) {
		client := uuid()
		w.publish(client, entry("a"), entry("b"))
		first := w.online(client)
		first.all("a", "b")
		first.ack("a")
		w.left(client, 1)
		first.cut()
		first.end()
		second := w.online(client)
		second.until("b")
		second.ack("b")
		w.left(client, 0)
	},
	"both forms of times are read": func(w *world) {
		client := uuid()
		at := time.Date(2026, 11, 20, 23, 23, 58, 654_000_000, time.UTC)
		var ids []string
		for i, created := range []string{
			redispub.ISO(at), redispub.Haskell(at, 0), redispub.Haskell(at.Truncate(time.Second), 0),
			"2026-11-20T23:23:58Z", "2026-11-20 23:23:58.6541 UTC",
		} {
			e := entry(fmt.Sprint("created-", i))
			e.CreatedAt = created
			w.publish(client, e)
			ids = append(ids, e.ID)
		}
		until := time.Now().Add(time.Hour)
		for i, ttl := range []string{redispub.ISO(until), redispub.Haskell(until, 0), redispub.Haskell(until.Truncate(time.Second), 0)} {
			e := entry(fmt.Sprint("ttl-", i))
			e.TTL = ttl
			w.publish(client, e)
			ids = append(ids, e.ID)
		}
		a := w.online(client)
		a.all(ids...)
		a.ack(ids...)
		w.left(client, 0)
	},
	"a stream without a token is an invalid argument, one with a wrong token an internal error": func(w *world) {
		for _, method := range []string{streamPayload, serverStreamPayload} {
			if code := refused(w, w.addr, method); code != codes.InvalidArgument {
				w.Errorf("%s without a token: %s", method, code)
			}
			if code := refused(w, w.addr, method, "token", "nobody's"); code != codes.Internal {
				w.Errorf("%s with a wrong token: %s", method, code)
			}
		}
	},
	"a token is asked for once and then read from Redis": func(w *world) {
		client := uuid()
		w.publish(client, entry("ride"))
		for range 2 {
			a := w.online(client)
			a.until("ride") // its token was checked
			a.cut()
		}
		if n := w.redis.auth.times(client); n != 1 {
			w.Errorf("the auth endpoint was asked %d times", n)
		}
		key := "NS:" + tokenOf(client)
		if known := w.do(key, "GET", key); known != client {
			w.Errorf("%s is %v, want %s", key, known, client)
		}
		if ttl, _ := w.do(key, "TTL", key).(int64); ttl < 80_000 || ttl > 86_400 {
			w.Errorf("%s is kept for %d s", key, ttl)
		}
	},
	"a token that the other service has written is taken": func(w *world) {
		client := uuid()
		w.do("NS:kept"+client, "SET", "NS:kept"+client, client, "EX", "1000")
		w.publish(client, entry("ride"))
		a := connect(w, w.addr, streamPayload, "token", "kept"+client)
		a.until("ride")
		if n := w.redis.auth.times(client); n != 0 {
			w.Errorf("the auth endpoint was asked %d times", n)
		}
	},
	"acks of nothing, of what is not known, of another client and twice do no harm": func(w *world) {
		client, other := uuid(), uuid()
		w.publish(other, entry("theirs"))
		a := w.online(client)
		a.ack("", "nobody's", "theirs", "ride")
		w.publish(client, entry("ride"), entry("last"))
		a.all("ride", "last")
		w.left(other, 1)
		a.ack("ride", "ride", "", "last", "last")
		w.left(client, 0)
		w.left(other, 1)
	},
	"an entry that has expired is deleted and not sent": func(w *world) {
		client := uuid()
		old := entry("old")
		old.TTL = redispub.ISO(time.Now().Add(-time.Minute))
		w.publish(client, old, entry("new"))
		a := w.online(client)
		if _, before := a.until("new"); len(before) > 0 {
			w.Errorf("%v came", before)
		}
		w.left(client, 1)
	},
	"a client that is no UUID has shard 0, and of four parts its key has two": func(w *world) {
		unique := uuid()[:8]
		for client, key := range map[string]string{
			"driver" + unique: "Ndriver" + unique + "{0}", unique + "-b-c-d": "N" + unique + "-b{0}", unique + "-b-c": "N" + unique + "-b-c{0}",
		} {
			a := w.online(client)
			w.do(key, append([]string{"XADD", key, "*"}, entry(client).Fields()...)...)
			a.until(client)
			a.ack(client)
			w.left(client, 0)
		}
	},
	"a UUID's shard is the sum of its halves": func(w *world) {
		for client, key := range map[string]string{
			"ffffffff-ffff-ffff-ffff-ffffffffffff": "Nffffffff-ffff-ffff-ffff-ffffffffffff{126}", // the sum wraps around
			"00000000-0000-0001-0000-000000000082": "N00000000-0000-0001-0000-000000000082{3}",
		} {
			a := w.online(client)
			w.do(key, append([]string{"XADD", key, "*"}, entry(client).Fields()...)...)
			a.until(client)
			a.ack(client)
			w.left(client, 0)
		}
	},
	"a stream that vanishes whole is begun anew by the next publish": func(w *world) {
		client := uuid()
		key := redispub.Key(client, shards)
		a := w.online(client)
		ids := w.publish(client, entry("before"))
		a.until("before")
		w.do(key, "DEL", key)
		w.appendTo(client, laterID(w.T, ids[0]), entry("after").Fields()) // within one millisecond Redis would give the first id again
		a.until("after")
		a.ack("after", "before")
		w.left(client, 0)
	},
	"grpcio is served as grpc-go is": func(w *world) { pythonClient(w) },
}

// laterID returns the first id of the millisecond after that of an id.
func laterID(t *testing.T, id string) string {
	t.Helper()
	ms, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatInt(n+1, 10) + "-0"
}

func runAll(t *testing.T, w *world, tests map[string]func(*world)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(w.in(t))
		})
	}
}

// TestTheFormerService checks these tests themselves against a stand-in, since the former service's behavior is known.
func TestTheFormerService(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	r := startAround(t, redistest.Start(t).Addr())
	addr, _ := startFormer(t, r.seeds, shards, r.auth)
	w := newWorld(t, &world{redis: r, addr: addr})
	t.Run("alike", func(t *testing.T) { runAll(t, w, alike) })
	t.Run("a second connection goes on where the first was", func(t *testing.T) {
		w := w.in(t)
		client := uuid()
		first := w.online(client)
		w.publish(client, entry("read by the first"))
		first.until("read by the first")
		second := w.online(client)
		first.end()
		w.publish(client, entry("after"))
		if _, before := second.until("after"); len(before) > 0 {
			t.Errorf("%v came", before)
		}
	})
}
