package rides

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"

	"golang.org/x/sync/errgroup"
)

// The size of the input that the promise states.
var (
	rideCount = thorough.Rounds(1500, 5000)
	drivers   = thorough.Rounds(300, 1000)
)

const (
	seed       = 20261121
	publishers = 8
)

// patience limits a whole run, which normally takes a fraction of it.
const patience = 6 * time.Minute

// fleet runs the drivers' clients.
type fleet struct {
	server  *blackbox.Server
	witness *witness
	ctx     context.Context // the clients' common life
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

func newFleet(ctx context.Context, s *blackbox.Server, w *witness) *fleet {
	f := &fleet{server: s, witness: w}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

// connect connects the drivers for which pick is true, over all transports in turn.
func (f *fleet) connect(pick func(i int) bool) {
	for i := range drivers {
		if !pick(i) {
			continue
		}
		d := &driver{
			name: Driver(i), transport: blackbox.Transports[i%len(blackbox.Transports)], server: f.server,
			rand: rand.New(rand.NewPCG(seed, uint64(i))), witness: f.witness,
		}
		f.wg.Go(func() { d.run(f.ctx) })
	}
}

func (f *fleet) stop() {
	f.cancel()
	f.wg.Wait()
}

// publish publishes all rides, in order for each driver: each publisher has drivers of its own. It repeats unanswered requests and never
// answered ones. stored counts the accepted rides.
func publish(ctx context.Context, api *blackbox.API, rides []Ride, stored *atomic.Int64) error {
	g, ctx := errgroup.WithContext(ctx)
	for p := range publishers {
		g.Go(func() error {
			for i := range rides {
				if owner(rides[i].To) != p {
					continue
				}
				if err := publishOne(ctx, api, &rides[i]); err != nil {
					return err
				}
				stored.Add(1)
			}
			return nil
		})
	}
	return g.Wait()
}

func owner(driver string) int {
	sum := 0
	for _, c := range []byte(driver) {
		sum = sum*31 + int(c)
	}
	return sum % publishers
}

func publishOne(ctx context.Context, api *blackbox.API, ride *Ride) error {
	return blackbox.Poll(ctx, patience, func() error {
		answer, err := api.Do(ctx, http.MethodPost, "/v1/notifications", ride.Body())
		if err != nil {
			return err
		}
		if answer.Status != http.StatusCreated && answer.Status != http.StatusOK {
			return fmt.Errorf("publish %s: %d %s", ride.ID, answer.Status, answer.Body)
		}
		return nil
	})
}

// settle waits until nothing is pending.
func settle(t *testing.T, api *blackbox.API) {
	t.Helper()
	blackbox.EventuallyWithin(t, patience, "everything acknowledged", func() error {
		pending, err := api.Pending(t.Context())
		if err == nil && pending > 0 {
			err = fmt.Errorf("%d are pending", pending)
		}
		return err
	})
}

// wantAllAcked checks the state of every ride.
func wantAllAcked(t *testing.T, api *blackbox.API, rides []Ride) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(publishers)
	var wrong atomic.Int64
	for i := range rides {
		g.Go(func() error {
			err := api.WantState(t.Context(), rides[i].ID, rides[i].To, "acked")
			if err != nil && wrong.Add(1) <= 10 {
				t.Error(err)
			}
			return nil
		})
	}
	g.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d of %d are not acknowledged", n, len(rides))
	}
}

// check fails the test for every complaint of the witness.
func (w *witness) check(t *testing.T, rides []Ride) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.complaints {
		t.Error(c)
	}
	if len(w.seen) != len(rides) {
		t.Errorf("%d of %d rides arrived", len(w.seen), len(rides))
	}
	t.Logf("%d rides arrived %d times, %d connections were cut", len(w.seen), w.arrivals, w.cuts)
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
