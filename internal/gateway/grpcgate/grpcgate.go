// Package grpcgate serves gRPC: client sessions without a goroutine each (godwit.v1.Client), publishing
// (godwit.v1.Publisher), health and reflection. Its own engine runs on the reactor; the same services also run on
// grpc-go's server.
package grpcgate

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/engine/fair"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/http2"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
)

// Hub takes new sessions.
type Hub interface {
	Accept(t session.Transport, p session.Peer) *session.Session
}

// Publisher stores and routes notifications.
type Publisher interface {
	Publish(ctx context.Context, app string, drafts []*notification.Draft) []delivery.Result
}

// Keys knows API keys.
type Keys interface {
	Key(ctx context.Context, secret string) (access.Principal, error)
}

// Names of the engines.
const (
	EngineReactor = "reactor" // little memory per connection
	EngineStd     = "std"     // grpc-go
)

// Limits of calls; no setting changes them.
const (
	defaultMaxMessage = 4 << 20    // as grpc-go has it
	defaultMaxCalls   = 10000      // calls that may run at a time, at most half of them of one app; each has a goroutine
	publicShare       = 10         // one call in this many of MaxCalls is for health and reflection, which need no credentials
	maxClientFrame    = 1088 << 10 // most bytes of a client's message: an answer of 1 MiB fits, with its headers
	recvAhead         = 64 << 10   // bytes of decoded messages that wait for a streaming handler before its client is held back
)

// Config are the parts and settings of a Server.
type Config struct {
	Hub       Hub
	Publisher Publisher
	Keys      Keys
	BackEnd
	Engine     string       // "": EngineReactor
	MaxMessage int          // most bytes of a request message; 0: 4 MiB
	MaxCalls   int          // most calls running at a time, without sessions; 0: 10,000
	HTTP2      http2.Config // EngineReactor only
	Log        *slog.Logger
}

// Server serves gRPC on one listener.
type Server struct {
	cfg    Config
	health *health.Server
	engine engine
}

// engine carries the services.
type engine interface {
	grpc.ServiceRegistrar
	reflection.ServiceInfoProvider
	registerClients()
	registerSessions(desc *grpc.ServiceDesc, srv any, sessions map[string]*SessionMethod)
	serve(ctx context.Context, r *reactor.Reactor, ln net.Listener, tlsConf *tls.Config, lim reactor.Limits) error
	shutdown(ctx context.Context) error
	queued() int64
}

// New makes a Server.
func New(cfg Config) (*Server, error) {
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = defaultMaxMessage
	}
	if cfg.MaxCalls == 0 {
		cfg.MaxCalls = defaultMaxCalls
	}
	s := &Server{cfg: cfg, health: health.NewServer()}
	switch cfg.Engine {
	case "", EngineReactor:
		s.engine = newEngine(&s.cfg)
	case EngineStd:
		s.engine = newStdEngine(&s.cfg)
	default:
		return nil, fmt.Errorf("unknown gRPC engine %q: choose %s or %s", cfg.Engine, EngineReactor, EngineStd)
	}
	s.engine.registerClients()
	godwitpb.RegisterPublisherServer(s.engine, &publisher{
		BackEnd: cfg.BackEnd, pub: cfg.Publisher, keys: cfg.Keys, log: cfg.Log, calls: fair.NewShares(int64(cfg.MaxCalls)),
	})
	healthpb.RegisterHealthServer(s.engine, s.health)
	reflection.Register(s.engine)
	for _, name := range []string{godwitpb.Client_ServiceDesc.ServiceName, godwitpb.Publisher_ServiceDesc.ServiceName} {
		s.serving(name)
	}
	return s, nil
}

// serving makes the health service report a service as serving.
func (s *Server) serving(service string) {
	s.health.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
}

// RegisterService adds a service. It must be called before Serve. Each call of a method runs in a goroutine.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.engine.RegisterService(desc, impl)
	s.serving(desc.ServiceName)
}

// Serve accepts connections until ctx ends (then it returns nil) or ln fails. Connections outlive it: Shutdown ends them. EngineStd ignores
// the reactor, and uses Handshake and Admit of lim.
func (s *Server) Serve(ctx context.Context, r *reactor.Reactor, ln net.Listener, tlsConf *tls.Config, lim reactor.Limits) error {
	return s.engine.serve(ctx, r, ln, tlsConf, lim)
}

// Shutdown drains: health answers "not serving", GOAWAY keeps clients from opening new calls, and running calls finish. When ctx ends, the
// remaining calls are cut off. The hub ends the sessions, not Shutdown.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.Shutdown()
	return s.engine.shutdown(ctx)
}

// Queued is how many bytes wait for clients in the engine, without the reactor's queues.
func (s *Server) Queued() int64 { return s.engine.queued() }
