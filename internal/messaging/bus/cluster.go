package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
)

// Cluster configures how the server within the process connects to the servers of other nodes. Each node connects with every other one; it
// finds a node that is missing among its peers through the others.
type Cluster struct {
	Node   string      // shown in the logs of other nodes
	Boot   string      // unique to this start; empty: random
	Addr   string      // address to listen at for other nodes
	Peers  []string    // addresses of other nodes; may contain this one
	Secret string      // the same on all nodes
	TLS    *tls.Config // shows a certificate and demands one; nil: no TLS
}

// Names of the lines on which nodes exchange messages. Each line has a connection of its own between any two nodes, so that a burst on one
// line, or of topics, drops no messages of another.
const (
	Mailboxes = "~mailboxes"
	Objects   = "~objects"
)

// isOwn reports whether a name is one of the server's own accounts. No app's name has a tilde.
func isOwn(name string) bool { return name == Mailboxes || name == Objects }

// Timing of the pings that detect a silent node.
const (
	routePing   = 2 * time.Second
	routeMissed = 2
	routePool   = 3 // connections between two nodes that the topics and requests of apps share
	routesEvery = 250 * time.Millisecond
)

func newClustered(c *Cluster, log *slog.Logger) (*embedded, error) {
	e := newEmbedded()
	e.cluster, e.logger = c, newJournal(log, c.Secret)
	c.Boot = cmp.Or(c.Boot, rand.Text()[:8])
	// The server's own error does not name the reason.
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", c.Addr)
	if err != nil {
		return nil, fmt.Errorf("open cluster_addr: %w", err)
	}
	if err := ln.Close(); err != nil {
		return nil, err
	}
	opened := ln.Addr().(*net.TCPAddr) // of a listener for tcp
	if _, port, _ := net.SplitHostPort(c.Addr); port == "0" || port == "" {
		opened.Port = 0 // the server opens the port of its choice itself: if ln's port were reused, another process could take it in between
	}
	c.Addr = opened.String()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.start(); err != nil {
		return nil, err
	}
	c.Addr = e.nats.ClusterAddr().String()
	return e, nil
}

// maxBetweenNodes is the most bytes of a message on a line: a message of MaxPayload as base64 in JSON. Apps' messages stay below
// MaxPayload.
const maxBetweenNodes = 2 * MaxPayload

// join makes the server listen for other nodes and connect to them. NATS starts routes only if it also listens for clients: it does so on
// loopback, at a port that the system chooses, and no client has the secrets that Check requires.
func (c *Cluster) join(o *server.Options) {
	host, text, _ := net.SplitHostPort(c.Addr)
	port, _ := strconv.Atoi(text)
	if port == 0 {
		port = server.RANDOM_PORT
	}
	o.ServerName = c.Node + "/" + c.Boot
	o.DontListen, o.Host, o.Port = false, "127.0.0.1", server.RANDOM_PORT
	o.MaxPayload = maxBetweenNodes
	for _, name := range []string{Mailboxes, Objects} {
		o.Accounts = append(o.Accounts, server.NewAccount(name))
	}
	o.AccountResolver = elsewhere{}
	const user = "godwit"
	o.Cluster = server.ClusterOpts{
		Name: user, Host: host, Port: port, Username: user, Password: c.Secret, TLSConfig: c.TLS, NoAdvertise: true,
		PoolSize: routePool, PinnedAccounts: []string{Mailboxes, Objects}, PingInterval: routePing, MaxPingsOut: routeMissed,
		Compression: server.CompressionOpts{Mode: server.CompressionOff},
	}
	if c.TLS != nil {
		o.Cluster.TLSTimeout = dialPatience.Seconds()
	}
	for _, p := range c.Peers {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", User: url.UserPassword(user, c.Secret), Host: p})
	}
}

// elsewhere makes accounts that are unknown here resolvable, since another node may know them. The server then keeps other nodes'
// subscriptions for apps that this node does not use yet.
type elsewhere struct{}

