package reactor

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"syscall"

	"godwit.dev/godwit/internal/engine/reactor/http1"
)

// Released is a connection that has left the reactor.
type Released struct {
	net.Conn
	rest []byte // was read before; comes first
	// Judge checks the bytes that are read.
	Judge http1.Judge

	mu    sync.Mutex
	leave func() // nil after the connection was closed or adopted
}

var _ Counted = (*Released)(nil)

// CanRelease reports whether connections can leave the reactor. The goroutine driver cannot release them, since a goroutine waits on each.
func (r *Reactor) CanRelease() bool { return r.cfg.Driver == DriverEpoll }

// Release ends the reactor's part in a plain connection and returns it as it is, for package net: whoever reads it gets
// first what was kept, or unread where the handler calls it within Data. It is called by the handler, which gets no more calls,
// not even Closed. Nothing may be queued.
func (c *Conn) Release(unread []byte) (net.Conn, error) {
	if unread == nil {
		unread = c.in
	}
	c.mu.Lock()
	c.release()
	if c.state&(dead|closing|deaf) != 0 || c.out != nil || c.tls != nil {
		c.mu.Unlock()
		return nil, errors.New("release a connection: it is closing, queueing or over TLS")
	}
	nc, err := c.loop.poll.release(c)
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	c.state |= dead | finished
	c.loop.wheel.Stop(&c.timer)
	r := &Released{Conn: nc, rest: bytes.Clone(unread), leave: c.gone}
	c.gone = nil
	c.mu.Unlock()
	c.loop.remove(c)
	c.loop.r.conns.Add(-1)
	c.h = nil
	return r, nil
}

// Read implements net.Conn.
func (r *Released) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		n, err := r.Conn.Read(b)
		r.Judge.Saw(b[:n])
		return n, err // the error of the wrapped net.Conn, unchanged
	}
	n := copy(b, r.rest)
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		r.rest = nil
	}
	r.Judge.Saw(b[:n])
	return n, nil
}

// Close implements net.Conn.
func (r *Released) Close() error {
	if leave := r.Handover(); leave != nil {
		defer leave()
	}
	return r.Conn.Close()
}

// Handover implements Counted.
func (r *Released) Handover() (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	leave, r.leave = r.leave, nil
	return leave
}

// SyscallConn gives access to the descriptor, so that the connection can be adopted again.
func (r *Released) SyscallConn() (syscall.RawConn, error) {
	sc, ok := r.Conn.(syscall.Conn)
	if !ok {
		return nil, syscall.EINVAL
	}
	return sc.SyscallConn()
}
