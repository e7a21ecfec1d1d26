// Package nammayatri replaces nammayatri's notification-service: its gRPC services for apps, its metrics and its health endpoint, over the
// Redis streams that its publishers write. Publishers and apps need no change.
package nammayatri

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"godwit.dev/godwit/api/nammayatripb"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/gateway/grpcgate"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/session"
)

// App is the app of everything served here; recipients are client ids.
const App = "nammayatri"

// Store is the part of the Redis streams that this package uses.
type Store interface {
	session.Store
	session.Mailbox
	// Ready returns the reason why notifications cannot be read now; nil: they can.
	Ready(ctx context.Context) error
	// Joined and Left report that a recipient has connected or disconnected. They do not block.
	Joined(recipient string)
	Left(recipient string)
	// Token returns the client of a stored token; KeepToken stores a token for a time.
	Token(ctx context.Context, token string) (client string, ok bool, err error)
	KeepToken(ctx context.Context, token, client string, expiry time.Duration) error
}

// Config holds the parts and settings of a Service.
type Config struct {
	Store     Store
	Metrics   *Metrics                   // which observes the store
	Recipient func(client string) string // maps a client id to its recipient
	Origins   map[string]Origin          // the servers that verify tokens, by the origin that clients state
	Dev       bool                       // accept every token as its client's id, without verification
	DriverAPI string                     // base URL of the service that gets drivers' answers to offers; empty: answers are not sent
	Timeout   time.Duration              // duration after which a stream ends; 0: never
	Redeliver time.Duration              // pause before an unacknowledged notification is sent again, doubled for the time after; 0: 10 s
	Window    int                        // number of notifications that may be unacknowledged at once; 0: 64
	Stopping  <-chan struct{}            // closed when the server stops or drains
	Log       *slog.Logger
}

// Service replaces the notification service of Namma Yatri. Close must be called.
type Service struct {
	cfg  Config
	hub  *session.Hub
	auth *auth
	api  *driverAPI

	stopping sync.Once
	over     chan struct{} // closed when streams of answers must end
}

// New makes a Service.
func New(cfg Config) *Service {
	now := mailbox.Clock()
	s := &Service{cfg: cfg, auth: newAuth(&cfg, now), api: newDriverAPI(cfg.DriverAPI), over: make(chan struct{})}
	s.hub = session.NewHub(session.Config{
		Store: cfg.Store, Mailbox: cfg.Store, Verifier: s.auth, Events: follow{cfg.Store}, Log: cfg.Log, Now: now,
		Window: cfg.Window, Redeliver: cfg.Redeliver,
	})
	cfg.Metrics.count(s.hub.Live)
	return s
}

// Live counts the streams.
func (s *Service) Live() int { return s.hub.Live() }

// Register adds the services to a gRPC server.
func (s *Service) Register(srv *grpcgate.Server) {
	srv.RegisterSessions(&nammayatripb.Notification_ServiceDesc, &quotes{s: s}, map[string]*grpcgate.SessionMethod{
		"StreamPayload":       s.method(nammayatripb.Notification_StreamPayload_FullMethodName, false),
		"ServerStreamPayload": s.method(nammayatripb.Notification_ServerStreamPayload_FullMethodName, true),
	})
	srv.RegisterService(&nammayatripb.Health_ServiceDesc, &health{s: s})
}

// Shutdown ends all streams and refuses new ones. It returns when all are gone or ctx ends.
func (s *Service) Shutdown(ctx context.Context) error {
	s.stopping.Do(func() { close(s.over) })
	return s.hub.Shutdown(ctx)
}

// Drain ends all streams, spread over up to a minute, and rejects new ones.
func (s *Service) Drain(ctx context.Context) error {
	s.stopping.Do(func() { close(s.over) })
	return s.hub.Drain(ctx)
}

// Close stops the service. Close the store after it.
func (s *Service) Close() error {
	s.auth.close()
	s.api.close()
	return s.hub.Close()
}

// follow makes the store read the streams of connected recipients.
type follow struct{ store Store }

// Emit implements mailbox.Emitter.
func (f follow) Emit(evs []event.Event) {
	for i := range evs {
		switch evs[i].Type {
		case event.Online:
			f.store.Joined(evs[i].To)
		case event.Offline:
			f.store.Left(evs[i].To)
		}
	}
}
