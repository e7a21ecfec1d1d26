package grpcgate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/grpcgate"
)

// service is gRPC's interoperability service, as far as these tests use it.
type service struct {
	pb.UnimplementedTestServiceServer
	ended   chan error    // why a waiting handler's context ended
	started chan struct{} // a waiting handler runs
	hold    chan struct{} // lets it go on
}

func (x *service) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	switch strings.Join(md.Get("do"), "") {
	case "wait":
		x.started <- struct{}{}
		<-ctx.Done()
		x.ended <- ctx.Err()
		return nil, ctx.Err()
	case "hold":
		x.started <- struct{}{}
		<-x.hold
	case "head twice":
		first, second := grpc.SendHeader(ctx, metadata.Pairs("x-head", "first")), grpc.SendHeader(ctx, metadata.Pairs("x-head", "second"))
		if first != nil || status.Code(second) != codes.Internal {
			return nil, fmt.Errorf("headers sent: %w; sent again: %w", first, second)
		}
		return &pb.Empty{}, nil
	case "panic":
		panic("on purpose")
	case "details":
		st, err := status.New(codes.FailedPrecondition, "größer als 100 %\n").WithDetails(&errdetails.ErrorInfo{Reason: "TEST"})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	case "plain error":
		return nil, errors.New("just an error")
	}
	if p, ok := peer.FromContext(ctx); !ok || !strings.HasPrefix(p.Addr.String(), "127.0.0.1:") {
		return nil, fmt.Errorf("peer is %v", p)
	}
	head := metadata.Pairs("x-head-bin", "\x00\xff", "x-echo", strings.Join(md.Get("x-ask"), ","), "x-echo-bin", strings.Join(md.Get("x-ask-bin"), ","))
	if err := grpc.SetHeader(ctx, head); err != nil {
		return nil, err
	}
	return &pb.Empty{}, grpc.SetTrailer(ctx, metadata.Pairs("x-tail", "end"))
}

func (x *service) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, in.GetResponseSize())}, Username: fmt.Sprint(len(in.GetPayload().GetBody()))}, nil
}

func (x *service) StreamingInputCall(s grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	sum := 0
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: int32(sum)})
		}
		if err != nil {
			return err
		}
		sum += len(in.GetPayload().GetBody())
	}
}

func (x *service) StreamingOutputCall(in *pb.StreamingOutputCallRequest, s grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	for i, p := range in.GetResponseParameters() {
		body := bytes.Repeat([]byte{byte(i)}, int(p.GetSize()))
		if err := s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: body}}); err != nil {
			x.ended <- err
			return err
		}
	}
	return nil
}

func (x *service) FullDuplexCall(s grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			x.ended <- s.Context().Err()
			return err
		}
		if err := s.Send(&pb.StreamingOutputCallResponse{Payload: in.GetPayload()}); err != nil {
			return err
		}
	}
}

// world is the service on an engine.
type world struct {
	*gate
	svc *service
	pb.TestServiceClient
}

// both runs a test on both engines if nothing may be skipped, else on the first.
func both(t *testing.T, run func(t *testing.T, w *world)) {
	for _, engine := range []string{grpcgate.EngineReactor, grpcgate.EngineStd} {
		t.Run(engine, func(t *testing.T) {
			if engine != grpcgate.EngineReactor {
				gatetest.Variant(t)
			}
			run(t, newWorld(t, func(c *grpcgate.Config) { c.Engine = engine }))
		})
	}
}

func newWorld(t *testing.T, change func(*grpcgate.Config)) *world {
	w := &world{svc: &service{ended: make(chan error, 4), started: make(chan struct{}, 4), hold: make(chan struct{})}}
	gatetest.Start(t, func(s *gatetest.Server) {
		w.gate = start(t, s, nil, change, func(srv *grpcgate.Server) { pb.RegisterTestServiceServer(srv, w.svc) })
	})
	w.TestServiceClient = pb.NewTestServiceClient(w.conn(t))
	return w
}

func do(ctx context.Context, what string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "do", what)
}

func wantCode(t *testing.T, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func TestMetadataGoesBothWays(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-ask", "a", "x-ask", "b", "x-ask-bin", "\x01\xfe")
		var head, tail metadata.MD
		if _, err := w.EmptyCall(ctx, &pb.Empty{}, grpc.Header(&head), grpc.Trailer(&tail)); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{"x-head-bin": "\x00\xff", "x-echo": "a,b", "x-echo-bin": "\x01\xfe"} {
			if got := strings.Join(head.Get(key), ","); got != want {
				t.Errorf("header %s is %q, want %q", key, got, want)
			}
		}
		if got := tail.Get("x-tail"); len(got) != 1 || got[0] != "end" {
			t.Errorf("trailer is %q", got)
		}
	})
}

