package foreign

import (
	"context"
	"flag"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
	"godwit.dev/godwit/test/blackbox"
)

var (
	kills     = flag.Int("kills", 2, "how often the server is killed under load")
	killEvery = flag.Duration("kill-every", time.Second, "time between two kills")
	clients   = flag.Int("clients", 30, "clients that are online meanwhile")
	rate      = flag.Float64("rate", 100, "entries a second that are published meanwhile")
	size      = flag.Int("size", 200, "bytes of an entry's data")
	fast      = flag.Bool("fast", false, "run the server without the race detector")
)

// options of servers under load.
func options() []blackbox.Option {
	if *fast {
		return []blackbox.Option{blackbox.Plain()}
	}
	return nil
}

// TestNothingIsLostThroughKills checks all promises of a server that dies at any moment.
func TestNothingIsLostThroughKills(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	w := begin(t, startAround(t, redistest.Start(t).Addr()), options()...)
	runLoad(w, *clients, *rate, *size, to(w.addr), func(ctx context.Context, _ *load) {
		for range *kills {
			pass(ctx, *killEvery)
			w.server.Kill()
			if err := w.server.Launch(); err != nil {
				t.Fatal(err)
			}
		}
		pass(ctx, *killEvery)
	})
}

// TestNothingThatRedisKeptIsLostWhenAMasterIsKilled kills a master of a cluster of three, which restarts with the data on its disk.
func TestNothingThatRedisKeptIsLostWhenAMasterIsKilled(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	cluster, seeds := startCluster(t)
	w := begin(t, startAround(t, seeds...), options()...)
	runLoad(w, *clients, *rate, *size, to(w.addr), func(ctx context.Context, _ *load) {
		pass(ctx, *killEvery)
		cluster.Masters[0].Kill()
		pass(ctx, *killEvery)
		if err := cluster.Masters[0].Restart(); err != nil {
			t.Fatal(err)
		}
		pass(ctx, *killEvery)
	})
}

// TestClientsMoveBetweenBothServices moves clients between both services on one Redis: nothing is lost, however often they change.
func TestClientsMoveBetweenBothServices(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	r := startAround(t, redistest.Start(t).Addr())
	w := begin(t, r, options()...)
	former, _ := startFormer(t, r.seeds, shards, r.auth)
	const moves = 6
	l := newLoad(w, 12, 200)
	publishing, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { l.publish(publishing, 200) })
	for move := range moves {
		online, leave := context.WithCancel(t.Context())
		l.goOnline(online, func(r *rider) string { // half of the clients are at each service
			if (r.number+move)%2 == 0 {
				return former
			}
			return w.addr
		})
		pass(t.Context(), 250*time.Millisecond)
		leave()
		l.wg.Wait()
	}
	stop()
	wg.Wait()
	online, leave := context.WithCancel(t.Context())
	defer l.wg.Wait()
	defer leave()
	l.goOnline(online, to(w.addr))
	l.judge()
}
