package grpcgate

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/engine/fair"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
)

// endless is a publish stream whose client sends as much as the stream accepts.
type endless struct {
	grpc.ServerStream
	ctx  context.Context // what grpc.ServerStream hands out
	size int
	read int
}

func (e *endless) Context() context.Context { return e.ctx }

func (e *endless) Recv() (*godwitpb.PublishRequest, error) {
	if e.ctx.Err() != nil {
		return nil, e.ctx.Err()
	}
	e.read++
	return &godwitpb.PublishRequest{To: []string{"driver-1"}, Body: strings.Repeat("x", e.size)}, nil
}

func (e *endless) Send(*godwitpb.PublishResponse) error { return e.ctx.Err() }

// stuck is a store that does not answer until the publisher is gone.
type stuck struct{}

func (stuck) Publish(ctx context.Context, _ string, drafts []*notification.Draft) []delivery.Result {
	<-ctx.Done()
	return make([]delivery.Result, len(drafts))
}

func (stuck) Key(context.Context, string) (access.Principal, error) {
	return access.Principal{App: "demo", Roles: access.Publish}, nil
}

func TestPublishStreamReadsAheadWithinBounds(t *testing.T) {
	for name, c := range map[string]struct{ size, most int }{
		"small requests by number": {10, 2*streamRequests + 2},
		"large requests by bytes":  {200 << 10, streamBytes/(200<<10) + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer k")))
				s := &endless{ctx: ctx, size: c.size}
				var wg sync.WaitGroup
				wg.Go(func() {
					if err := (&publisher{pub: stuck{}, keys: stuck{}, calls: fair.NewShares(2)}).PublishStream(s); err == nil {
						t.Error("a stream that was cut off ends in good order")
					}
				})
				synctest.Wait()
				if s.read > c.most || s.read < c.most/4 {
					t.Errorf("%d requests were read while none was answered, want at most %d", s.read, c.most)
				}
				cancel()
				wg.Wait()
			})
		})
	}
}

// TestOneAppLeavesPlacesForAnothersCalls makes calls of one app that never end.
func TestOneAppLeavesPlacesForAnothersCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{pub: stuck{}, keys: byKey{}, calls: fair.NewShares(4)}
		as := func(app string) context.Context {
			return metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+app))
		}
		hold, release := context.WithCancel(as("hostile"))
		var wg sync.WaitGroup
		refused := 0
		for range 3 {
			wg.Go(func() {
				if _, err := p.Publish(hold, &godwitpb.PublishRequest{To: []string{"driver-1"}, Title: "Hi"}); status.Code(err) == codes.ResourceExhausted {
					refused++
				}
			})
			synctest.Wait()
		}
		if err := p.PublishStream(&endless{ctx: hold}); status.Code(err) != codes.ResourceExhausted || refused != 1 {
			t.Errorf("a stream of the app that has two of four places: %v; %d of its publishes were refused", err, refused)
		}
		good, stop := context.WithTimeout(as("good"), time.Second)
		if _, err := p.Publish(good, &godwitpb.PublishRequest{To: []string{"driver-1"}, Title: "Hi"}); status.Code(err) == codes.ResourceExhausted {
			t.Errorf("another app's call: %v", err)
		}
		stop()
		release()
		wg.Wait()
		if p.calls.Used() != 0 {
			t.Error("places were not given back")
		}
	})
}

// byKey authenticates every key, which is also the app's name.
type byKey struct{}

func (byKey) Key(_ context.Context, secret string) (access.Principal, error) {
	return access.Principal{App: secret, Roles: access.Publish}, nil
}