func TestTooMuchMetadataIsRefusedAndTheConnectionLives(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		from := ""
		for _, size := range []int{8 << 10, 9000, 20_000, 50_000} {
			for _, value := range []string{strings.Repeat("x", size), strings.Repeat("~", size)} { // short and long in HPACK
				_, err := w.EmptyCall(metadata.AppendToOutgoingContext(t.Context(), "x-long", value), &pb.Empty{})
				if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "metadata") {
					t.Errorf("%d bytes of metadata: %v, want ResourceExhausted", size, err)
				}
			}
			stream, err := w.FullDuplexCall(metadata.AppendToOutgoingContext(t.Context(), "x-long", strings.Repeat("x", size)))
			if err == nil {
				_, err = stream.Recv()
			}
			wantCode(t, err, codes.ResourceExhausted)
			var p peer.Peer
			if _, err := w.EmptyCall(metadata.AppendToOutgoingContext(t.Context(), "x-fits", strings.Repeat("x", 7000)), &pb.Empty{}, grpc.Peer(&p)); err != nil {
				t.Errorf("after %d bytes: %v", size, err)
			}
			if from == "" {
				from = p.LocalAddr.String()
			}
			if p.LocalAddr.String() != from {
				t.Error("the client had to connect again")
			}
		}
	})
}

func TestHeadersAreSentOnce(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		var head metadata.MD
		if _, err := w.EmptyCall(do(t.Context(), "head twice"), &pb.Empty{}, grpc.Header(&head)); err != nil || !slices.Equal(head.Get("x-head"), []string{"first"}) {
			t.Errorf("headers %v, %v", head, err)
		}
	})
}

func TestDeadlineEndsAHandler(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		for patience := 50 * time.Millisecond; ; patience *= 2 { // doubled until a call arrives in time
			ctx, cancel := context.WithTimeout(do(t.Context(), "wait"), patience)
			_, err := w.EmptyCall(ctx, &pb.Empty{})
			cancel()
			wantCode(t, err, codes.DeadlineExceeded)
			select {
			case <-w.svc.started:
				<-w.svc.ended
				return
			case <-time.After(patience):
			}
		}
	})
}

func TestCancelEndsAHandler(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(do(t.Context(), "wait"))
		go func() { <-w.svc.started; cancel() }()
		_, err := w.EmptyCall(ctx, &pb.Empty{})
		wantCode(t, err, codes.Canceled)
		if err := <-w.svc.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the handler's context ended with %v", err)
		}
	})
}

func TestLostConnectionEndsAHandler(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		cc := w.conn(t)
		stream, err := pb.NewTestServiceClient(cc).FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte("x")}}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		_ = cc.Close()
		if err := <-w.svc.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the handler's context ended with %v", err)
		}
	})
}

func TestStatusTravelsWithMessageAndDetails(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		_, err := w.EmptyCall(do(t.Context(), "details"), &pb.Empty{})
		st := status.Convert(err)
		if st.Code() != codes.FailedPrecondition || st.Message() != "größer als 100 %\n" || len(st.Details()) != 1 {
			t.Fatalf("got %v with %v", st, st.Details())
		}
		if info, ok := st.Details()[0].(*errdetails.ErrorInfo); !ok || info.GetReason() != "TEST" {
			t.Errorf("details are %v", st.Details())
		}
		_, err = w.EmptyCall(do(t.Context(), "plain error"), &pb.Empty{})
		if st := status.Convert(err); st.Code() != codes.Unknown || st.Message() != "just an error" {
			t.Errorf("got %v", st)
		}
	})
}

func TestUnknownMethodAndServiceAreUnimplemented(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		_, err := w.CacheableUnaryCall(t.Context(), &pb.SimpleRequest{})
		wantCode(t, err, codes.Unimplemented)
		cc := w.conn(t)
		wantCode(t, cc.Invoke(t.Context(), "/grpc.testing.TestService/Nothing", &pb.Empty{}, &pb.Empty{}), codes.Unimplemented)
		wantCode(t, cc.Invoke(t.Context(), "/nobody.Serves/This", &pb.Empty{}, &pb.Empty{}), codes.Unimplemented)
	})
}

func TestBigMessagesPassUpToTheLimit(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		const most = 4 << 20
		in := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, most-100)}, ResponseSize: 8 << 20}
		out, err := w.UnaryCall(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if len(out.GetPayload().GetBody()) != 8<<20 || out.GetUsername() != fmt.Sprint(most-100) {
			t.Errorf("the server got %s bytes and answered %d", out.GetUsername(), len(out.GetPayload().GetBody()))
		}
		in.Payload.Body = make([]byte, most+1)
		_, err = w.UnaryCall(t.Context(), in)
		wantCode(t, err, codes.ResourceExhausted)
		if _, err := w.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
			t.Errorf("the connection does not go on: %v", err)
		}
	})
}

