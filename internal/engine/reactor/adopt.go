package reactor

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// Listener wraps a listener for net/http, below TLS if there is any: it makes the connections adoptable after they
// were hijacked. (A TLS session keeps writing to the net.Conn it began with, so that one must be able to change.)
func Listener(ln net.Listener) net.Listener { return switchListener{ln} }

type switchListener struct{ net.Listener }

func (l switchListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err // the error of the wrapped net.Listener, unchanged
	}
	return &switchConn{Conn: nc}, nil
}

// Adopt takes over a connection that net/http has hijacked, with the bytes net/http had read already. A TLS
// connection must have come through Listener. open makes the handler, on the connection's loop; bytes follow after
// it. The caller must not use nc any more, whether Adopt succeeds or not: on an error it is closed. A listener that
// counts its connections (Counted) learns when the adopted one is closed.
func (r *Reactor) Adopt(nc net.Conn, buffered []byte, open func(*Conn) Handler) error {
	s := &startup{
		open:     func(c *Conn) (Handler, error) { return open(c), nil },
		buffered: bytes.Clone(buffered),
	}
	return r.adopt(nc, s, nil)
}

// Counted is a connection whose listener counts it until it is closed. A connection that the reactor adopts lives on
// after this value's Close.
type Counted interface {
	net.Conn
	// Handover returns the function to call, once, when the connection is closed in its new place.
	Handover() (leave func())
}

// adopt takes nc over. It is closed if that fails.
func (r *Reactor) adopt(nc net.Conn, s *startup, leave func()) error {
	base, sw, session, err := unwrap(nc)
	if err != nil {
		_ = nc.Close()
		left(leave)
		return err
	}
	if counted, ok := base.(Counted); ok {
		leave = counted.Handover()
	}
	if back, ok := base.(*Released); ok {
		s.buffered = append(s.buffered, back.rest...)
	}
	c := newConn(r.nextLoop())
	c.start, c.gone = s, leave
	if err := r.take(c, base); err != nil {
		_ = base.Close()
		left(leave)
		return err
	}
	if session != nil {
		c.tls = &tlsLayer{conn: session, c: c}
		sw.layer.Store(c.tls)
	}
	return r.launch(c)
}

// launch gives a connection that has its descriptor to its loop.
func (r *Reactor) launch(c *Conn) error {
	r.conns.Add(1)
	if c.loop.post(c, workOpen) {
		return nil
	}
	c.loop.poll.detach(c)
	left(c.gone)
	r.conns.Add(-1)
	return ErrReactorClosed
}

// unwrap finds the connection with the descriptor, and the TLS session over it if there is one.
func unwrap(nc net.Conn) (base net.Conn, sw *switchConn, session *tls.Conn, err error) {
	session, ok := nc.(*tls.Conn)
	if !ok {
		if sw, ok = nc.(*switchConn); ok {
			return sw.Conn, nil, nil, nil
		}
		return nc, nil, nil, nil
	}
	if !session.ConnectionState().HandshakeComplete {
		return nil, nil, nil, errors.New("cannot take over a TLS connection before its handshake")
	}
	if sw, ok = session.NetConn().(*switchConn); !ok {
		return nil, nil, nil, fmt.Errorf("cannot take over TLS on a %T: accept it through reactor.Listener", session.NetConn())
	}
	return sw.Conn, sw, session, nil
}
