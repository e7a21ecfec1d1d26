package grpcgate_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	alphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"

	pb "godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/grpcgate"
	"godwit.dev/godwit/internal/notify/notification"
)

// eachEngine runs a test on both engines if nothing may be skipped, else on the first.
func eachEngine(t *testing.T, run func(t *testing.T, g *gate)) {
	for _, engine := range []string{grpcgate.EngineReactor, grpcgate.EngineStd} {
		t.Run(engine, func(t *testing.T) {
			if engine != grpcgate.EngineReactor {
				gatetest.Variant(t)
			}
			var g *gate
			gatetest.Start(t, func(s *gatetest.Server) {
				g = open(t, s, nil, func(c *grpcgate.Config) { c.Engine = engine })
			})
			run(t, g)
		})
	}
}

func hello(h *pb.Hello) *pb.ClientFrame {
	return &pb.ClientFrame{Frame: &pb.ClientFrame_Hello{Hello: h}}
}

func ack(ids ...string) *pb.ClientFrame {
	return &pb.ClientFrame{Frame: &pb.ClientFrame_Ack{Ack: &pb.Ack{Ids: ids}}}
}

// session opens a stream and sends the hello.
func session(t testing.TB, ctx context.Context, cc *grpc.ClientConn, h *pb.Hello, opts ...grpc.CallOption) pb.Client_ConnectClient {
	t.Helper()
	stream, err := pb.NewClientClient(cc).Connect(ctx, opts...)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(hello(h)); err != nil {
		t.Fatal(err)
	}
	return stream
}

func welcomed(t testing.TB, stream pb.Client_ConnectClient) *pb.Welcome {
	t.Helper()
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if m.GetWelcome() == nil {
		t.Fatalf("got %v, want a welcome", m)
	}
	return m.GetWelcome()
}

func ride(to, id string) notification.Draft {
	return notification.Draft{To: []string{to}, ID: id, Content: notification.Content{Title: "Ride"}}
}

func TestHeadersComeAtOnce(t *testing.T) {
	eachEngine(t, func(t *testing.T, g *gate) {
		stream, err := pb.NewClientClient(g.conn(t)).Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Header(); err != nil { // nothing was sent yet
			t.Errorf("headers: %v", err)
		}
	})
}

func TestASilentSessionCarriesFramesThatSayNothing(t *testing.T) {
	eachEngine(t, func(t *testing.T, g *gate) {
		stream := session(t, t.Context(), g.conn(t), &pb.Hello{App: gatetest.App, Recipient: "driver-1", HeartbeatMs: 5000})
		welcomed(t, stream)
		for range 2 {
			if m, err := stream.Recv(); err != nil || m.GetFrame() != nil {
				t.Fatalf("got %v, %v; want a frame that says nothing", m, err)
			}
		}
	})
}

func TestManySessionsShareAConnection(t *testing.T) {
	eachEngine(t, func(t *testing.T, g *gate) {
		cc := g.conn(t)
		const count = 200
		streams := make([]pb.Client_ConnectClient, count)
		for i := range streams {
			streams[i] = session(t, t.Context(), cc, &pb.Hello{App: gatetest.App, Recipient: fmt.Sprint("driver-", i)})
		}
		for _, s := range streams {
			welcomed(t, s)
		}
		for i := range streams {
			g.Send(t, ride(fmt.Sprint("driver-", i), fmt.Sprint("ride-", i)))
		}
		for i, s := range streams {
			m, err := s.Recv()
			if err != nil || m.GetNotification().GetId() != fmt.Sprint("ride-", i) {
				t.Fatalf("driver %d got %v, %v", i, m, err)
			}
			if err := s.Send(ack(m.GetNotification().GetId())); err != nil {
				t.Fatal(err)
			}
		}
		for i := range streams {
			g.Await(t, event.Acked, fmt.Sprint("ride-", i))
		}
	})
}

func TestFramesSentWithTheHelloAreHandledAfterIt(t *testing.T) {
	eachEngine(t, func(t *testing.T, g *gate) {
		g.Send(t, ride("driver-1", "ride-1"))
		stream := session(t, t.Context(), g.conn(t), &pb.Hello{App: gatetest.App, Recipient: "driver-1"})
		const pings = 200
		for range pings { // the pings arrive while the hello is verified
			if err := stream.Send(&pb.ClientFrame{Frame: &pb.ClientFrame_Ping{Ping: &pb.Ping{}}}); err != nil {
				t.Fatal(err)
			}
		}
		welcomed(t, stream)
		for pongs := 0; pongs < pings; {
			m, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if m.GetError() != nil {
				t.Fatalf("a frame overtook the hello: %v", m)
			}
			if m.GetPong() != nil {
				pongs++
			}
		}
	})
}

func TestASessionGoesOnToReceiveAfterTheClientsHalfClose(t *testing.T) {
	eachEngine(t, func(t *testing.T, g *gate) {
		ctx, cancel := context.WithCancel(t.Context())
		stream := session(t, ctx, g.conn(t), &pb.Hello{App: gatetest.App, Recipient: "driver-1"})
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		welcomed(t, stream)
		g.Send(t, ride("driver-1", "ride-1"))
		if m, err := stream.Recv(); err != nil || m.GetNotification().GetId() != "ride-1" {
			t.Errorf("got %v, %v", m, err)
		}
		cancel()
		g.Gone(t)
	})
}

func TestCompressedFramesAreTaken(t *testing.T) {
	eachEngine(t, func(t *testing.T, g *gate) {
		welcomed(t, session(t, t.Context(), g.conn(t), &pb.Hello{App: gatetest.App, Recipient: "driver-1"}, grpc.UseCompressor(gzip.Name)))
	})
}

