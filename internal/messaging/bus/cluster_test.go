package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/server/certs"
	"godwit.dev/godwit/internal/server/certs/certstest"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/logbuffer"
)

const secret = "a secret of sixteen and more"

// node starts a bus that connects to the buses at the given addresses.
func node(t *testing.T, name string, change func(*bus.Cluster), peers ...string) (*bus.Bus, *logbuffer.Buffer) {
	t.Helper()
	log := &logbuffer.Buffer{}
	c := &bus.Cluster{Node: name, Addr: "127.0.0.1:0", Peers: peers, Secret: secret}
	if change != nil {
		change(c)
	}
	b, err := bus.Start(t.Context(), bus.Config{Cluster: c, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if strings.Contains(log.String(), c.Secret) {
			t.Errorf("the log has the secret:\n%s", log)
		}
	})
	return b, log
}

// two starts two nodes that are connected.
func two(t *testing.T) (one, other *bus.Bus) {
	t.Helper()
	one, _ = node(t, "one", nil)
	other, _ = node(t, "other", nil, one.ClusterAddr())
	connected(t, one, other)
	return one, other
}

func connected(t *testing.T, nodes ...*bus.Bus) {
	t.Helper()
	eventually.True(t, "the nodes are connected with each other", func() bool {
		for _, b := range nodes {
			if list, ok := b.Routes(); !ok || len(list) != len(nodes)-1 {
				return false
			}
		}
		return true
	})
}

