package foreign

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"godwit.dev/godwit/bench/redispub"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
	"godwit.dev/godwit/test/blackbox"
)

// better are cases in which Godwit does more than the former service, or behaves differently.
var better = map[string]func(*world){
	"a second connection ends the first and gets everything that is not acknowledged": func(w *world) {
		client := uuid()
		first := w.online(client)
		w.publish(client, entry("a"), entry("b"))
		first.all("a", "b")
		first.ack("a")
		w.left(client, 1)
		second := w.online(client)
		if code := first.end(); code != codes.OK {
			w.Errorf("the first ended with %s", code)
		}
		w.publish(client, entry("c"))
		if _, before := second.until("c"); len(before) == 0 || before[0].id != "b" {
			w.Errorf("before the last came %+v, want b", before)
		}
		second.ack("b", "c")
		w.left(client, 0)
	},
	"two entries with one id are sent once and both deleted": func(w *world) {
		client := uuid()
		a := w.online(client)
		w.publish(client, entry("twice"), entry("twice"), entry("last"))
		p, before := a.until("last")
		if len(before) != 1 || before[0].id != "twice" {
			w.Errorf("before %s came %+v", p.id, before)
		}
		a.ack("twice", "last")
		w.left(client, 0)
	},
	"an entry with the id of one that was acknowledged does not stay": func(w *world) {
		client := uuid()
		a := w.online(client)
		w.publish(client, entry("again"))
		a.until("again")
		a.ack("again")
		w.left(client, 0)
		w.publish(client, entry("again"), entry("last"))
		a.until("last")
		a.ack("again", "last")
		w.left(client, 0)
	},
	"times have up to twelve digits of a fraction and may have an offset": func(w *world) {
		client := uuid()
		until := time.Now().Add(time.Hour).Truncate(time.Second)
		india := until.In(time.FixedZone("", 5*3600+1800))
		iso, haskell, offset := india.Format("2006-01-02T15:04:05"), india.Format("2006-01-02 15:04:05"), india.Format("-07:00")
		var ids []string
		for i, at := range []string{
			redispub.Haskell(until, 123_456_789_123), redispub.Haskell(until, 654_123_456_789), redispub.Haskell(until, 1), redispub.Haskell(until, 0),
			redispub.Haskell(until, 500_000_000_000), iso + offset, iso + ".654" + offset, haskell + ".123456789123 " + offset, haskell + offset,
			until.UTC().Format("2006-01-02T15:04:05") + ".123456789123Z",
		} {
			e := entry(fmt.Sprint("ride-", i))
			e.TTL, e.CreatedAt = at, at
			w.publish(client, e)
			ids = append(ids, e.ID)
		}
		// If its offset is ignored, this one expired hours ago.
		west := entry("west")
		west.TTL = time.Now().Add(time.Hour).In(time.FixedZone("", -8*3600)).Format("2006-01-02T15:04:05-07:00")
		// And this one has not.
		east := entry("east")
		east.TTL = time.Now().Add(-time.Hour).In(time.FixedZone("", 5*3600+1800)).Format("2006-01-02T15:04:05-07:00")
		w.publish(client, west, east)
		a := w.online(client)
		a.all(append(ids, "west")...)
		a.ack(append(ids, "west")...)
		w.left(client, 0)
	},
	"what is malformed goes into quarantine and keeps nobody waiting": poison,
	"authentication that fails is an internal error, a missing token an invalid argument, for quotes too": func(w *world) {
		for _, method := range []string{streamPayload, serverStreamPayload} {
			if code := refused(w, w.addr, method, "token", tokenOfDown); code != codes.Internal {
				w.Errorf("%s with an auth endpoint that is down: %s", method, code)
			}
		}
		for _, method := range []string{quoteRespond, quoteStreamWithID, quoteWithID} {
			for want, md := range map[codes.Code][]string{codes.InvalidArgument: nil, codes.Internal: {"token", "nobody's"}} {
				_, _, _, err := quote(w.Context(), w, w.addr, method, quoteRequest("s", 1, "Accept"), md...)
				if code := grpcCode(err); code != want {
					w.Errorf("%s with %v: %v, want %s", method, md, err, want)
				}
			}
		}
	},
	"each session of a client gets everything": func(w *world) {
		client := uuid()
		w.publish(client, entry("before"))
		token := []string{"token", tokenOf(client)}
		a := connect(w, w.addr, serverStreamPayload, append(token, "session-id", "a")...)
		b := connect(w, w.addr, serverStreamPayload, append(token, "session-id", "b")...)
		w.publish(client, entry("after"))
		for _, s := range []*app{a, b} {
			s.all("before", "after")
		}
		w.left(client, 2) // nobody can acknowledge over this
		again := connect(w, w.addr, serverStreamPayload, append(token, "session-id", "c")...)
		again.all("before", "after")
	},
	"a client that reads nothing gets everything when it reads again, and keeps nobody waiting": func(w *world) {
		const many = 600
		client, other := uuid(), uuid()
		stalled := &app{t: w, got: make(chan payload, 4096), ended: make(chan error, 1)}
		ctx, cancel := context.WithCancel(contextWith(w.Context(), "token", tokenOf(client)))
		w.Cleanup(cancel)
		var err error
		stalled.stream, err = dial(w, w.addr).NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, streamPayload)
		if err != nil {
			w.Fatal(err)
		}
		stalled.ack("")
		var ids []string
		for i := range many {
			e := entry(fmt.Sprint("ride-", i))
			e.Entity = `{"padding":"` + strings.Repeat("x", 4000) + `"}`
			w.publish(client, e)
			ids = append(ids, e.ID)
		}
		w.publish(other, entry("theirs"))
		quick := w.online(other)
		quick.until("theirs")
		go stalled.read()
		missing := make(map[string]bool)
		for _, id := range ids {
			missing[id] = true
		}
		for len(missing) > 0 {
			id := stalled.next().id
			delete(missing, id)
			stalled.ack(id)
		}
		w.left(client, 0)
	},
	"the answers of quotes are those of the driver API": quotes,
	"probes are answered": func(w *world) {
		if code, body := w.get("/health"); code != http.StatusOK || body != "Notification Service Is Up!" {
			w.Errorf("/health: %d %q", code, body)
		}
		ctx, cancel := context.WithTimeout(w.Context(), blackbox.Patience)
		defer cancel()
		answer := message("QuoteResponse") // any message will do: it keeps unknown fields
		err := dial(w, w.addr).Invoke(ctx, "/healthcheck.Health/Check", message("NotificationAck"), answer, grpc.WaitForReady(true))
		unknown := answer.GetUnknown()
		number, kind, n := protowire.ConsumeTag(unknown)
		if err != nil || n < 0 || number != 1 || kind != protowire.VarintType {
			w.Fatalf("Health/Check: %v, %x", err, unknown)
		}
		if status, _ := protowire.ConsumeVarint(unknown[n:]); status != 1 {
			w.Errorf("Health/Check answers %d, want 1 (SERVING)", status)
		}
	},
}