var errElsewhere = errors.New("accounts are made where they are used")

func (elsewhere) Fetch(string) (string, error) { return "", errElsewhere }
func (elsewhere) Store(string, string) error   { return errElsewhere }
func (elsewhere) IsReadOnly() bool             { return true }
func (elsewhere) Start(*server.Server) error   { return nil }
func (elsewhere) IsTrackingUpdate() bool       { return true }
func (elsewhere) Reload() error                { return nil }
func (elsewhere) Close()                       {}

// shared returns the account of an app, whose name is the same on all nodes. The server considers an account that it learnt from another
// node expired until the account gets claims, and meanwhile drops that node's messages. The server holds no lock between making such an
// account and marking it as expired, so shared waits until an account that this node has not made is marked.
func shared(s *server.Server, app string, usable map[string]bool, pause func()) *server.Account {
	name := "app:" + app
	a, isNew := s.LookupOrRegisterAccount(name)
	if isNew || usable[app] {
		usable[app] = true
		return a
	}
	for !a.IsExpired() {
		pause()
	}
	s.UpdateAccountClaims(a, jwt.NewAccountClaims(name))
	usable[app] = true
	return a
}

// carry implements dialer.
func (e *embedded) carry(l *Line, _ *slog.Logger) (carrier, error) {
	if e.cluster == nil || !isOwn(l.name) {
		return nil, fmt.Errorf("open line %s of the message bus: the server is alone", l.name)
	}
	return connectDirectly(l, l.name, e.secret, e.dial)
}

// watch calls joined after a connection to another node was made: messages published while there was none did not arrive.
func (e *embedded) watch(stop chan struct{}, joined func()) {
	known := map[uint64]bool{}
	tick := time.NewTicker(routesEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		now, more := map[uint64]bool{}, false
		for _, r := range e.routes() {
			now[r.Rid] = true
			more = more || !known[r.Rid]
		}
		if known = now; more {
			joined()
		}
	}
}

func (e *embedded) routes() []*server.RouteInfo {
	z, err := e.nats.Routez(&server.RoutezOptions{})
	if err != nil {
		return nil
	}
	return z.Routes
}

// Route is another node to which this one is connected.
type Route struct {
	Name    string // node/boot
	Addr    string
	Traffic [2]int64 // bytes sent to it, and received from it
	Pending int      // bytes that wait to be sent to it
}

// SecretDiffers reports whether a connection between nodes was recently refused because their secrets differ.
func (b *Bus) SecretDiffers() bool {
	e, ok := b.dial.(*embedded)
	return ok && e.logger != nil && e.logger.secretDiffers()
}

// Routes lists the nodes to which this one is connected. ok is false if the bus cannot know them.
func (b *Bus) Routes() (list []Route, ok bool) {
	e, ok := b.dial.(*embedded)
	if !ok || e.cluster == nil {
		return nil, false
	}
	by := map[string]*Route{}
	for _, r := range e.routes() {
		to := by[r.RemoteName]
		if to == nil {
			to = &Route{Name: r.RemoteName, Addr: net.JoinHostPort(r.IP, strconv.Itoa(r.Port))}
			by[r.RemoteName] = to
		}
		to.Traffic[0] += r.OutBytes
		to.Traffic[1] += r.InBytes
		to.Pending += r.Pending
	}
	for _, r := range by {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Route) int { return cmp.Compare(a.Name, b.Name) })
	return list, true
}

// ClusterAddr is the address at which other nodes reach this one; empty: this node is alone.
func (b *Bus) ClusterAddr() string {
	if e, ok := b.dial.(*embedded); ok && e.cluster != nil {
		return e.cluster.Addr
	}
	return ""
}

// joined reports to all lines that they may have lost messages.
func (b *Bus) joined() {
	b.mu.RLock()
	lines := slices.Clone(b.lines)
	b.mu.RUnlock()
	for _, l := range lines {
		l.lost()
	}
}
