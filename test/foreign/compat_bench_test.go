package foreign

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
	"godwit.dev/godwit/test/blackbox"
)

// TestTheBenchmarksClientsAndPublishers runs the benchmarks' clients and publishers against the former service: they must behave like its
// real ones.
func TestTheBenchmarksClientsAndPublishers(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	const count, prefix = 20, "bench-"
	w := beginFormer(t, startAround(t, redistest.Start(t).Addr()))
	r, err := reactor.New(reactor.Config{Loops: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for n := range count {
		client := loadgen.ClientID(prefix, n)
		key := "NS:" + loadgen.ClientToken(client)
		w.do(key, "SET", key, client)
	}
	subs, err := loadgen.NewSubscribers(r, loadgen.SubscriberConfig{
		Targets: []loadgen.Target{{GRPC: w.addr}}, Transport: loadgen.Nammayatri, Prefix: prefix, Count: count,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := subs.Connect(t.Context(), count); err != nil {
		t.Fatal(err)
	}
	pubs, err := loadgen.NewRedisPublishers(t.Context(), loadgen.RedisConfig{
		Addrs: w.redis.seeds, Shards: shards, Publishers: 4, Size: 200, Prefix: prefix, Recipients: count,
	})
	if err != nil {
		t.Fatal(err)
	}
	done, err := pubs.Run(t.Context(), 500, 200*time.Millisecond)
	if err != nil || done.Accepted == 0 || done.Accepted != done.Messages {
		t.Fatalf("published %+v, %v", done, err)
	}
	blackbox.Eventually(t, "deliveries", func() error {
		if c := subs.Counts(); c.Received != done.Accepted {
			return fmt.Errorf("%+v of %d", c, done.Accepted)
		}
		return nil
	})
	for n := range count {
		w.left(loadgen.ClientID(prefix, n), 0)
	}
	if l := subs.TakeLatency(); l.Count() != done.Accepted || l.At(50) <= 0 {
		t.Errorf("%d latencies were recorded, of which half are below %s", l.Count(), l.At(50))
	}
	if err := subs.Cut(t.Context()); err != nil {
		t.Error(err)
	}
	r.Close()
}