// line opens a line whose messages a test receives.
func line(t *testing.T, b *bus.Bus, name string) (*bus.Line, chan string, chan struct{}) {
	t.Helper()
	got, lost := make(chan string, 10_000), make(chan struct{}, 1)
	l, err := b.Line(name, bus.LineConfig{
		Got: func(subject string, data []byte) { got <- subject + " " + string(data) },
		Lost: func() {
			select {
			case lost <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return l, got, lost
}

func TestNodesFindEachOtherThroughOne(t *testing.T) {
	one, _ := node(t, "one", nil)
	two, _ := node(t, "two", nil, one.ClusterAddr())
	three, _ := node(t, "three", nil, one.ClusterAddr())
	connected(t, one, two, three)
	list, _ := three.Routes()
	if names := fmt.Sprint(list[0].Name, list[1].Name); !strings.Contains(names, "one/") || !strings.Contains(names, "two/") {
		t.Errorf("connected with %v", list)
	}
}

func TestTopicsAndRequestsReachOtherNodes(t *testing.T) {
	one, other := two(t)
	// The other node does not use the app when this one subscribes.
	in, _ := subscribe(t, one, "a.t", topic.Topic("rides.*"), "")
	serve(t, one, "a", topic.Request("orders.>"), "q")
	eventually.True(t, "a message reaches the other node", func() bool {
		return other.Publish(t.Context(), "a.t", topic.Message{Subject: "t.rides.oslo", Data: []byte("x")}) == nil && len(in.ch) > 0
	})
	if m := in.next(t); m.Subject != "t.rides.oslo" || string(m.Data) != "x" {
		t.Errorf("got %+v", m)
	}
	eventually.True(t, "a request is answered by the other node", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		answer, err := other.Request(ctx, "a", topic.Message{Subject: "r.orders.get", Data: []byte("1")})
		return err == nil && string(answer.Data) == "1"
	})
	if _, err := other.Request(t.Context(), "a.t", topic.Message{Subject: "r.orders.get"}); !errors.Is(err, topic.ErrNoResponders) {
		t.Errorf("a request in another app: %v", err)
	}
	if one.Alone("a") || other.Alone("unused") {
		t.Error("a node of several takes itself for alone")
	}
}

func TestWorkersOfOtherNodesAreKnown(t *testing.T) {
	one, other := two(t)
	serve(t, other, "demo", "r.files.>", "q")
	served := func(subject string) bool {
		t.Helper()
		ok, err := one.Served("demo", subject)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	eventually.True(t, "the worker of the other node is known", func() bool { return served("r.files.POST.a") })
	if served("r.file.POST.a") {
		t.Error("nobody serves this subject")
	}
}

func TestLinesAreHeardOnOtherNodesOnly(t *testing.T) {
	one, other := two(t)
	from, echo, _ := line(t, one, bus.Mailboxes)
	to, got, _ := line(t, other, bus.Mailboxes)
	objects, elsewhere, _ := line(t, other, bus.Objects)
	for _, l := range []*bus.Line{from, to, objects} {
		if _, err := l.Subscribe("x"); err != nil {
			t.Fatal(err)
		}
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "the line is heard", func() bool { return from.Publish("x", []byte("first")) == nil && len(got) > 0 })
	for range 100 {
		if err := from.Publish("x", []byte("more")); err != nil {
			t.Fatal(err)
		}
	}
	if err := from.Publish("x", []byte("last")); err != nil {
		t.Fatal(err)
	}
	n := 0
	for m := range got {
		if m == "x last" {
			break
		}
		if m == "x more" {
			n++
		}
	}
	if n != 100 || len(echo) != 0 || len(elsewhere) != 0 {
		t.Errorf("%d of 100 came, and %d to the sender, %d to another line", n, len(echo), len(elsewhere))
	}
	// An app's name cannot be the name of a line, and a key opens no line.
	if c, user, password, left, err := other.Open(bus.Visitor{App: "a", All: true}); err != nil {
		t.Error(err)
	} else {
		c.Close()
		left()
		if user == bus.Mailboxes || password == "" {
			t.Errorf("a NATS client comes as %q", user)
		}
	}
}

func TestLineSaysThatItMayHaveMissedSomething(t *testing.T) {
	one, _ := node(t, "one", nil)
	_, _, lost := line(t, one, bus.Mailboxes)
	other, _ := node(t, "other", nil, one.ClusterAddr())
	connected(t, one, other)
	select {
	case <-lost:
	case <-time.After(patience):
		t.Error("a node has come, and the line does not say so")
	}
}

func TestNodeWithAnotherSecretIsRefused(t *testing.T) {
	one, log := node(t, "one", nil)
	_, its := node(t, "stranger", func(c *bus.Cluster) { c.Secret = "quite another secret" }, one.ClusterAddr())
	eventually.True(t, "both say why", func() bool {
		return strings.Contains(log.String(), "refused another node: its cluster_secret_file differs") &&
			strings.Contains(its.String(), "another node refuses this one: its cluster_secret_file differs")
	})
	if list, _ := one.Routes(); len(list) != 0 {
		t.Errorf("connected with %v", list)
	}
}

func TestNodesShowEachOtherCertificates(t *testing.T) {
	ca, later := certstest.NewAuthority(t), time.Now().Add(time.Hour)
	var its logbuffer.Buffer // errors about the node's own certificate
	with := func(ca *certstest.Authority, ends time.Time) func(*bus.Cluster) {
		cert, key, authorities := ca.Node(t, ends)
		files, err := certs.LoadMutual(cert, key, authorities, slog.New(slog.NewTextHandler(&its, nil)))
		if err != nil {
			t.Fatal(err)
		}
		return func(c *bus.Cluster) { c.TLS = files.Mutual() }
	}
	for what, tt := range map[string]struct {
		change func(*bus.Cluster)
		said   string
	}{
		"expired":                  {with(ca, time.Now().Add(-time.Minute)), "expired"},
		"of another authority":     {with(certstest.NewAuthority(t), later), "certificate"},
		"none, and speaking plain": {nil, "TLS handshake"},
	} {
		t.Run(what, func(t *testing.T) {
			one, log := node(t, "one", with(ca, later))
			two, _ := node(t, "two", with(ca, later), one.ClusterAddr())
			connected(t, one, two)
			node(t, "stranger", tt.change, one.ClusterAddr())
			eventually.True(t, "it is said why", func() bool {
				text := log.String()
				return strings.Contains(text, "no TLS connection with another node") && strings.Contains(text, tt.said)
			})
			if list, _ := one.Routes(); len(list) != 1 {
				t.Errorf("connected with %v", list)
			}
		})
	}
	if !strings.Contains(its.String(), "its certificate has expired") {
		t.Errorf("the node whose certificate has expired says %s", &its)
	}
}

func TestPeerThatIsNotThereIsSaid(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	_, log := node(t, "one", nil, addr)
	eventually.True(t, "it is said", func() bool {
		return strings.Contains(log.String(), "another node cannot be reached, will go on trying") && strings.Contains(log.String(), addr)
	})
}

func TestClusterAddressInUseIsAnErrorAtOnce(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, err = bus.Start(t.Context(), bus.Config{
		Cluster: &bus.Cluster{Node: "one", Addr: ln.Addr().String(), Secret: secret}, Log: slog.New(slog.DiscardHandler),
	})
	if err == nil || !strings.Contains(err.Error(), "open cluster_addr") {
		t.Errorf("got %v", err)
	}
}

func TestAloneHasNoLine(t *testing.T) {
	if _, err := start(t).Line(bus.Mailboxes, bus.LineConfig{}); err == nil {
		t.Error("a bus that is alone opens a line to other nodes")
	}
}
