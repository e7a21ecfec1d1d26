package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/server/httpapi"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/operator"
	"godwit.dev/godwit/internal/server/problem"
	"godwit.dev/godwit/internal/store"
)

// startBus starts what carries topics and requests, and joins nodes. It is stopped after the sessions, which use it.
func (a *App) startBus(ctx context.Context) (err error) {
	cfg := bus.Config{External: bus.External{URL: a.cfg.NATS, Credentials: a.cfg.NATSCredentials, CA: a.cfg.NATSCA, Nodes: a.stores.Shared}, Log: a.log}
	if addr := a.cfg.ListenAddr(a.cfg.ClusterAddr); addr != "" {
		if cfg.Cluster, err = a.joins(addr); err != nil {
			return err
		}
	}
	if a.bus, err = bus.Start(ctx, cfg); err != nil {
		return err
	}
	a.steps.addClose("message bus", storePatience, a.bus.Close)
	a.registry.MustRegister(a.bus)
	return nil
}

// joins is how this node is joined to others.
func (a *App) joins(addr string) (*bus.Cluster, error) {
	c := &bus.Cluster{Node: a.node(), Boot: a.boot, Addr: addr, Peers: a.cfg.Peers()}
	var err error
	if c.Secret, err = readSecret(a.cfg.ClusterSecretFile); err != nil {
		return nil, err
	}
	if a.cfg.ClusterTLSCert == "" {
		if host, _, _ := net.SplitHostPort(addr); host == "localhost" || net.ParseIP(host).IsLoopback() {
			return c, nil
		}
		a.log.Warn("nodes talk in the clear, the secret included: set cluster_tls_cert, cluster_tls_key and cluster_tls_ca unless nobody else is on that network", "cluster_addr", addr)
		return c, nil
	}
	c.TLS = a.nodeTLS
	return c, nil
}

// bootLen is how many random characters name a start: 40 bits.
const bootLen = 8

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

// node names this node among others and in presence.
func (a *App) node() string {
	if a.cfg.Node != "" {
		return a.cfg.Node
	}
	return hostname()
}

// roll lists the boots of nodes that the store knows to live.
type roll func(context.Context) ([]string, error)

// Alive implements cluster.Roll.
func (r roll) Alive(ctx context.Context) ([]string, error) { return r(ctx) }

// ledger is a roll that also knows nodes that were lost.
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

// forgetNode takes a node off the list that was lost for good.
func (a *App) forgetNode(ctx context.Context, node string) error {
	if a.stores.Forget == nil || a.cluster == nil {
		return fmt.Errorf("node %s is not missing, since there is only this one: %w", node, mailbox.ErrNotFound)
	}
	if err := a.stores.Forget(ctx, node); err != nil {
		if errors.Is(err, store.ErrLives) {
			return problem.BadInput.With("node " + node + " lives: stop it first").In("node")
		}
		return err
	}
	a.cluster.Forgotten(node)
	return nil
}

// why says why a node is missing.
func (a *App) why(n *cluster.Node) string {
	if n.Why == cluster.WhyNeverHeard && a.bus.SecretDiffers() {
		return "it lives, since it renews its lease in the database, but nodes refuse each other: its cluster_secret_file differs from that of this node"
	}
	return n.Why.String()
}

// startCluster joins sessions of several nodes. Those of this node are to take part with Join.
func (a *App) startCluster() (err error) {
	cfg := cluster.Config{
		Open: a.line(bus.Mailboxes),
		Node: a.node(), Boot: a.boot, Version: a.opts.Version, Roll: ledger{a.stores.Alive, a.stores.Members}, Now: a.clock, Taken: a.fail, Log: a.log,
	}
	if a.stores.Reach != nil {
		cfg.Heard, cfg.Steady = a.stores.Reach.Heard, a.stores.Reach.Steady
	}
	a.cluster, err = cluster.New(cfg)
	if err == nil {
		a.registry.MustRegister(a.cluster)
	}
	return err
}

// line opens one of the lines between nodes.
func (a *App) line(name string) cluster.Opener {
	return func(got func(string, []byte), lost func()) (cluster.Line, error) {
		return a.bus.Line(name, bus.LineConfig{Got: got, Lost: lost})
	}
}

// A question that nodes ask each other beside those of package cluster.
const (
	whatForward    = "forward"
	forwardAtOnce  = 1024 // polls that wait, most of them
	forwardedLasts = 2 * time.Minute
)

// forwarder carries posts and polls to the node of their session; nil: it is alone.
func (a *App) forwarder() *gateway.Forwarder {
	if a.cluster == nil {
		return nil
	}
	return &gateway.Forwarder{Node: a.boot, Ask: func(ctx context.Context, node string, request any) (json.RawMessage, error) {
		return a.cluster.AskOne(ctx, node, whatForward, request)
	}}
}

// serveForwarded carries out what other nodes forward.
func (a *App) serveForwarded(handlers map[string]http.Handler) {
	if a.cluster == nil {
		return
	}
	a.cluster.Answer(whatForward, forwardedLasts, forwardAtOnce, func(ctx context.Context, request json.RawMessage) (any, error) {
		return gateway.Serve(ctx, handlers, request)
	})
}

// sessions is what the API asks about live sessions: those of all nodes.
func (a *App) sessions() httpapi.Presence {
	if a.cluster != nil {
		return a.cluster
	}
	return a.hub
}

// view is what this node knows of the others.
func (a *App) view(ctx context.Context) (v operator.ClusterView, err error) {
	if a.stores.Owned != nil {
		owned, err := a.stores.Owned(ctx)
		if err != nil {
			a.log.Warn("who owns what cannot be read", "error", err) // the nodes are shown all the same
		}
		for _, o := range owned {
			v.Leases = append(v.Leases, operator.LeaseView{Name: o.Name, Holder: o.Node, Until: call.Moment(o.Until)})
		}
	}
	if a.cluster == nil {
		return v, nil
	}
	v.Nodes = append(v.Nodes, operator.NodeView{State: "self", Boot: a.boot})
	for _, n := range a.cluster.Nodes() {
		state, why := "alive", ""
		switch {
		case n.Missing:
			state, why = "missing", a.why(&n)
		case n.Drains:
			state = "draining"
		}
		v.Nodes = append(v.Nodes, operator.NodeView{
			Name: n.Name, Boot: n.Boot, Version: n.Version, State: state, Sessions: n.Sessions, UptimeS: n.Up.Seconds(),
			ClockOffsetMS: n.Offset.Milliseconds(), HeardAgoMS: n.Heard.Milliseconds(), Why: why,
		})
	}
	routes, _ := a.bus.Routes()
	for _, r := range routes {
		_, boot, _ := strings.Cut(r.Name, "/")
		v.Routes = append(v.Routes, operator.RouteView{
			Boot: boot, Address: r.Addr, OutBytes: r.Traffic[0], InBytes: r.Traffic[1], PendingBytes: int64(r.Pending),
		})
	}
	return v, nil
}
