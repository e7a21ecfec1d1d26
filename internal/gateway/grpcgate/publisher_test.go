package grpcgate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/grpcgate"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
)

// publishing is a gateway with a client of its Publisher service.
type publishing struct {
	*gate
	pb.PublisherClient
}

func newPublishing(t *testing.T, change func(s *gatetest.Server, c *grpcgate.Config)) *publishing {
	var p publishing
	gatetest.Start(t, func(s *gatetest.Server) {
		p.gate = open(t, s, nil, func(c *grpcgate.Config) {
			if change != nil {
				change(s, c)
			}
		})
	})
	p.PublisherClient = pb.NewPublisherClient(p.conn(t))
	return &p
}

func keyed(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
}

func TestPublishStoresAndAnswersPerRecipient(t *testing.T) {
	p := newPublishing(t, nil)
	ctx := keyed(t.Context(), access.DevKey)
	before := time.Now()
	r, err := p.Publish(ctx, &pb.PublishRequest{
		To: []string{"driver-1", "not a name", "driver-2"}, Id: "ride-1", Title: "Ride", Body: "far", Category: "NEW",
		Data: []byte(`{"fare":1}`), TtlMs: 60000, Priority: pb.Priority_PRIORITY_HIGH, Ack: pb.AckMode_ACK_MODE_ALL,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.GetResults()) != 3 {
		t.Fatalf("%d results", len(r.GetResults()))
	}
	for i, to := range []string{"driver-1", "not a name", "driver-2"} {
		res := r.GetResults()[i]
		if res.GetTo() != to || res.GetId() != "ride-1" {
			t.Errorf("result %d is of %s to %s", i, res.GetId(), res.GetTo())
		}
		if i == 1 {
			if e := res.GetError(); e.GetStatus() != 400 || e.GetField() != "to" || res.GetStatus() != "" {
				t.Errorf("the bad recipient's result is %v", res)
			}
			continue
		}
		if left := time.UnixMilli(res.GetExpiresAtMs()).Sub(before); res.GetStatus() != "stored" || left < 50*time.Second || left > 70*time.Second {
			t.Errorf("result %d is %v", i, res)
		}
	}
	rs, err := p.Mailbox.Lookup(t.Context(), gatetest.App, "ride-1", "driver-2")
	if err != nil || len(rs) != 1 || rs[0].Priority != notification.High || rs[0].Ack != notification.AckAll {
		t.Errorf("stored is %+v, %v", rs, err)
	}
	again, err := p.Publish(ctx, &pb.PublishRequest{
		To: []string{"driver-1"}, Id: "ride-1", Title: "Ride", Body: "far", Category: "NEW", Data: []byte(`{"fare":1}`),
	})
	if err != nil || !again.GetResults()[0].GetDuplicate() {
		t.Errorf("the same again: %v, %v", again, err)
	}
	other, err := p.Publish(ctx, &pb.PublishRequest{To: []string{"driver-1"}, Id: "ride-1", Title: "Other"})
	if err != nil || other.GetResults()[0].GetError().GetStatus() != 409 {
		t.Errorf("other content under the id: %v, %v", other, err)
	}
}

func TestBadPublishNamesItsField(t *testing.T) {
	p := newPublishing(t, nil)
	to := []string{"driver-1"}
	for field, req := range map[string]*pb.PublishRequest{
		"to":         {},
		"title":      {To: to, Id: "empty"},
		"id":         {To: to, Id: "a b"},
		"ttl":        {To: to, TtlMs: -1},
		"expires_at": {To: to, ExpiresAtMs: 1},
		"send_at":    {To: to, SendAtMs: -1},
		"reply_by":   {To: to, ReplyByMs: 31 * 24 * 3_600_000},
		"priority":   {To: to, Priority: 9},
		"ack":        {To: to, Ack: 9},

		"escalate[1].channel":  {To: to, Escalate: []*pb.EscalationStep{{Channel: "live"}, {Channel: "fcm"}}},
		"escalate[0].after":    {To: to, Escalate: []*pb.EscalationStep{{Channel: "fcm", AfterMs: 24 * 3_600_000}}},
		"escalate[0].settle":   {To: to, Escalate: []*pb.EscalationStep{{Channel: "fcm", Settle: "clicked"}}},
		"escalate[0].withdraw": {To: to, Escalate: []*pb.EscalationStep{{Channel: "live", Withdraw: new(bool)}}},
		"escalate[0].to":       {To: to, Escalate: []*pb.EscalationStep{{Channel: "fcm", To: "sms"}}},
		"data":                 {To: to, Body: strings.Repeat("x", notification.MaxRequestBytes-100), Data: []byte(strings.Repeat("1", 90)), ContentType: "text/plain"},
	} {
		t.Run(field, func(t *testing.T) {
			if strings.HasPrefix(field, "escalate") { // the app's channels are looked at last
				req.Title = "Hi"
			}
			if field == "data" {
				req.ContentType, req.Data = "application/json", []byte("{")
			}
			_, err := p.Publish(keyed(t.Context(), access.DevKey), req)
			st := status.Convert(err)
			if st.Code() != codes.InvalidArgument || len(st.Details()) != 1 {
				t.Fatalf("got %v with %v", st, st.Details())
			}
			bad, ok := st.Details()[0].(*errdetails.BadRequest)
			if !ok || bad.GetFieldViolations()[0].GetField() != field {
				t.Errorf("details are %v, want field %s", st.Details(), field)
			}
		})
	}
	for _, data := range []string{strings.Repeat("[", 65) + strings.Repeat("]", 65), strings.Repeat("7", 1001), "NaN"} {
		_, err := p.Publish(keyed(t.Context(), access.DevKey), &pb.PublishRequest{To: to, Data: []byte(data), ContentType: "application/vnd.ride+json"})
		wantCode(t, err, codes.InvalidArgument)
	}
	// A duration that does not fit would wrap around and look like a valid time.
	const wraps = 1<<63 - 1
	for field, req := range map[string]*pb.PublishRequest{
		"ttl":        {To: to, TtlMs: wraps/int64(time.Millisecond)*2 + 2 + 60_000},
		"reply_by":   {To: to, ReplyByMs: -1},
		"expires_at": {To: to, ExpiresAtMs: wraps},
		"send_at":    {To: to, SendAtMs: wraps},

		"escalate[0].after": {To: to, Escalate: []*pb.EscalationStep{{Channel: "fcm", AfterMs: -1}}},
	} {
		_, err := p.Publish(keyed(t.Context(), access.DevKey), req)
		if st := status.Convert(err); st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), "out of range") || !strings.Contains(st.Message(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, err := p.Publish(keyed(t.Context(), access.DevKey), &pb.PublishRequest{To: to, Body: strings.Repeat("x", notification.MaxRequestBytes+1)})
	wantCode(t, err, codes.InvalidArgument)
}

func TestPublishNeedsAKeyWithTheRole(t *testing.T) {
	p := newPublishing(t, nil)
	_, reader, err := p.Access.CreateKey(t.Context(), gatetest.App, "reader", access.Read)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		code codes.Code
	}{
		"none":    {t.Context(), codes.Unauthenticated},
		"unknown": {keyed(t.Context(), "guess"), codes.Unauthenticated},
		"reader":  {keyed(t.Context(), reader), codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.Publish(c.ctx, &pb.PublishRequest{To: []string{"driver-1"}, Title: "Hi"})
			wantCode(t, err, c.code)
			stream, err := p.PublishStream(c.ctx)
			if err != nil {
				t.Fatal(err)
			}
			_, err = stream.Recv()
			wantCode(t, err, c.code)
		})
	}
}

