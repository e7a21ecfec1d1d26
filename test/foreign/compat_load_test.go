package foreign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"godwit.dev/godwit/bench/redispub"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
	"godwit.dev/godwit/test/blackbox"
)

// load is a group of clients that reconnect whenever their stream ends, and back ends that publish to them continuously.
type load struct {
	*world
	riders []*rider
	size   int // bytes of an entry's data
	wg     sync.WaitGroup
}

// rider is one client. It does not acknowledge every tenth notification.
type rider struct {
	client string
	number int

	mu        sync.Mutex
	published int
	got       map[string]int // how often, by id
	streams   int            // that it opened
}

func newLoad(w *world, riders, size int) *load {
	l := &load{world: w, size: size}
	for i := range riders {
		l.riders = append(l.riders, &rider{client: uuid(), number: i, got: make(map[string]int)})
	}
	return l
}

func (r *rider) id(n int) string { return fmt.Sprintf("ride-%d-%d", r.number, n) }

// silent reports whether clients leave notification n unacknowledged.
func silent(n int) bool { return n%10 == 9 }

// silentIDs returns the ids of the published notifications that stay unacknowledged.
func (r *rider) silentIDs() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make(map[string]bool)
	for n := range r.published {
		if silent(n) {
			ids[r.id(n)] = true
		}
	}
	return ids
}

// goOnline connects all clients and keeps each connected to the service that where returns, until ctx ends.
func (l *load) goOnline(ctx context.Context, where func(*rider) string) {
	for _, r := range l.riders {
		l.wg.Go(func() {
			for ctx.Err() == nil {
				_ = r.listen(ctx, where(r)) // it ends with the service, or when the client must move
			}
		})
	}
}

// listen runs one stream of a client, for as long as it lasts.
func (r *rider) listen(ctx context.Context, addr string) error {
	quick := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, Jitter: 0.5, MaxDelay: 300 * time.Millisecond}}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(quick))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, "token", tokenOf(r.client))
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, streamPayload, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.streams++
	r.mu.Unlock()
	if err := stream.SendMsg(ackOf("")); err != nil {
		return err
	}
	for {
		m := message("NotificationPayload")
		if err := stream.RecvMsg(m); err != nil {
			return err
		}
		id := text(m, "id")
		r.mu.Lock()
		r.got[id]++
		r.mu.Unlock()
		var number, n int
		if _, err := fmt.Sscanf(id, "ride-%d-%d", &number, &n); err == nil && !silent(n) {
			if err := stream.SendMsg(ackOf(id)); err != nil {
				return err
			}
		}
	}
}

// publishers is how many back ends there are.
const publishers = 4

// publish publishes at a rate until ctx ends, and repeats each entry until Redis has confirmed it.
func (l *load) publish(ctx context.Context, rate float64) {
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			pub := redispub.NewPublisher(l.world.redis.seeds, shards)
			defer pub.Close()
			tick := time.NewTicker(time.Duration(float64(time.Second) * publishers / rate))
			defer tick.Stop()
			for i := p; ; i += publishers {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
				l.publishOne(pub, l.riders[i%len(l.riders)])
			}
		})
	}
	wg.Wait()
}

// publishOne publishes the next number of a client. Once begun, a publish is completed even if ctx ends.
func (l *load) publishOne(pub *redispub.Publisher, r *rider) {
	ctx := context.WithoutCancel(l.Context())
	r.mu.Lock()
	e := entry(r.id(r.published))
	r.published++
	r.mu.Unlock()
	e.Entity = fmt.Sprintf(`{"padding":"%0*d"}`, l.size, 0)
	err := blackbox.Poll(ctx, blackbox.Patience, func() error {
		_, err := pub.Publish(ctx, r.client, e)
		return err
	})
	if err != nil {
		l.Error(err)
	}
}

// judge waits until all clients have received everything, and until Redis has exactly the unacknowledged entries.
func (l *load) judge() {
	l.Helper()
	entries, again, streams := 0, 0, 0
	for _, r := range l.riders {
		blackbox.Eventually(l, "everything for "+r.client, func() error { return r.missing() })
		blackbox.Eventually(l, "the acknowledgements of "+r.client, func() error { return l.wantLeft(r) })
		r.mu.Lock()
		entries, streams = entries+r.published, streams+r.streams
		for id, times := range r.got {
			if n := 0; !silent(n) && times > 1 {
				_, _ = fmt.Sscanf(id, "ride-%d-%d", new(int), &n)
				again += times - 1
			}
		}
		r.mu.Unlock()
	}
	l.Logf("%d entries for %d clients over %d streams, %d sent again: none is lost, and Redis has those alone that nobody acknowledged",
		entries, len(l.riders), streams, again)
}

func (r *rider) missing() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range r.published {
		if r.got[r.id(n)] == 0 {
			return fmt.Errorf("%s has not come; %d of %d have", r.id(n), len(r.got), r.published)
		}
	}
	if len(r.got) > r.published {
		return errors.New("something came that nobody published")
	}
	return nil
}

// wantLeft returns an error if a client's stream has unexpected entries or lacks expected ones.
func (l *load) wantLeft(r *rider) error {
	key := redispub.Key(r.client, shards)
	l.world.mu.Lock()
	answer, err := l.pub.Do(l.Context(), key, "XRANGE", key, "-", "+")
	l.world.mu.Unlock()
	if err != nil {
		return err
	}
	want := r.silentIDs()
	entries, _ := answer.([]any)
	for _, e := range entries {
		fields, _ := e.([]any)[1].([]any)
		at := slices.Index(fields, any("id"))
		id, _ := fields[at+1].(string)
		var number, n int
		if _, err := fmt.Sscanf(id, "ride-%d-%d", &number, &n); err != nil || !silent(n) {
			return fmt.Errorf("%s was acknowledged and is still there", id)
		}
		delete(want, id)
	}
	for id := range want {
		return fmt.Errorf("%s was deleted and not acknowledged", id)
	}
	return nil
}

// runLoad runs a load of a number of clients while disturb disturbs the service or its Redis, and judges the result.
func runLoad(w *world, riders int, rate float64, size int, where func(*rider) string, disturb func(ctx context.Context, l *load)) {
	l := newLoad(w, riders, size)
	online, goOffline := context.WithCancel(w.Context())
	publishing, stop := context.WithCancel(w.Context())
	defer l.wg.Wait()
	defer goOffline()
	l.goOnline(online, where)
	var wg sync.WaitGroup
	wg.Go(func() { l.publish(publishing, rate) })
	disturb(online, l)
	stop()
	wg.Wait()
	l.judge()
}

// pass lets the load continue for a while: this is its pace, and nothing waits for it.
func pass(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func to(addr string) func(*rider) string { return func(*rider) string { return addr } }

func TestTheLoadIsJudgedOnTheFormerServiceToo(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	w := beginFormer(t, startAround(t, redistest.Start(t).Addr()))
	runLoad(w, 10, 200, 100, to(w.addr), func(ctx context.Context, _ *load) { pass(ctx, 300*time.Millisecond) })
}
