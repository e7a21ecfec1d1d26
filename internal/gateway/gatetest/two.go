package gatetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// joined is the state that two nodes share, and the connections between them.
type joined struct {
	postgres string
	peers    []string
	clock    func() time.Time // the first node's
}

// now returns a clock that both nodes share. With separate clocks, each node would know the database's time only to some milliseconds, and
// could not order two sessions that begin within that time.
func (j *joined) now(stores *store.Stores) func() time.Time {
	if j == nil {
		return stores.Clock
	}
	if j.clock == nil {
		j.clock = stores.Clock
	}
	return j.clock
}

// StartTwo starts two nodes on one PostgreSQL and returns the first, once they know each other. Clients connect to the two in turn, and
// post their frames to the node that does not have their session; notifications, objects and requests come from the second node.
func StartTwo(t testing.TB, driver string, mount func(s *Server)) *Server {
	t.Helper()
	nodes := &joined{postgres: pgtest.Database(t)}
	one := start(t, driver, mount, &Server{seen: newFeed(), nodes: nodes})
	nodes.peers = []string{one.bus.ClusterAddr()}
	one.other = start(t, driver, mount, &Server{seen: one.seen, nodes: nodes, second: true})
	one.other.other = one
	for _, s := range one.each() {
		for late := time.Now().Add(Patience); len(s.known.Nodes()) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatal("the nodes do not get to know each other")
			}
		}
	}
	return one
}

func nameOf(second bool) (node, boot string) {
	if second {
		return "n2", "bootbbbb"
	}
	return "n1", "bootaaaa"
}

// store returns the configuration of a node's store.
func (j *joined) store(c store.Config, second bool) store.Config {
	if j != nil {
		c.Postgres = j.postgres
		c.Node, c.Boot = nameOf(second)
	}
	return c
}

// bus returns the cluster settings of a node's bus; nil: there is only one node.
func (j *joined) bus(second bool) *bus.Cluster {
	if j == nil {
		return nil
	}
	node, boot := nameOf(second)
	return &bus.Cluster{Node: node, Boot: boot, Addr: "127.0.0.1:0", Peers: j.peers, Secret: "the secret of these two nodes"}
}

// cluster makes the node of a hub with these settings known to the other node. The caller then calls join.
func (s *Server) cluster(t testing.TB, stores *store.Stores, hub *session.Config) (join func()) {
	t.Helper()
	line := func(name string) cluster.Opener {
		return func(got func(string, []byte), lost func()) (cluster.Line, error) {
			return s.bus.Line(name, bus.LineConfig{Got: got, Lost: lost})
		}
	}
	node, boot := nameOf(s.second)
	c, err := cluster.New(cluster.Config{
		Open: line(bus.Mailboxes), Node: node, Boot: boot, Version: "test", Roll: alive(stores.Alive), Now: hub.Now, Taken: func(err error) { t.Error(err) }, Log: s.Log,
	})
	must(t, err)
	closing(t, c.Close)
	s.known = c
	hub.Peers, hub.Node = c, boot
	const forward = "forward"
	return func() {
		c.Join(s.Hub, s.Mailbox)
		c.AnswerRequests(s.Asks.AnswerNode)
		s.Asks.LookElsewhere(c)
		must(t, c.JoinObjects(line(bus.Objects), s.Objects))
		s.Posting.ForwardTo(&gateway.Forwarder{Node: boot, Ask: func(ctx context.Context, node string, request any) (json.RawMessage, error) {
			return c.AskOne(ctx, node, forward, request)
		}})
		c.Answer(forward, 2*time.Minute, 1024, func(ctx context.Context, request json.RawMessage) (any, error) {
			return gateway.Serve(ctx, map[string]http.Handler{"/v1/frames": s.Mux, "/v1/poll": s.Mux}, request)
		})
	}
}

type alive func(context.Context) ([]string, error)

// Alive implements cluster.Roll.
func (a alive) Alive(ctx context.Context) ([]string, error) { return a(ctx) }

// far is the node that events for clients are published on.
func (s *Server) far() *Server {
	if s.other != nil && !s.second {
		return s.other
	}
	return s
}

// elsewhere is the node that receives a client's posts: not the one that holds its session.
func (s *Server) elsewhere() *Server {
	if s.other != nil {
		return s.other
	}
	return s
}

// each lists the nodes.
func (s *Server) each() []*Server {
	if s.other != nil {
		return []*Server{s, s.other}
	}
	return []*Server{s}
}

// turn is the node that the next client connects to.
func (s *Server) turn() *Server {
	all := s.each()
	return all[int(s.turns.Add(1)-1)%len(all)]
}

// live waits until all nodes together have want live sessions: a session that another node has replaced ends a moment later.
func (s *Server) live(t testing.TB, want int) {
	t.Helper()
	n := -1
	for late := time.Now().Add(Patience); n != want; time.Sleep(time.Millisecond) {
		if n = 0; time.Now().After(late) {
			t.Fatalf("%d sessions are live, want %d", n, want)
		}
		for _, s := range s.each() {
			n += s.Hub.Live()
		}
		if s.other == nil && n != want {
			t.Fatalf("%d sessions are live, want %d", n, want)
		}
	}
}

var reached atomic.Int64

// reach returns once the other node has learnt the current subscriptions of this one: it receives changes in order.
func (s *Server) reach(t testing.TB) {
	t.Helper()
	if s.other == nil {
		return
	}
	got := make(chan struct{}, 1)
	subject := topic.Topic(fmt.Sprint("reached.", reached.Add(1))) // a new subject each time, since the node may still know an earlier one
	stop, err := s.bus.Subscribe(App, subject, "", func(topic.Message) {
		select {
		case got <- struct{}{}:
		default:
		}
	}, func(int) {})
	must(t, err)
	defer stop()
	late := time.After(Patience)
	for again := time.NewTicker(time.Millisecond); ; {
		must(t, s.other.bus.Publish(t.Context(), App, topic.Message{Subject: subject}))
		select {
		case <-got:
			again.Stop()
			return
		case <-again.C:
		case <-late:
			t.Fatal("the other node does not learn what is subscribed to here")
		}
	}
}
