package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/testkit/narrow"
)

const (
	// perSource is the number of connections from one loopback address. It is well below the 28,000 ports that Linux gives to one address,
	// because ports of former connections stay occupied for a while.
	perSource = 10_000
	// sourcesPerRound is the number of addresses for each round of reconnects, so that clients do not reuse ports that their former
	// connections still occupy.
	sourcesPerRound = 25
	maxRounds       = 9

	dialTimeout = 30 * time.Second
)

// dialer opens connections for the reactor.
type dialer struct {
	r      *reactor.Reactor
	tls    *tls.Config // nil: plain
	spread bool        // over loopback addresses
	quic   bool        // over WebTransport
	small  bool        // small socket buffers, for clients that do not read
}

// dial connects and hands the connection to the reactor. n is the number of the connection, round the number of times that all connections
// were opened before.
func (d *dialer) dial(ctx context.Context, addr string, n, round int, open func(*reactor.Conn) reactor.Handler) error {
	if d.quic {
		conn, err := dialQUIC(ctx, addr)
		if err != nil {
			return err
		}
		return d.r.Adopt(conn, nil, open)
	}
	nd := net.Dialer{Timeout: dialTimeout, Control: d.control}
	if d.spread && strings.HasPrefix(addr, "127.") { // other machines cannot be reached from loopback addresses
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

// source returns the loopback address that connection n uses as its source.
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

// handshake opens a TLS connection in a form that the reactor can take over.
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

// oneConn is a listener that returns a single connection, which was accepted before.
type oneConn struct {
	net.Listener
	conn net.Conn
}

func (l *oneConn) Accept() (net.Conn, error) { return l.conn, nil }
