package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/testkit/narrow"
)

const (
	// perSource is how many connections leave from one loopback address: well below the 28,000 ports Linux gives to
	// one, because those of former connections linger.
	perSource = 10_000
	// sourcesPerRound keeps reconnecting clients off the ports that their former connections still occupy.
	sourcesPerRound = 25
	maxRounds       = 9

	dialTimeout = 30 * time.Second
)

// dialer opens connections for the reactor.
type dialer struct {
	r      *reactor.Reactor
	tls    *tls.Config // nil: plain
	spread bool        // over loopback addresses
	small  bool        // socket buffers that take little, for clients that do not read
}

// dial connects and hands the connection to the reactor. n is the number of the connection, round how often all of
// them were opened before.
func (d *dialer) dial(ctx context.Context, addr string, n, round int, open func(*reactor.Conn) reactor.Handler) error {
	nd := net.Dialer{Timeout: dialTimeout, Control: d.control}
	if d.spread {
		nd.LocalAddr = &net.TCPAddr{IP: source(n, round)}
	}
	raw, err := nd.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	conn := raw
	if d.tls != nil {
		if conn, err = d.handshake(ctx, raw); err != nil {
			raw.Close()
			return err
		}
	}
	return d.r.Adopt(conn, nil, open)
}

// source is the loopback address that connection n leaves from.
func source(n, round int) net.IP {
	k := (round%maxRounds)*sourcesPerRound + n/perSource%sourcesPerRound
	return net.IPv4(127, 0, 1, byte(1+k))
}

func (d *dialer) control(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		if d.spread {
			failed = shareports(fd)
		}
	})
	if d.small {
		err = errors.Join(err, narrow.Control(c))
	}
	return errors.Join(err, failed)
}

// handshake starts TLS in a form that the reactor can take over.
func (d *dialer) handshake(ctx context.Context, raw net.Conn) (net.Conn, error) {
	below, err := reactor.Listener(&oneConn{conn: raw}).Accept()
	if err != nil {
		return nil, err
	}
	conn := tls.Client(below, d.tls)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return conn, nil
}

// oneConn is a listener that has accepted one connection already.
type oneConn struct {
	net.Listener
	conn net.Conn
}

func (l *oneConn) Accept() (net.Conn, error) { return l.conn, nil }