func TestOverlongFrameEndsTheSession(t *testing.T) {
	eachEngine(t, func(t *testing.T, g *gate) {
		cc := g.conn(t)
		other := session(t, t.Context(), cc, &pb.Hello{App: gatetest.App, Recipient: "driver-2"})
		welcomed(t, other)
		stream := session(t, t.Context(), cc, &pb.Hello{App: gatetest.App, Recipient: "driver-1"})
		welcomed(t, stream)
		if err := stream.Send(hello(&pb.Hello{Token: string(make([]byte, 2<<20))})); err != nil {
			t.Fatal(err)
		}
		_, err := stream.Recv()
		wantCode(t, err, codes.ResourceExhausted)
		g.Send(t, ride("driver-2", "ride-1"))
		if m, err := other.Recv(); err != nil || m.GetNotification() == nil {
			t.Errorf("another session of the connection got %v, %v", m, err)
		}
	})
}

func TestTokenMayComeInMetadata(t *testing.T) {
	eachEngine(t, func(t *testing.T, g *gate) {
		token := g.Token(t, "driver-7", time.Minute)
		for _, md := range []metadata.MD{metadata.Pairs("authorization", "Bearer "+token), metadata.Pairs("token", token)} {
			ctx := metadata.NewOutgoingContext(t.Context(), md)
			if w := welcomed(t, session(t, ctx, g.conn(t), &pb.Hello{})); w.GetRecipient() != "driver-7" {
				t.Errorf("welcomed as %s", w.GetRecipient())
			}
		}
	})
}

func TestRefusalAndGoodbyeHaveTheirStatus(t *testing.T) {
	eachEngine(t, func(t *testing.T, g *gate) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "token", "forged")
		stream := session(t, ctx, g.conn(t), &pb.Hello{App: gatetest.App, Recipient: "driver-1"})
		if m, err := stream.Recv(); err != nil || m.GetGoodbye() == nil {
			t.Fatalf("got %v, %v; want a goodbye", m, err)
		}
		_, err := stream.Recv()
		if st := status.Convert(err); st.Code() != codes.Unauthenticated || st.Message() != "unauthenticated" {
			t.Errorf("a refusal ends with %v", st)
		}

		stream = session(t, t.Context(), g.conn(t), &pb.Hello{App: gatetest.App, Recipient: "driver-1"})
		welcomed(t, stream)
		_, _, _ = g.Hub.Disconnect(t.Context(), gatetest.App, "driver-1", "disconnected")
		if m, err := stream.Recv(); err != nil || m.GetGoodbye().GetReason() != "disconnected" {
			t.Errorf("got %v, %v", m, err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("a goodbye ends with %v, want OK", err)
		}
	})
}

func TestCertificateNamesTheClient(t *testing.T) {
	for _, engine := range []string{grpcgate.EngineReactor, grpcgate.EngineStd} {
		t.Run(engine, func(t *testing.T) {
			if engine != grpcgate.EngineReactor {
				gatetest.Variant(t)
			}
			server, clientConf := certificate(t)
			name, cas := issue(t, "client", "godwit://"+gatetest.App+"/region-1/region-1:observer-1")
			server.ClientAuth, server.ClientCAs = tls.VerifyClientCertIfGiven, cas
			clientConf.Certificates = []tls.Certificate{name}
			var g *gate
			gatetest.Start(t, func(s *gatetest.Server) {
				g = open(t, s, server, func(c *grpcgate.Config) { c.Engine = engine })
			})
			g.dial[0] = grpc.WithTransportCredentials(credentials.NewTLS(clientConf))
			if w := welcomed(t, session(t, t.Context(), g.conn(t), &pb.Hello{})); w.GetRecipient() != "region-1:observer-1" {
				t.Errorf("welcomed as %s", w.GetRecipient())
			}
		})
	}
}

func TestHealthFollowsTheServer(t *testing.T) {
	eachEngine(t, func(t *testing.T, g *gate) {
		watch, err := healthpb.NewHealthClient(g.conn(t)).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "godwit.v1.Publisher"})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := watch.Recv(); err != nil || m.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Fatalf("got %v, %v", m, err)
		}
		g.stop()
		ctx, cancel := context.WithCancel(t.Context())
		down := make(chan struct{})
		go func() { defer close(down); _ = g.grpc.Shutdown(ctx) }()
		if m, err := watch.Recv(); err != nil || m.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("while it drains: %v, %v", m, err)
		}
		cancel()
		<-down
	})
}

func TestReflectionDescribesTheServices(t *testing.T) {
	eachEngine(t, func(t *testing.T, g *gate) {
		cc := g.conn(t)
		v1, err := reflectpb.NewServerReflectionClient(cc).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ask := &reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "godwit.v1.Client.Connect"}}
		if err := v1.Send(ask); err != nil {
			t.Fatal(err)
		}
		if m, err := v1.Recv(); err != nil || len(m.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("got %v, %v", m, err)
		}
		alpha, err := alphapb.NewServerReflectionClient(cc).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list := &alphapb.ServerReflectionRequest{MessageRequest: &alphapb.ServerReflectionRequest_ListServices{}} //nolint:staticcheck // old clients use it
		if err := alpha.Send(list); err != nil {
			t.Fatal(err)
		}
		m, err := alpha.Recv()
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, s := range m.GetListServicesResponse().GetService() { //nolint:staticcheck // old clients use it
			names[s.GetName()] = true //nolint:staticcheck // old clients use it
		}
		if !names["godwit.v1.Client"] || !names["godwit.v1.Publisher"] || !names["grpc.health.v1.Health"] {
			t.Errorf("listed are %v", names)
		}
	})
}
