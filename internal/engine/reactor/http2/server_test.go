package http2_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/net/http2/hpack"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/engine/reactor/http2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a server on a real reactor for one test.
type served struct {
	addr   string
	server *http2.Server
}

func serve(t *testing.T, cfg http2.Config, driver string, h http2.Handler) *served {
	t.Helper()
	r, err := reactor.New(reactor.Config{Loops: 2, Driver: driver}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := http2.NewServer(cfg, h)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Serve(ctx, ln, nil, reactor.Limits{}, func(c *reactor.Conn) (reactor.Handler, error) {
			return s.NewConn(c), nil
		}); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := r.Close(); err != nil {
			t.Errorf("close reactor: %v", err)
		}
	})
	return &served{addr: ln.Addr().String(), server: s}
}

// echo answers every complete request with its body; it answers "/now" at once with headers, and leaves the stream open.
type echo struct {
	opened, closed atomic.Int64
	last           atomic.Pointer[echoStream]
}

type echoStream struct {
	e       *echo
	s       *http2.Stream
	body    []byte
	path    string
	alive   atomic.Int64
	drained chan struct{}
	resumed chan struct{}
	ended   chan error
	got     chan []byte
}

func (e *echo) Open(s *http2.Stream, h *http2.Headers) http2.StreamHandler {
	e.opened.Add(1)
	es := &echoStream{
		e: e, s: s, path: h.Path, drained: make(chan struct{}, 16), resumed: make(chan struct{}, 16),
		ended: make(chan error, 1), got: make(chan []byte, 1024),
	}
	if h.Path == "/now" {
		s.WriteHeaders(hpack.HeaderField{Name: ":status", Value: "200"}, hpack.HeaderField{Name: "content-type", Value: "application/grpc"})
	}
	e.last.Store(es)
	return es
}

func (s *echoStream) Data(b []byte) {
	if s.path == "/now" {
		s.got <- append([]byte(nil), b...)
		return
	}
	s.body = append(s.body, b...)
}

func (s *echoStream) HalfClosed() {
	if s.path == "/now" {
		return
	}
	if len(s.body) == 0 {
		s.body = []byte("nothing was sent")
	}
	s.s.WriteHeaders(hpack.HeaderField{Name: ":status", Value: "200"}, hpack.HeaderField{Name: "content-type", Value: "text/plain"})
	s.s.Write(nil, s.body)
	s.s.WriteTrailers(hpack.HeaderField{Name: "x-bytes", Value: "all"})
}

func (s *echoStream) Resumed()         { s.resumed <- struct{}{} }
func (s *echoStream) Drained()         { s.drained <- struct{}{} }
func (s *echoStream) Alive()           { s.alive.Add(1) }
func (s *echoStream) Closed(err error) { s.e.closed.Add(1); s.ended <- err }
