package lines

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/listen"
	"godwit.dev/godwit/internal/server/module"
)

// serve makes the service of the listener: each line of a connection is a frame as JSON, in both directions.
func serve(h *module.Host) func(net.Listener, *tls.Config) (listen.Service, error) {
	return func(ln net.Listener, _ *tls.Config) (listen.Service, error) {
		var conns sync.WaitGroup
		return listen.Service{
			Name: "sessions over lines",
			Run: func(context.Context) error {
				for {
					c, err := ln.Accept()
					if err != nil {
						return err
					}
					addr := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
					leave, ok := h.Gate.Admit(addr)
					if !ok || !h.Hellos.Allow(addr) {
						_ = c.Close()
						continue
					}
					conns.Go(func() {
						defer leave()
						(&conn{Conn: c, out: make(chan []byte, queued), resumed: make(chan struct{}, 1), ended: make(chan struct{})}).serve(h.Hub, session.Peer{Addr: addr})
					})
				}
			},
			Shutdown: func(context.Context) error { conns.Wait(); return nil }, // the hub has said goodbye
		}, nil
	}
}

// queued is how many frames wait for a client that reads slowly.
const queued = 64

// conn is the transport of a session.
type conn struct {
	net.Conn
	sess    *session.Session
	out     chan []byte
	resumed chan struct{}
	ended   chan struct{}
	paused  bool // of the reader's goroutine

	mu   sync.Mutex
	over bool // out and ended are closed
}

var _ session.Transport = (*conn)(nil)

func (c *conn) serve(hub *session.Hub, from session.Peer) {
	c.sess = hub.Accept(c, from)
	var writing sync.WaitGroup
	writing.Go(func() {
		defer c.Conn.Close()
		for b := range c.out {
			if _, err := c.Conn.Write(b); err != nil {
				return
			}
			c.sess.Drained()
		}
	})
	for in := bufio.NewScanner(c.Conn); in.Scan(); {
		c.frame(in.Bytes())
	}
	c.end()
	writing.Wait()
	c.sess.Closed()
}

// frame passes a client's frame on, and waits where the session wants no other before it has decided.
func (c *conn) frame(b []byte) {
	var f frame.Client
	var bad *frame.Error
	if err := frame.JSON.Decode(b, &f); errors.As(err, &bad) {
		c.sess.Bad(bad)
		return
	}
	if f.Kind == 0 {
		c.sess.Alive()
		return
	}
	c.sess.Frame(&f)
	if c.paused {
		select {
		case <-c.resumed:
		case <-c.ended:
		}
		c.paused = false
	}
}

func (c *conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.over = true
		close(c.out)
		close(c.ended)
	}
}

// Format implements session.Transport.
func (c *conn) Format() frame.Format { return frame.JSON }

// Write implements session.Transport.
func (c *conn) Write(_ frame.ServerKind, head, tail []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	select {
	case c.out <- append(slices.Concat(head, tail), '\n'):
		return true
	default:
		return false
	}
}

// Probe implements session.Transport: clients answer a frame without anything with one.
func (c *conn) Probe() { c.Write(0, []byte("{}"), nil) }

// Close implements session.Transport.
func (c *conn) Close(frame.Goodbye) { c.end() }

// Pause implements session.Transport.
func (c *conn) Pause() { c.paused = true }

// Resume implements session.Transport.
func (c *conn) Resume() { c.resumed <- struct{}{} }

// Name implements session.Transport.
func (c *conn) Name() string { return Name }
