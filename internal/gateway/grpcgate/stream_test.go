package grpcgate

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/delivery"
	"godwit.dev/godwit/internal/notification"
)

// endless is a publish stream whose client sends as much as it is let.
type endless struct {
	grpc.ServerStream
	ctx  context.Context //nolint:containedctx // what grpc.ServerStream hands out
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

// stuck is a store that does not answer until the publisher goes.
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
					if err := (&publisher{pub: stuck{}, keys: stuck{}}).PublishStream(s); err == nil {
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