// poison publishes broken entries, each broken in another way, between two valid ones.
func poison(w *world) {
	client, other := uuid(), uuid()
	shard := redispub.Shard(client, shards)
	for redispub.Shard(other, shards) != shard {
		other = uuid()
	}
	broken := map[string]func(e map[string]string){
		"ttl is no time":        func(e map[string]string) { e["ttl"] = "tomorrow" },
		"created_at is no time": func(e map[string]string) { e["created_at"] = "2026-13-40 99:00:00 UTC" },
		"title is not UTF-8":    func(e map[string]string) { e["title"] = "\xff\xfe" },
	}
	for _, field := range []string{"id", "category", "title", "show", "entity.id", "entity.type", "entity.data", "created_at", "ttl"} {
		broken[field+" is missing"] = func(e map[string]string) { delete(e, field) }
	}
	w.publish(client, entry("first"))
	w.publish(other, entry("theirs"))
	online := w.online(client)
	online.until("first")
	for name, breakIt := range broken {
		fields := map[string]string{}
		whole := entry(name)
		whole.Body = name + " " + client
		for list := whole.Fields(); len(list) > 0; list = list[2:] {
			fields[list[0]] = list[1]
		}
		breakIt(fields)
		var list []string
		for field, value := range fields {
			list = append(list, field, value)
		}
		w.appendTo(client, "*", list)
	}
	w.publish(client, entry("last"))
	if _, before := online.until("last"); len(before) > 0 {
		for _, p := range before {
			if p.id != "first" {
				w.Errorf("%q came", p.id)
			}
		}
	}
	w.online(other).until("theirs")
	online.ack("first", "last")
	w.left(client, 0)
	quarantine := fmt.Sprintf("godwit:quarantine{%d}", shard)
	kept := fmt.Sprint(w.do(quarantine, "XRANGE", quarantine, "-", "+"))
	for name := range broken {
		if !strings.Contains(kept, name+" "+client) {
			w.Errorf("the entry of which %s is not in quarantine", name)
		}
	}
}

// TestGodwitInItsPlace runs the cases of the former service's clients and back ends against Godwit.
func TestGodwitInItsPlace(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	// The delay is long, so that no unacknowledged entry is sent again, however slow this machine is.
	w := begin(t, startAround(t, redistest.Start(t).Addr()), blackbox.Args("--compat-retry-delay", "5m"))
	t.Run("alike", func(t *testing.T) { runAll(t, w, alike) })
	t.Run("better", func(t *testing.T) { runAll(t, w, better) })
}
