package grpcgate_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/grpcgate"
	"godwit.dev/godwit/internal/server/certs/certstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is a running gateway in front of a gatetest server.
type gate struct {
	*gatetest.Server
	grpc *grpcgate.Server
	stop func() // accepting
	addr string
	dial []grpc.DialOption
}

// running is how a test finds the gateway of a gatetest server.
type running struct {
	mu sync.Mutex
	of map[*gatetest.Server]*gate
}

func (r *running) get(s *gatetest.Server) *gate {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[s]
}

// open starts a gateway; change may alter its settings.
func open(t testing.TB, s *gatetest.Server, tlsConf *tls.Config, change func(*grpcgate.Config)) *gate {
	return start(t, s, tlsConf, change, func(*grpcgate.Server) {})
}

// start is open with further services.
func start(t testing.TB, s *gatetest.Server, tlsConf *tls.Config, change func(*grpcgate.Config), register func(*grpcgate.Server)) *gate {
	t.Helper()
	cfg := grpcgate.Config{Hub: s.Hub, Publisher: s.Publish, Keys: s.Access, Log: s.Log}
	if change != nil {
		change(&cfg)
	}
	g, err := grpcgate.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	register(g)
	ln := s.Listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := g.Serve(ctx, s.Reactor, ln, tlsConf, reactor.Limits{}); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	stop := func() { cancel(); wg.Wait() }
	t.Cleanup(func() {
		stop()
		ctx, cancel := context.WithTimeout(context.Background(), gatetest.Patience)
		defer cancel()
		if err := g.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	out := &gate{Server: s, grpc: g, stop: stop, addr: ln.Addr().String(), dial: []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20), grpc.ForceCodecV2(codec{encoding.GetCodecV2("proto")})),
	}}
	return out
}

// conn connects a stock client, which is closed before the gateway shuts down.
func (g *gate) conn(t testing.TB) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(g.addr, g.dial...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// suiteOf returns the servers and clients that the suite runs on.
func suiteOf(driver string, secure bool, change func(*grpcgate.Config)) gatetest.Gate {
	all := &running{of: map[*gatetest.Server]*gate{}}
	return gatetest.Gate{
		Driver: driver,
		Mount: func(t testing.TB, s *gatetest.Server) {
			var server *tls.Config
			var client *tls.Config
			if secure {
				server, client = certificate(t)
			}
			g := open(t, s, server, change)
			if secure {
				g.dial[0] = grpc.WithTransportCredentials(credentials.NewTLS(client))
			}
			all.mu.Lock()
			all.of[s] = g
			all.mu.Unlock()
		},
		Dial: func(t testing.TB, s *gatetest.Server, o gatetest.Options) (gatetest.Client, error) {
			return connect(t, all.get(s), o)
		},
		Queued: func(s *gatetest.Server) int64 { return s.Reactor.Stats().Queued + all.get(s).grpc.Queued() },
	}
}

func TestGatewayOnTwoNodes(t *testing.T) { gatetest.RunAgainOnTwo(t, suiteOf("", false, nil)) }

func TestGateway(t *testing.T) { gatetest.Run(t, suiteOf("", false, nil)) }

func TestGatewayOnPortableDriver(t *testing.T) {
	gatetest.RunCarried(t, suiteOf(reactor.DriverGoroutine, false, nil))
}

func TestGatewayOverTLS(t *testing.T) { gatetest.RunCarried(t, suiteOf("", true, nil)) }

func std(c *grpcgate.Config) { c.Engine = grpcgate.EngineStd }

func TestGatewayOnStdEngine(t *testing.T) {
	gatetest.RunEncoded(t, suiteOf("", false, std))
}

func TestGatewayOnStdEngineOverTLS(t *testing.T) {
	gatetest.RunCarried(t, suiteOf("", true, std))
}

// client is a session of a stock gRPC client, for the suite.
type client struct {
	cc     *grpc.ClientConn
	stream godwitpb.Client_ConnectClient
	cancel context.CancelFunc
}

func connect(t testing.TB, g *gate, o gatetest.Options) (gatetest.Client, error) {
	cc := g.conn(t)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := godwitpb.NewClientClient(cc).Connect(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	c := &client{cc: cc, stream: stream, cancel: cancel}
	return c, c.Send(t.Context(), o.HelloJSON())
}

func (c *client) Send(_ context.Context, text string) error {
	m, err := gatetest.ToProto(text)
	if err != nil {
		return err
	}
	return c.stream.Send(m)
}

// SendBad sends a message that is no protobuf.
func (c *client) SendBad(context.Context) error { return c.stream.SendMsg(raw("\x0a\xff")) }

// raw is a message that codec passes through unchanged.
type raw string

// codec is the protobuf codec, but passes raw messages through.
type codec struct{ encoding.CodecV2 }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.(raw); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func (c *client) Next(ctx context.Context) (string, error) {
	defer context.AfterFunc(ctx, c.cancel)()
	m, err := c.stream.Recv()
	for err == nil && m.GetFrame() == nil { // the first frame only confirms the session
		m, err = c.stream.Recv()
	}
	if errors.Is(err, io.EOF) || status.Code(err) == codes.Unauthenticated {
		return "", io.EOF
	}
	if err != nil {
		return "", err
	}
	return gatetest.FromProto(m)
}

func (c *client) Close() {
	c.cancel()
	_ = c.cc.Close()
}

// certificate makes a server's and a client's TLS settings.
func certificate(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	cert, pool := issue(t, "server")
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func issue(t testing.TB, name string, uris ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	certFile, keyFile, pool := certstest.Issue(t, t.TempDir(), name, uris...)
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return cert, pool
}
