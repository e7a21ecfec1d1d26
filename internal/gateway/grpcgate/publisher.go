package grpcgate

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/engine/fair"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
	httpcall "godwit.dev/godwit/internal/server/httpapi/call"
)

// Limits of a publish stream.
const (
	streamRequests = 256     // most requests of a batch; as many again are read ahead
	streamBytes    = 4 << 20 // most bytes of a batch; a larger request is stored alone
)

// PublishLimit takes n publishes from a key's budget. wait > 0: refused; the client may try again after wait.
type PublishLimit func(key string, n int) (wait time.Duration)

// publisher implements godwit.v1.Publisher.
type publisher struct {
	godwitpb.UnimplementedPublisherServer
	BackEnd
	pub   Publisher
	keys  Keys
	log   *slog.Logger
	calls *fair.Shares // that run
}

var errAppBusy = status.Error(codes.ResourceExhausted, "too many calls of the app are running; try again")

// Publish stores one notification.
func (p *publisher) Publish(ctx context.Context, req *godwitpb.PublishRequest) (*godwitpb.PublishResponse, error) {
	return serve(ctx, p, unary{name: "Publish", role: access.Publish, long: true}, func(ctx context.Context, who access.Principal) (*godwitpb.PublishResponse, error) {
		idem, err := idempotencyKey(ctx)
		if err != nil {
			return nil, err
		}
		d, err := p.draft(who, req)
		if err != nil {
			return nil, err
		}
		if idem != "" && d.ID == "" {
			d.ID = httpcall.DerivedID(who.App, idem, 0)
		}
		d.Trace = traceOf(ctx)
		r := p.pub.Publish(ctx, who.App, []*notification.Draft{d})[0]
		if r.Err != nil {
			return nil, httpcall.NotStored(r.Err)
		}
		return response(&r), nil
	})
}

// PublishStream answers every request in order. While one batch is being stored it reads the next, so that simultaneous requests share
// commits.
func (p *publisher) PublishStream(stream grpc.BidiStreamingServer[godwitpb.PublishRequest, godwitpb.PublishResponse]) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	who, err := p.authorise(ctx, access.Publish)
	var idem string
	if err == nil {
		idem, err = idempotencyKey(ctx)
	}
	if err != nil {
		return p.fail(ctx, "PublishStream", who.App, err)
	}
	if !p.calls.Try(who.App, 1) {
		return errAppBusy
	}
	defer p.calls.Give(who.App, 1)
	lot := &lot{p: p, who: who, idem: idem, stream: stream, bytes: semaphore.NewWeighted(streamBytes), in: make(chan *godwitpb.PublishRequest, streamRequests)}
	var answering sync.WaitGroup
	var failed error
	answering.Go(func() {
		if failed = lot.answer(ctx); failed != nil {
			cancel(failed)
		}
	})
	err = lot.read(ctx)
	close(lot.in)
	answering.Wait()
	if failed != nil {
		return failed
	}
	return err
}

// lot is the state of one publish stream.
type lot struct {
	p      *publisher
	who    access.Principal
	idem   string // the idempotency key; empty: none
	count  int    // requests published so far
	stream grpc.BidiStreamingServer[godwitpb.PublishRequest, godwitpb.PublishResponse]
	bytes  *semaphore.Weighted
	in     chan *godwitpb.PublishRequest
}

func size(req *godwitpb.PublishRequest) int64 { return min(int64(proto.Size(req)), streamBytes) }

// read reads requests until the client has sent all or is gone.
func (l *lot) read(ctx context.Context) error {
	for {
		req, err := l.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.bytes.Acquire(ctx, size(req)); err != nil {
			return nil // the answering side knows why
		}
		l.in <- req
	}
}

// answer publishes the waiting requests as one batch and answers them, until all are answered.
func (l *lot) answer(ctx context.Context) error {
	defer func() {
		for range l.in { // empty the channel, so that the reader does not block after an answer could not be sent
		}
	}()
	for req := range l.in {
		batch := []*godwitpb.PublishRequest{req}
		for more := true; more && len(batch) < streamRequests; {
			select {
			case next, ok := <-l.in:
				if more = ok; ok {
					batch = append(batch, next)
				}
			default:
				more = false
			}
		}
		if err := l.publish(ctx, batch); err != nil {
			return err
		}
		for _, r := range batch {
			l.bytes.Release(size(r))
		}
	}
	return nil
}

// publish stores a batch and sends its answers in order.
func (l *lot) publish(ctx context.Context, batch []*godwitpb.PublishRequest) error {
	answers := make([]*godwitpb.PublishResponse, len(batch))
	drafts := make([]*notification.Draft, 0, len(batch))
	at := make([]int, 0, len(batch))
	trace := traceOf(l.stream.Context())
	for i, req := range batch {
		d, err := l.p.draft(l.who, req)
		if err != nil {
			answers[i] = refusal(req.GetId(), err)
			continue
		}
		if l.idem != "" && d.ID == "" {
			d.ID = httpcall.DerivedID(l.who.App, l.idem, l.count+i)
		}
		d.Trace = trace
		drafts, at = append(drafts, d), append(at, i)
	}
	if len(drafts) > 0 {
		for i, r := range l.p.pub.Publish(ctx, l.who.App, drafts) {
			answers[at[i]] = response(&r)
		}
	}
	l.count += len(batch)
	for _, a := range answers {
		if err := l.stream.Send(a); err != nil {
			return err
		}
	}
	return nil
}

// traceOf returns the trace context in a call's metadata.
func traceOf(ctx context.Context) notification.Trace {
	one := func(key string) string {
		if list := metadata.ValueFromIncomingContext(ctx, key); len(list) > 0 {
			return list[0]
		}
		return ""
	}
	return notification.Trace{Parent: one("traceparent"), State: one("tracestate")}
}

func response(r *delivery.Result) *godwitpb.PublishResponse {
	if r.Err != nil {
		return refusal(r.ID, r.Err)
	}
	out := &godwitpb.PublishResponse{Results: make([]*godwitpb.PublishResult, len(r.Copies))}
	for i := range r.Copies {
		c := &r.Copies[i]
		res := &godwitpb.PublishResult{Id: r.ID, To: c.To}
		if c.Err != nil {
			res.Error = problemOf(httpcall.NotStored(c.Err))
		} else {
			res.Status, res.Duplicate, res.ExpiresAtMs = c.Status.String(), c.Duplicate, c.ExpiresAt.UnixMilli()
		}
		out.Results[i] = res
	}
	return out
}

// refusal is the answer to a stream's request that was refused as a whole.
func refusal(id string, err error) *godwitpb.PublishResponse {
	return &godwitpb.PublishResponse{Results: []*godwitpb.PublishResult{{Id: id, Error: problemOf(httpcall.NotStored(err))}}}
}