func TestCompressedRequestsAreTaken(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		in := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 1<<20)}}
		out, err := w.UnaryCall(t.Context(), in, grpc.UseCompressor(gzip.Name))
		if err != nil || out.GetUsername() != fmt.Sprint(1<<20) {
			t.Errorf("got %v, %v", out.GetUsername(), err)
		}
		in.Payload.Body = make([]byte, 8<<20) // compresses to some 8 KB
		_, err = w.UnaryCall(t.Context(), in, grpc.UseCompressor(gzip.Name), grpc.MaxCallSendMsgSize(1<<30))
		wantCode(t, err, codes.ResourceExhausted)
	})
}

func TestStreamingBothWays(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		up, err := w.StreamingInputCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			if err := up.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, 10000)}}); err != nil {
				t.Fatal(err)
			}
		}
		if sum, err := up.CloseAndRecv(); err != nil || sum.GetAggregatedPayloadSize() != 3000000 {
			t.Errorf("the server summed up %d, %v", sum.GetAggregatedPayloadSize(), err)
		}
		duplex, err := w.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		const count = 500
		wg.Go(func() {
			for i := range count {
				if err := duplex.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: fmt.Appendf(nil, "%d-%s", i, make([]byte, i*10))}}); err != nil {
					t.Error(err)
					return
				}
			}
			if err := duplex.CloseSend(); err != nil {
				t.Error(err)
			}
		})
		for i := range count {
			out, err := duplex.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Appendf(nil, "%d-%s", i, make([]byte, i*10)); !bytes.Equal(out.GetPayload().GetBody(), want) {
				t.Fatalf("message %d came back as %.20q", i, out.GetPayload().GetBody())
			}
		}
		wg.Wait()
		if _, err := duplex.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the end is %v", err)
		}
	})
}

// TestSenderWaitsForASlowClient also covers a stalled stream next to a busy one on the same connection.
func TestSenderWaitsForASlowClient(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		const count, size = 100, 50000
		in := &pb.StreamingOutputCallRequest{}
		for range count {
			in.ResponseParameters = append(in.ResponseParameters, &pb.ResponseParameters{Size: size})
		}
		slow, err := w.StreamingOutputCall(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if _, err := w.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
				t.Fatalf("a stalled stream holds up another: %v", err)
			}
		}
		for i := range count {
			out, err := slow.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.GetPayload().GetBody(), bytes.Repeat([]byte{byte(i)}, size)) {
				t.Fatalf("message %d is damaged", i)
			}
		}
		if _, err := slow.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the end is %v", err)
		}
	})
}

func TestPanicEndsOneCallOnly(t *testing.T) {
	w := newWorld(t, nil)
	_, err := w.EmptyCall(do(t.Context(), "panic"), &pb.Empty{})
	wantCode(t, err, codes.Internal)
	if _, err := w.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
		t.Errorf("the server does not go on: %v", err)
	}
}

func TestRunningCallsAreBounded(t *testing.T) {
	w := newWorld(t, func(c *grpcgate.Config) { c.MaxCalls = 1 })
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := w.EmptyCall(do(t.Context(), "hold"), &pb.Empty{}); err != nil {
			t.Error(err)
		}
	})
	<-w.svc.started
	_, err := w.EmptyCall(t.Context(), &pb.Empty{})
	wantCode(t, err, codes.ResourceExhausted)
	close(w.svc.hold)
	wg.Wait()
	if _, err := w.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
		t.Errorf("the place was not given back: %v", err)
	}
}

func TestShutdownLetsCallsFinish(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.EmptyCall(do(t.Context(), "hold"), &pb.Empty{}); err != nil {
				t.Errorf("a call under way was cut off: %v", err)
			}
		})
		<-w.svc.started
		w.stop()
		down := make(chan error, 1)
		go func() { down <- w.grpc.Shutdown(t.Context()) }()
		for { // until the client notices that the server accepts no new connections
			if _, err := w.EmptyCall(t.Context(), &pb.Empty{}); status.Code(err) == codes.Unavailable {
				break
			}
		}
		select {
		case err := <-down:
			t.Errorf("shutdown did not wait: %v", err)
		default:
		}
		close(w.svc.hold)
		wg.Wait()
		if err := <-down; err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := w.EmptyCall(do(t.Context(), "wait"), &pb.Empty{})
			wantCode(t, err, codes.Unavailable)
		})
		<-w.svc.started
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := w.grpc.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v, want that it ran out of time", err)
		}
		<-w.svc.ended
		wg.Wait()
	})
}
