package rides

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/cluster"
)

func TestGeneratorMakesRealisticRides(t *testing.T) {
	a, b := Generate(seed, 50, 20), Generate(seed, 50, 20)
	for i := range a {
		if a[i].ID != b[i].ID || a[i].To != b[i].To || string(a[i].Data) != string(b[i].Data) {
			t.Fatalf("ride %d differs from one run to the next", i)
		}
		if n := len(a[i].Data); n < bodyBytes-64 || n > bodyBytes+64 {
			t.Errorf("ride %d has %d bytes of data, want about %d", i, n, bodyBytes)
		}
	}
}

// TestEveryRideIsAcknowledgedOnce: thousands of rides to hundreds of drivers over every transport, a third of them offline at first,
// one in ten connections cut. Each ride is acknowledged once, first deliveries are in order, what expired is not sent.
func TestEveryRideIsAcknowledgedOnce(t *testing.T) {
	blackbox.Long(t)
	acknowledgedOnce(t, blackbox.Start(t, blackbox.Dev()))
}

// TestEveryRideIsAcknowledgedOnceByThreeNodes: the same with three nodes behind HAProxy.
func TestEveryRideIsAcknowledgedOnceByThreeNodes(t *testing.T) {
	blackbox.Long(t)
	acknowledgedOnce(t, cluster.Start(t, cluster.Options{Serve: []blackbox.Option{blackbox.Plain()}}).Front())
}

func acknowledgedOnce(t *testing.T, server *blackbox.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	api := server.API()
	rides := Generate(seed, rideCount, drivers)
	offline := func(i int) bool { return i%3 == 0 }
	doomed := expiring(rides)
	w := newWitness(append(rides[:len(rides):len(rides)], doomed...))
	fleet := newFleet(ctx, server, w)
	defer fleet.stop()

	fleet.connect(func(i int) bool { return !offline(i) })
	for i := range doomed {
		if err := publishOne(ctx, api, &doomed[i]); err != nil {
			t.Fatal(err)
		}
	}
	var stored atomic.Int64
	if err := publish(ctx, api, rides, &stored); err != nil {
		t.Fatal(err)
	}
	for i := range doomed {
		blackbox.Eventually(t, "a ride that nobody took expires", func() error {
			return api.WantState(ctx, doomed[i].ID, doomed[i].To, "expired")
		})
	}
	fleet.connect(offline)
	settle(t, api)
	fleet.stop()

	wantAllAcked(t, api, rides)
	wantOneAckEach(ctx, t, api, rides)
	for i := range doomed {
		if w.seen[doomed[i].ID] {
			t.Errorf("%s had expired and was sent all the same", doomed[i].ID)
		}
	}
	w.check(t, rides)
}

// expiring returns rides for drivers that are offline until the rides have expired.
func expiring(rides []Ride) []Ride {
	doomed := make([]Ride, 50)
	for i := range doomed {
		doomed[i] = rides[i]
		doomed[i].ID = fmt.Sprintf("doomed-%02d", i)
		doomed[i].To = Driver(i * 3 % drivers)
		doomed[i].TTL = time.Second
	}
	return doomed
}

// wantOneAckEach checks in the events feed that each ride has exactly one event "acked".
func wantOneAckEach(ctx context.Context, t *testing.T, api *blackbox.API, rides []Ride) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, blackbox.Patience)
	defer cancel()
	acks := map[string]int{}
	err := api.Events(ctx, "acked", func(e blackbox.Event) bool {
		acks[e.ID]++
		return len(acks) < len(rides)
	})
	if err != nil || len(acks) != len(rides) {
		t.Errorf("the events feed told of %d of %d acknowledgements: %v", len(acks), len(rides), err)
	}
	for id, n := range acks {
		if n != 1 {
			t.Errorf("%s was acknowledged %d times", id, n)
		}
	}
}

// TestNotificationSurvivesKill: the same, while the server is killed 20 times at random moments and restarted on the same folder.
// Acknowledged publishes are never repeated, so all of their notifications must arrive.
func TestNotificationSurvivesKill(t *testing.T) {
	blackbox.Long(t)
	kills := thorough.Rounds(6, 20)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	api := server.API()
	rides := Generate(seed+1, rideCount, drivers)
	w := newWitness(rides)
	fleet := newFleet(ctx, server, w)
	defer fleet.stop()
	offline := func(i int) bool { return i%3 == 0 }
	fleet.connect(func(i int) bool { return !offline(i) })

	var stored atomic.Int64
	published := make(chan error, 1)
	go func() { published <- publish(ctx, api, rides, &stored) }()
	r := rand.New(rand.NewPCG(seed, uint64(kills)))
	for kill := range kills {
		// A random moment within each twentieth of the publishing, so that every kill interrupts work under way.
		moment := int64(rideCount * kill / kills)
		moment += r.Int64N(int64(rideCount / kills))
		err := blackbox.Poll(ctx, patience, func() error {
			if stored.Load() < moment {
				return fmt.Errorf("%d of %d published", stored.Load(), moment)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		server.Kill()
		if err := server.Launch(); err != nil {
			t.Fatalf("start after kill %d: %v", kill+1, err)
		}
		if kill == kills/2 {
			fleet.connect(offline)
		}
	}
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	settle(t, api)
	fleet.stop()

	wantAllAcked(t, api, rides)
	w.check(t, rides)
}