func TestPublishLimitSaysWhenToComeBack(t *testing.T) {
	p := newPublishing(t, func(_ *gatetest.Server, c *grpcgate.Config) {
		c.PublishLimit = func(string, int) time.Duration { return 3 * time.Second }
	})
	_, err := p.Publish(keyed(t.Context(), access.DevKey), &pb.PublishRequest{To: []string{"driver-1"}, Title: "Hi"})
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted || len(st.Details()) != 1 {
		t.Fatalf("got %v with %v", st, st.Details())
	}
	if r, ok := st.Details()[0].(*errdetails.RetryInfo); !ok || r.GetRetryDelay().AsDuration() != 3*time.Second {
		t.Errorf("details are %v", st.Details())
	}
}

// slowPublisher delays its first call until goOn, so that the next ones wait in the queue.
type slowPublisher struct {
	grpcgate.Publisher
	calls atomic.Int64
	first chan struct{}
	goOn  chan struct{}
}

func (p *slowPublisher) Publish(ctx context.Context, app string, drafts []*notification.Draft) []delivery.Result {
	if p.calls.Add(1) == 1 {
		close(p.first)
		<-p.goOn
	}
	return p.Publisher.Publish(ctx, app, drafts)
}

func TestPublishStreamAnswersInOrderAndSharesCommits(t *testing.T) {
	slow := &slowPublisher{first: make(chan struct{}), goOn: make(chan struct{})}
	p := newPublishing(t, func(s *gatetest.Server, c *grpcgate.Config) { slow.Publisher = s.Publish; c.Publisher = slow })
	stream, err := p.PublishStream(keyed(t.Context(), access.DevKey))
	if err != nil {
		t.Fatal(err)
	}
	const count = 200
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range count {
			req := &pb.PublishRequest{To: []string{"driver-1"}, Id: fmt.Sprint("n-", i), Title: "Hi"}
			if i%50 == 7 {
				req.Id = "not a name"
			}
			if err := stream.Send(req); err != nil {
				t.Error(err)
			}
			if i == 0 {
				<-slow.first
			}
		}
		close(slow.goOn)
		if err := stream.CloseSend(); err != nil {
			t.Error(err)
		}
	})
	for i := range count {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		res := r.GetResults()[0]
		if i%50 == 7 {
			if res.GetError().GetField() != "id" {
				t.Errorf("answer %d is %v, want that the id is bad", i, res)
			}
			continue
		}
		if res.GetId() != fmt.Sprint("n-", i) || res.GetStatus() != "stored" {
			t.Fatalf("answer %d is %v", i, res)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
	wg.Wait()
	if n := slow.calls.Load(); n > count/2 {
		t.Errorf("%d batches for %d publishes: they do not share commits", n, count)
	}
}
