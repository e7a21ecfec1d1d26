// Package natsgate lets NATS clients take part in the topics and requests of their app: it accepts their connections, identifies
// them, and relays between them and the bus's NATS server, which listens nowhere itself. Each subscription and each message of a
// client is checked against its rights, like frames of sessions; a forbidden one is forwarded under a subject that the server
// refuses, so that the client gets the error that its library knows, with its own subject in it. Inboxes get a name of their
// connection on the way to the server and lose it on the way back: nobody else can subscribe to them.
//
// The server's own permissions would not suffice: a client that may subscribe to rides.* could subscribe to rides.> there.
package natsgate

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/messaging/bus"
)

// Limits of connections.
const (
	patience     = 10 * time.Second       // time from a client's connection to its complete credentials
	recheckEvery = 250 * time.Millisecond // interval of checks for changes of apps and keys
	maxConnect   = 20 << 10               // most bytes of the line with the credentials: a token has up to 16 KB
)

// Access verifies clients: *access.Registry.
type Access interface {
	Key(ctx context.Context, secret string) (access.Principal, error)
	Client(ctx context.Context, c access.Claim) (access.Client, error)
	Known(c access.Claim) (access.Client, error)
	Revision() uint64
}

// Config holds what a listener needs.
type Config struct {
	Access Access
	// Open connects to the bus's server as an app.
	Open  func(bus.Visitor) (c net.Conn, user, password string, left func(), err error)
	Admit func(netip.Addr) (leave func(), ok bool) // counts a connection of an address, or refuses it
	Hello func(netip.Addr) bool                    // whether an address may send credentials; nil: always
	// PublishLimit takes n messages of topics from a key's budget. wait > 0: the messages are refused. Nil: no limit.
	PublishLimit func(key string, n int) (wait time.Duration)
	TLS          *tls.Config // nil: plain
	Version      string      // of the NATS server behind
	Refused      string      // first token of subjects that the server refuses
	MaxPayload   int
	Log          *slog.Logger
}

// Server serves NATS clients.
type Server struct {
	cfg    Config
	info   []byte
	counts counts

	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
	all    sync.WaitGroup
}

type counts struct{ opened, unknown, refused atomic.Uint64 }

// New makes a server.
func New(cfg Config) (*Server, error) {
	info, err := json.Marshal(map[string]any{
		"server_id": "godwit", "server_name": "godwit", "version": cfg.Version, "proto": 1, "headers": true, "auth_required": true,
		"tls_required": cfg.TLS != nil, "max_payload": cfg.MaxPayload,
	})
	if err != nil {
		return nil, fmt.Errorf("make the greeting of the NATS listener: %w", err)
	}
	return &Server{cfg: cfg, info: fmt.Appendf(nil, "INFO %s\r\n", info), conns: make(map[*conn]struct{})}, nil
}

// Serve serves a listener's connections until the listener is closed, and returns the error with which it stopped.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	s.all.Go(func() { s.recheck(ctx) })
	defer cancel()
	for {
		nc, err := ln.Accept()
		if err != nil {
			if isTemporary(err) {
				time.Sleep(acceptPause)
				continue
			}
			return err
		}
		leave, ok := s.cfg.Admit(address(nc))
		if !ok {
			_ = nc.Close() // it is a stranger's
			continue
		}
		s.all.Go(func() {
			defer leave()
			s.serve(ctx, nc)
		})
	}
}

// acceptPause is the wait when the process has no descriptor left for a connection.
const acceptPause = 10 * time.Millisecond

func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary() && !errors.Is(err, net.ErrClosed)
}

func address(c net.Conn) netip.Addr { return addressPort(c).Addr() }

func addressPort(c net.Conn) netip.AddrPort {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		p := a.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	return netip.AddrPort{}
}

// Close ends all connections. The listener must be closed before.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.end()
	}
	s.mu.Unlock()
	s.all.Wait()
	return nil
}

// join records a connection, so that Close can end it. False: the server is closing.
func (s *Server) join(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// recheck ends the connections of clients that lost rights, soon after apps or keys have changed.
func (s *Server) recheck(ctx context.Context) {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	seen := s.cfg.Access.Revision()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.cfg.Access.Revision()
		if now == seen {
			continue
		}
		seen = now
		s.mu.Lock()
		conns := make([]*conn, 0, len(s.conns))
		for c := range s.conns {
			conns = append(conns, c)
		}
		s.mu.Unlock()
		for _, c := range conns {
			if who := c.who.Load(); who != nil && !who.still(ctx, s.cfg.Access) {
				c.end()
			}
		}
	}
}
