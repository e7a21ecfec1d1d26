package nammayatri_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"godwit.dev/godwit/api/nammayatripb"
	"godwit.dev/godwit/internal/compat/nammayatri"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway/grpcgate"
	"godwit.dev/godwit/internal/notify/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience limits a test's wait for an event that must happen.
const patience = time.Minute

// world is a service under test on a listener, with in-memory streams, and the servers that it calls.
type world struct {
	*testing.T
	redis    *memory
	service  *nammayatri.Service
	client   nammayatripb.NotificationClient
	conn     *grpc.ClientConn
	web      string
	stopping chan struct{}
}

// nobody is a hub without sessions.
type nobody struct{}

func (nobody) Accept(session.Transport, session.Peer) *session.Session { return nil }

// open opens a world; change may alter its settings.
func open(t *testing.T, change func(*nammayatri.Config)) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	w := &world{T: t, redis: newMemory(), stopping: make(chan struct{})}
	cfg := nammayatri.Config{
		Store: w.redis, Metrics: nammayatri.NewMetrics("v7"), Recipient: func(client string) string { return client }, Stopping: w.stopping, Log: log,
	}
	if change != nil {
		change(&cfg)
	}
	w.service = nammayatri.New(cfg)
	srv, err := grpcgate.New(grpcgate.Config{Hub: nobody{}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	w.service.Register(srv)
	r, err := reactor.New(reactor.Config{}, log)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := srv.Serve(ctx, r, ln, nil, reactor.Limits{}); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	web := httptest.NewServer(w.service.Handler(prometheus.NewRegistry()))
	w.web = web.URL
	if w.conn, err = grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	w.client = nammayatripb.NewNotificationClient(w.conn)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		web.Close()
		cancel()
		wg.Wait()
		over, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		if err := w.service.Shutdown(over); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		_ = w.conn.Close()
		if err := srv.Shutdown(over); err != nil {
			t.Errorf("shut gRPC down: %v", err)
		}
		if err := w.service.Close(); err != nil {
			t.Error(err)
		}
		_ = r.Close()
	})
	return w
}

// as returns the context for calls with a token and further metadata.
func (w *world) as(token string, more ...string) context.Context {
	return metadata.AppendToOutgoingContext(w.Context(), append([]string{"token", token}, more...)...)
}

// until waits until so returns true for the streams.
func (w *world) until(what string, so func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if !w.redis.until(ctx, so) {
		w.Fatalf("not %s within %s", what, patience)
	}
}

// get returns the HTTP listener's answer to a path.
func (w *world) get(path string) (int, string) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.web+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// has checks that the metrics contain each of these lines.
func (w *world) has(lines ...string) {
	w.Helper()
	_, all := w.get("/metrics")
	for _, l := range lines {
		if !strings.Contains("\n"+all, "\n"+l+"\n") {
			w.Errorf("the metrics lack %s", l)
		}
	}
	if w.Failed() {
		w.Logf("%s", all)
	}
}

// dev lets everybody in.
func dev(c *nammayatri.Config) { c.Dev = true }

type stream interface {
	Recv() (*nammayatripb.NotificationPayload, error)
}

func (w *world) receive(s stream, ids ...string) {
	w.Helper()
	for _, id := range ids {
		m, err := s.Recv()
		if err != nil || m.GetId() != id || m.GetShow() != "SHOW" || m.GetEntity().GetData() != `{"a":1}` {
			w.Fatalf("got %v, %v, want %s", m, err, id)
		}
	}
}
