package bus_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"godwit.dev/godwit/internal/bus"
	"godwit.dev/godwit/internal/topic"
)

// elsewhere starts a NATS server on a port; -1: any.
func elsewhere(t *testing.T, port int) (s *server.Server, at int) {
	t.Helper()
	s = run(t, &server.Options{Port: port})
	return s, s.Addr().(*net.TCPAddr).Port
}

// run starts a NATS server that ends with the test.
func run(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.NoSigs, o.NoLog = "127.0.0.1", true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("NATS did not start")
	}
	return s
}

func startExternal(t *testing.T, url string) *bus.Bus {
	t.Helper()
	return startWith(t, bus.External{URL: url})
}

// startWith starts a bus that ends with the test.
func startWith(t *testing.T, x bus.External) *bus.Bus {
	t.Helper()
	b, err := bus.Start(t.Context(), bus.Config{External: x, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestExternalNATSCarriesTheSameSubjects(t *testing.T) {
	s, _ := elsewhere(t, -1)
	one, two := startExternal(t, s.ClientURL()), startExternal(t, s.ClientURL())
	a, _ := subscribe(t, one, "a", "t.>", "")
	at, _ := subscribe(t, one, "a.t", "t.>", "")
	serve(t, one, "a", "r.>", "q")
	eventually(t, "the other node sees what is subscribed", func() bool {
		return two.Publish(t.Context(), "a.t", topic.Message{Subject: "t.x"}) == nil && len(at.ch) > 0
	})
	publish(t, two, "a", "t.t.x", "for a")
	if m := a.next(t); m.Subject != "t.t.x" || string(m.Data) != "for a" {
		t.Errorf("a got %+v", m)
	}
	answer, err := two.Request(t.Context(), "a", topic.Message{Subject: "r.x", Data: []byte("1")})
	if err != nil || string(answer.Data) != "1" {
		t.Errorf("%+v, %v", answer, err)
	}
	if _, err := two.Request(t.Context(), "a.t", topic.Message{Subject: "r.x"}); !errors.Is(err, topic.ErrNoResponders) {
		t.Errorf("a request in another app: %v", err)
	}
}

// unavailable checks that once NATS has gone everything says so, also a request under way, which r.silent has got.
func unavailable(t *testing.T, b *bus.Bus, silent *inbox, gone func()) {
	t.Helper()
	underWay := make(chan error, 1)
	go func() {
		_, err := b.Request(context.Background(), "a", topic.Message{Subject: "r.silent"})
		underWay <- err
	}()
	<-silent.ch
	gone()
	if err := <-underWay; !errors.Is(err, topic.ErrUnavailable) {
		t.Errorf("a request under way: %v", err)
	}
	if err := b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}); !errors.Is(err, topic.ErrUnavailable) {
		t.Errorf("a publish: %v", err)
	}
	if _, err := b.Request(t.Context(), "a", topic.Message{Subject: "r.x"}); !errors.Is(err, topic.ErrUnavailable) {
		t.Errorf("a request: %v", err)
	}
}

func TestExternalNATSGoesAndComesBack(t *testing.T) {
	s, port := elsewhere(t, -1)
	b := startExternal(t, s.ClientURL())
	in, _ := subscribe(t, b, "a", "t.x", "")
	silent, _ := subscribe(t, b, "a", "r.silent", "")
	eventually(t, "connected", func() bool { return b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}) == nil })
	in.next(t)

	unavailable(t, b, silent, func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	later, _ := subscribe(t, b, "a", "t.later", "") // holds once it is back

	elsewhere(t, port)
	eventually(t, "connected again", func() bool { return b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}) == nil })
	in.next(t)
	publish(t, b, "a", "t.later", "")
	later.next(t)
}

func TestExternalNATSMayStartLater(t *testing.T) {
	s, port := elsewhere(t, -1)
	url := s.ClientURL()
	s.Shutdown()
	s.WaitForShutdown()
	b := startExternal(t, url)
	in, _ := subscribe(t, b, "a", "t.x", "")
	if err := b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}); !errors.Is(err, topic.ErrUnavailable) {
		t.Errorf("a publish: %v", err)
	}
	elsewhere(t, port)
	eventually(t, "connected", func() bool { return b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}) == nil })
	in.next(t)
}

// eventually asks until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
