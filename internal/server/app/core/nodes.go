package core

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/store"
)

// startBus starts the bus that carries topics and requests, and joins nodes. It stops after the sessions, which use it.
func startBus(ctx context.Context, g *ground.Ground) (*bus.Bus, error) {
	s := g.Settings
	cfg := bus.Config{External: bus.External{URL: s.NATS, Credentials: s.NATSCredentials, CA: s.NATSCA, Nodes: g.Stores.Shared}, Log: g.Log}
	if addr := s.ListenAddr(s.ClusterAddr); addr != "" {
		joins, err := joins(g, addr)
		if err != nil {
			return nil, err
		}
		cfg.Cluster = joins
	}
	carrier, err := bus.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	g.Steps.AddClose("message bus", ground.StorePatience, carrier.Close)
	g.Registry.MustRegister(carrier)
	return carrier, nil
}

// joins returns this node's settings for connecting to others.
func joins(g *ground.Ground, addr string) (*bus.Cluster, error) {
	c := &bus.Cluster{Node: g.Node, Boot: g.Boot, Addr: addr, Peers: g.Settings.Peers()}
	var err error
	if c.Secret, err = readSecret(g.Settings.ClusterSecretFile); err != nil {
		return nil, err
	}
	if g.Settings.ClusterTLSCert == "" {
		if host, _, _ := net.SplitHostPort(addr); host == "localhost" || net.ParseIP(host).IsLoopback() {
			return c, nil
		}
		g.Log.Warn("nodes talk in the clear, the secret included: set cluster_tls_cert, cluster_tls_key and cluster_tls_ca unless nobody else is on that network", "cluster_addr", addr)
		return c, nil
	}
	c.TLS = g.NodeTLS
	return c, nil
}

// minSecret is as for keys.
const minSecret = 16

func readSecret(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read cluster_secret_file: %w", err)
	}
	if b = bytes.TrimSpace(b); len(b) < minSecret {
		return "", fmt.Errorf("cluster_secret_file %s has %d characters; at least %d are needed", file, len(b), minSecret)
	}
	return string(b), nil
}

// roll lists the boots of live nodes from the store.
type roll func(context.Context) ([]string, error)

// Alive implements cluster.Roll.
func (r roll) Alive(ctx context.Context) ([]string, error) { return r(ctx) }

// ledger is a roll that also lists lost nodes.
type ledger struct {
	roll
	members func(context.Context) ([]store.Member, error)
}

// Members implements cluster.Ledger.
func (l ledger) Members(ctx context.Context) ([]cluster.Member, error) {
	found, err := l.members(ctx)
	list := make([]cluster.Member, len(found))
	for i, m := range found {
		list[i] = cluster.Member(m)
	}
	return list, err
}

// startCluster connects the sessions of several nodes. This node's sessions take part after Join.
func startCluster(g *ground.Ground, carrier *bus.Bus) (*cluster.Cluster, error) {
	cfg := cluster.Config{
		Open: line(carrier, bus.Mailboxes),
		Node: g.Node, Boot: g.Boot, Version: g.Version, Roll: ledger{g.Stores.Alive, g.Stores.Members}, Now: g.Stores.Clock, Taken: g.Fail, Log: g.Log,
	}
	if g.Stores.Reach != nil {
		cfg.Heard, cfg.Steady = g.Stores.Reach.Heard, g.Stores.Reach.Steady
	}
	if g.Stores.Work != nil {
		cfg.Work = func() (w cluster.Work) {
			w.Commits, w.Copies, w.Queue = g.Stores.Work()
			return w
		}
	}
	joined, err := cluster.New(cfg)
	if err == nil {
		g.Registry.MustRegister(joined)
	}
	return joined, err
}

// line returns the opener of a named line between nodes.
func line(carrier *bus.Bus, name string) cluster.Opener {
	return func(got func(string, []byte), lost func()) (cluster.Line, error) {
		return carrier.Line(name, bus.LineConfig{Got: got, Lost: lost})
	}
}

// joinNodes connects this node's mailboxes, sessions and objects to other nodes.
func (c *Core) joinNodes(g *ground.Ground) error {
	c.Cluster.Join(c.Hub, c.Mailbox)
	c.Cluster.AnswerRequests(c.Requests.AnswerNode)
	c.Requests.LookElsewhere(c.Cluster)
	if g.Tracer != nil {
		c.Cluster.JoinTraces(g.Tracer)
	}
	if err := c.Cluster.JoinObjects(line(c.Bus, bus.Objects), c.Objects); err != nil {
		return err
	}
	g.Steps.AddClose("other nodes", ground.StorePatience, c.Cluster.Close)
	return nil
}

// A kind of request between nodes, in addition to those of package cluster, with its limits.
const (
	whatForward    = "forward"
	forwardAtOnce  = 1024 // most forwarded requests are waiting polls
	forwardedLasts = 2 * time.Minute
)

// Forwarder returns the service that forwards posts and polls to the node of their session; nil: the node is alone.
func (c *Core) Forwarder(boot string) *gateway.Forwarder {
	if c.Cluster == nil {
		return nil
	}
	return &gateway.Forwarder{Node: boot, Ask: func(ctx context.Context, node string, request any) (json.RawMessage, error) {
		return c.Cluster.AskOne(ctx, node, whatForward, request)
	}}
}

// ServeForwarded handles requests that other nodes forward.
func (c *Core) ServeForwarded(handlers map[string]http.Handler) {
	if c.Cluster == nil {
		return
	}
	c.Cluster.Answer(whatForward, forwardedLasts, forwardAtOnce, func(ctx context.Context, request json.RawMessage) (any, error) {
		return gateway.Serve(ctx, handlers, request)
	})
}
