package reactor

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// Listener wraps a listener for net/http, below any TLS, so that the reactor can adopt its connections after they were hijacked. (A TLS
// session always writes to the net.Conn it began with, so that net.Conn must be able to switch to the reactor.)
func Listener(ln net.Listener) net.Listener { return switchListener{ln} }

type switchListener struct{ net.Listener }

func (l switchListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err // return the wrapped listener's error unchanged
	}
	return &switchConn{Conn: nc}, nil
}

// Adopt takes over a connection that net/http has hijacked, with the bytes that net/http has read already. A TLS connection must have come
// through Listener. open creates the handler on the connection's loop, before the handler gets any bytes. The caller must not use nc any
// more, even after an error, which closes it. If the listener counts its connections (Counted), it is notified when the adopted connection
// is closed.
func (r *Reactor) Adopt(nc net.Conn, buffered []byte, open func(*Conn) Handler) error {
	s := &startup{
		open:     func(c *Conn) (Handler, error) { return open(c), nil },
		buffered: bytes.Clone(buffered),
	}
	return r.adopt(nc, s, nil)
}

// Counted is a connection that its listener counts until the connection is closed. An adopted connection stays open after Close of this
// value.
type Counted interface {
	net.Conn
	// Handover returns the function to call once, when the adopted connection is closed.
	Handover() (leave func())
}

// adopt takes over nc, or closes it if that fails.
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

// launch passes a connection that has its descriptor to its loop.
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

// unwrap returns the connection that has the descriptor, and the TLS session over it if there is one.
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
