package bus

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"
)

// External configures a NATS that replaces the server within the process. Its subjects contain the app, and one connection serves all apps.
type External struct {
	URL         string // nats:// nats:// or tls://, several separated by commas
	Credentials string // file with a NATS user's JWT and key; empty: none
	CA          string // PEM file with the authorities for the server's certificate; empty: the system's
	// Nodes is the name of the cluster: the same on all its nodes, and different from the names of other clusters on the same NATS. It is
	// one token of a subject; empty: no cluster.
	Nodes string

	pingEvery time.Duration // 0: pingEvery
}

// Timing of the pings that detect a silent external NATS.
const (
	pingEvery   = 5 * time.Second
	pingsMissed = 2
)

// external connects to an external NATS.
type external struct{ cfg External }

// connect implements dialer. If the NATS cannot be reached, it keeps trying: the rest of the server works without it.
func (x *external) connect(l *link, options ...nats.Option) (*nats.Conn, error) {
	return x.dial(&l.wired, options...)
}

// carry implements dialer. The external NATS decides which clients may publish here.
func (x *external) carry(l *Line, log *slog.Logger) (carrier, error) {
	if x.cfg.Nodes == "" {
		return nil, fmt.Errorf("open line %s of the message bus: that NATS joins no nodes", l.name)
	}
	return connectByLibrary(x, l, ownPrefix+x.cfg.Nodes+"."+l.name+".", log)
}

// ownPrefix begins the subjects of nodes that an external NATS connects. No app's subjects begin with it.
const ownPrefix = "_godwit."

func (x *external) dial(w *wired, options ...nats.Option) (*nats.Conn, error) {
	// Refused credentials may be corrected later: the file is read for each attempt.
	options = append(options, nats.SetCustomDialer(dialed{w}), nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort(), nats.PingInterval(cmp.Or(x.cfg.pingEvery, pingEvery)), nats.MaxPingsOutstanding(pingsMissed))
	if x.cfg.Credentials != "" {
		options = append(options, nats.UserCredentials(x.cfg.Credentials))
	}
	if x.cfg.CA != "" {
		options = append(options, nats.RootCAs(x.cfg.CA))
	}
	nc, err := nats.Connect(x.cfg.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return nc, nil
}

func (x *external) disconnected(*link) {}

// alone implements dialer. It is always false: other clients of an external NATS are unknown.
func (x *external) alone(string) bool { return false }

// served implements dialer.
func (x *external) served(string, string) bool { return true }

func (x *external) close() {}

// name returns the empty name of the only link.
func (x *external) name(string) string { return "" }

// dialed makes connections to an external NATS.
type dialed struct{ to *wired }

// dialPatience is the time limit for making a connection.
const dialPatience = 5 * time.Second

// Dial implements nats.CustomDialer.
func (d dialed) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), dialPatience, fmt.Errorf("%s did not answer in %s", address, dialPatience))
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return d.to.patiently(c), nil
}
