// Package listen opens the server's listeners: each is registered with its setting, its service and the service's shutdown. All are opened
// before any is served.
package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"godwit.dev/godwit/internal/server/lifecycle"
)

// Listener is an address that the server listens on.
type Listener struct {
	Key       string   // key of the setting with the address, like http_addr
	Owner     string   // what registers it
	Addr      string   // empty: it is off
	Plain     bool     // no TLS, even if it is configured
	Protocols []string // that are offered within TLS
	// Serve makes the service on a listener, once all listeners are open. conf is nil without TLS.
	Serve func(ln net.Listener, conf *tls.Config) (Service, error)
	// Packets makes the service on a UDP socket instead; Serve is nil. The socket stays open until the service's Shutdown has returned.
	Packets func(pc net.PacketConn, conf *tls.Config) (Service, error)
}

// Service serves a listener.
type Service struct {
	Name string // name of its work under way, such as HTTP answers, for messages about a stop
	// Run accepts until its context ends or the listener is closed.
	Run func(ctx context.Context) error
	// Shutdown ends the work under way, after accepting has ended. When ctx ends, it cuts off the rest.
	Shutdown func(ctx context.Context) error
	Patience time.Duration // limits Shutdown; 0: the list's limit
}

// Set is the list of a server's listeners.
type Set struct {
	steps    *lifecycle.Steps
	failed   func(error)
	patience time.Duration // for what is under way
	tls      func(protocols ...string) *tls.Config
	list     []*entry
}

type entry struct {
	Listener
	ln  net.Listener       // nil: it is not open, or has a socket
	pc  net.PacketConn     // nil: it is not open, or has a listener
	end context.CancelFunc // ends accepting; nil: the listener is not served
}

// New makes an empty list. tls makes the configuration of a listener; nil: none has TLS.
func New(steps *lifecycle.Steps, failed func(error), patience time.Duration, tls func(protocols ...string) *tls.Config) *Set {
	return &Set{steps: steps, failed: failed, patience: patience, tls: tls}
}

// Add registers a listener. A second one with the same key is an error.
func (s *Set) Add(l Listener) error {
	for _, e := range s.list {
		if e.Key == l.Key {
			return fmt.Errorf("%s registers listener %s, which %s has registered", l.Owner, l.Key, e.Owner)
		}
	}
	s.list = append(s.list, &entry{Listener: l})
	return nil
}

// Open opens all listeners that are not off, before any is served: if an address is in use, nothing is half started.
func (s *Set) Open(ctx context.Context) error {
	for _, e := range s.list {
		if e.Addr == "" {
			continue
		}
		if err := e.open(ctx); err != nil {
			return fmt.Errorf("open %s: %w", e.Key, err)
		}
		s.steps.AddClose(e.Key, time.Second, e.close)
	}
	return nil
}

func (e *entry) open(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if e.Packets != nil {
		e.pc, err = lc.ListenPacket(ctx, "udp", e.Addr)
		return err
	}
	e.ln, err = lc.Listen(ctx, "tcp", e.Addr)
	return err
}

// close closes a listener or socket that may be closed already.
func (e *entry) close() (err error) {
	if e.pc != nil {
		err = e.pc.Close()
	} else {
		err = e.ln.Close()
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// addr returns the address; nil: it is not open.
func (e *entry) addr() net.Addr {
	switch {
	case e.pc != nil:
		return e.pc.LocalAddr()
	case e.ln != nil:
		return e.ln.Addr()
	}
	return nil
}

// Serve starts the services of all listeners, in the order of registration.
func (s *Set) Serve() error {
	for _, e := range s.list {
		if e.addr() == nil {
			continue
		}
		if err := s.serve(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) serve(e *entry) error {
	var conf *tls.Config
	if s.tls != nil && !e.Plain {
		conf = s.tls(e.Protocols...)
	}
	service, err := e.service(conf)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	e.end = end
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := service.Run(ctx); ctx.Err() == nil {
			if err == nil {
				err = errors.New("ended unexpectedly")
			}
			s.failed(fmt.Errorf("serve %s: %w", e.Key, err))
		}
	}()
	if service.Patience == 0 {
		service.Patience = s.patience
	}
	s.steps.AddPolite(service.Name, service.Patience, func(ctx context.Context) error {
		e.stop() // repeated here in case the start failed before accepting was ended
		err := service.Shutdown(ctx)
		<-done
		return err
	})
	return nil
}

func (e *entry) service(conf *tls.Config) (Service, error) {
	if e.Packets != nil {
		return e.Packets(e.pc, conf)
	}
	return e.Serve(e.ln, conf)
}

// stop ends accepting. A socket stays open, since its connections need it.
func (e *entry) stop() {
	if e.end != nil {
		e.end()
	}
	if e.ln != nil {
		_ = e.close() // the service continues; a failure to close the listener is reported at the second close
	}
}

// Stop ends accepting on all listeners.
func (s *Set) Stop() error {
	for _, e := range s.list {
		e.stop()
	}
	return nil
}

// Addrs returns the addresses of open listeners, by key.
func (s *Set) Addrs() map[string]string {
	addrs := make(map[string]string)
	for _, e := range s.list {
		if at := e.addr(); at != nil {
			addrs[e.Key] = at.String()
		}
	}
	return addrs
}

// Shutdown ends a server. Connections still open when ctx ends are no error: they had enough time.
func Shutdown(ctx context.Context, srv *http.Server) error {
	err := srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	return err
}
