package bus_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/bus/natstest"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/logbuffer"
)

// elsewhere starts a NATS server on a port, or any port for -1.
func elsewhere(t *testing.T, port int) (s *server.Server, at int) {
	t.Helper()
	s = natstest.Start(t, &server.Options{Port: port})
	return s, s.Addr().(*net.TCPAddr).Port
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
	eventually.True(t, "the other node sees what is subscribed", func() bool {
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

// TestLargeMessagesOfOthersLeaveAGap: an external NATS server accepts messages from its clients that are too large for sessions.
func TestLargeMessagesOfOthersLeaveAGap(t *testing.T) {
	s, _ := elsewhere(t, -1)
	b := startExternal(t, s.ClientURL())
	in, _ := subscribe(t, b, "a", "t.>", "")
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	eventually.True(t, "the bus has subscribed", func() bool {
		return nc.Publish("godwit.a.t.x", nil) == nil && nc.Flush() == nil && len(in.ch) > 0
	})
	if err := nc.Publish("godwit.a.t.x", make([]byte, topic.MaxData+1)); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the subscriber is told of a gap", func() bool {
		in.mu.Lock()
		defer in.mu.Unlock()
		return in.lost == 1
	})
}

// unavailable checks that all calls return ErrUnavailable once NATS has gone, including a request under way, which silent has received.
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
	eventually.True(t, "connected", func() bool { return b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}) == nil })
	in.next(t)

	unavailable(t, b, silent, func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	later, _ := subscribe(t, b, "a", "t.later", "") // holds once it is back

	elsewhere(t, port)
	eventually.True(t, "connected again", func() bool { return b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}) == nil })
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
	eventually.True(t, "connected", func() bool { return b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}) == nil })
	in.next(t)
}

func TestExternalNATSJoinsNodesThatShareADatabase(t *testing.T) {
	s, port := elsewhere(t, -1)
	at := func(nodes string) *bus.Bus { return startWith(t, bus.External{URL: s.ClientURL(), Nodes: nodes}) }
	from, echo, lost := line(t, at("x"), bus.Mailboxes)
	other := at("x")
	to, got, _ := line(t, other, bus.Mailboxes)
	objects, apart, _ := line(t, other, bus.Objects)
	strangers, stranger, _ := line(t, at("y"), bus.Mailboxes)
	listen := func(l *bus.Line) {
		t.Helper()
		if _, err := l.Subscribe("r.x"); err != nil {
			t.Fatal(err)
		}
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []*bus.Line{from, to, objects, strangers} {
		listen(l)
	}
	for range 100 {
		if err := from.Publish("r.x", []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		if m := <-got; m != "r.x 1" {
			t.Fatalf("got %q", m)
		}
	}
	if len(echo)+len(apart)+len(stranger) > 0 {
		t.Errorf("%d came to the sender, %d to another line, %d to nodes of another database", len(echo), len(apart), len(stranger))
	}

	for len(lost) > 0 {
		<-lost
	}
	s.Shutdown()
	s.WaitForShutdown()
	eventually.True(t, "what cannot be sent is said", func() bool { return errors.Is(from.Publish("r.x", nil), topic.ErrUnavailable) })
	if err := from.Flush(t.Context()); !errors.Is(err, topic.ErrUnavailable) || from.Dropped() == 0 {
		t.Errorf("without NATS a flush says %v, and %d were dropped", err, from.Dropped())
	}
	elsewhere(t, port)
	<-lost // something may be missing
	eventually.True(t, "what was subscribed to before is heard again", func() bool { return from.Publish("r.x", []byte("2")) == nil && len(got) > 0 })
	if m := <-got; m != "r.x 2" {
		t.Errorf("got %q", m)
	}
}

func TestExternalNATSThatJoinsNoNodesHasNoLine(t *testing.T) {
	s, _ := elsewhere(t, -1)
	if _, err := startExternal(t, s.ClientURL()).Line(bus.Mailboxes, bus.LineConfig{}); err == nil {
		t.Error("a bus that joins no nodes opens a line to them")
	}
}

func TestNATSClientsComeToNoExternalNATSThroughTheServer(t *testing.T) {
	s, _ := elsewhere(t, -1)
	c, _, _, _, err := startExternal(t, s.ClientURL()).Open(bus.Visitor{App: "a"})
	if c != nil || !errors.Is(err, topic.ErrUnavailable) {
		t.Errorf("a client's connection is %v, %v", c, err)
	}
}

func TestNATSThatRefusesWhatNodesSayIsTold(t *testing.T) {
	n, file, log := natstest.Guard(t, false), filepath.Join(t.TempDir(), "nats.creds"), &logbuffer.Buffer{}
	seed := natstest.Credentials(t, file, n.Account, "godwit.>", "_INBOX.>")
	b, err := bus.Start(t.Context(), bus.Config{
		External: bus.External{URL: "nats://" + n.Addr, Credentials: file, Nodes: "x"}, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l, _, _ := line(t, b, bus.Mailboxes)
	eventually.True(t, "it is told what to allow", func() bool {
		_ = l.Publish("n", nil)
		return strings.Contains(log.String(), "allow the user of nats_credentials to publish and subscribe to _godwit.>")
	})
	if strings.Contains(log.String(), seed) {
		t.Errorf("the log has the key:\n%s", log)
	}
}
