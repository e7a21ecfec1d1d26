package reactor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Limits protect a listener.
type Limits struct {
	// Handshake limits the time from accept to the first byte after the TLS handshake; 0: DefaultHandshake. Bytes that the peer sends
	// meanwhile do not extend it.
	Handshake time.Duration
	// Admit decides about every peer before it uses resources; if ok is false, the connection is closed at once. leave, which may be nil,
	// is called when the connection is closed. If Admit is nil, all peers are accepted.
	Admit func(netip.Addr) (leave func(), ok bool)
	// NoFiles, which may be nil, is called for each connection that is closed because there is no free descriptor.
	NoFiles func()
}

// DefaultHandshake is long enough for a phone on a bad link.
const DefaultHandshake = 10 * time.Second

// Waits after accept has failed because descriptors or memory were exhausted.
const (
	firstBackoff = 5 * time.Millisecond
	mostBackoff  = time.Second
)

// acceptor is one running Serve.
type acceptor struct {
	r    *Reactor
	ctx  context.Context // context of this Serve call
	tls  *tls.Config
	lim  Limits
	open func(*Conn) (Handler, error)
	wg   sync.WaitGroup // handshakes
}

// Serve accepts connections on ln until ctx ends (then it returns nil) or ln fails permanently, and closes ln. If tlsConf is nil,
// connections are plain. open runs on the connection's loop before its first byte; an error rejects the connection. Connections remain open
// after Serve returns: ending it is the first step of a drain.
func (r *Reactor) Serve(ctx context.Context, ln net.Listener, tlsConf *tls.Config, lim Limits, open func(*Conn) (Handler, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	if lim.Handshake <= 0 {
		lim.Handshake = DefaultHandshake
	}
	a := &acceptor{r: r, ctx: ctx, tls: tlsConf, lim: lim, open: open}
	accept, release := a.method(ln)
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(closed)
		release()
		_ = ln.Close() // if a listener does not close, nothing can be done about it
	})
	defer func() {
		cancel()
		<-closed
		a.wg.Wait()
	}()

	spare := NewSpare()
	defer spare.Close()
	var backoff time.Duration
	for {
		err := accept()
		switch {
		case err == nil:
			backoff = 0
			spare.Restore()
			continue
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrClosed):
			return fmt.Errorf("accept on %s: %w", ln.Addr(), err)
		case errors.Is(err, syscall.ECONNABORTED), errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			if spare.Shed(ln) && a.lim.NoFiles != nil {
				a.lim.NoFiles()
			}
			if n, ok := r.admitLog.allow(time.Now()); ok {
				r.log.Warn("a connection found no descriptor", "listener", ln.Addr().String(), "error", err, "not_logged", n)
			}
			continue
		}
		backoff = min(max(2*backoff, firstBackoff), mostBackoff)
		if n, ok := r.admitLog.allow(time.Now()); ok {
			r.log.Warn("accepting connections failed; trying again", "listener", ln.Addr().String(), "error", err, "wait", backoff, "not_logged", n)
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
	}
}

// accepted takes over a connection from net.Listener.Accept.
func (a *acceptor) accepted(nc net.Conn) {
	peer := addrPort(nc.RemoteAddr())
	leave, ok := a.admit(peer)
	if !ok {
		_ = nc.Close()
		return
	}
	s := a.startup()
	if a.tls == nil {
		if err := a.r.adopt(nc, s, leave); err != nil && a.ctx.Err() == nil {
			a.refused("taking over a connection failed", peer, err)
		}
		return
	}
	a.wg.Go(func() { a.handshake(nc, peer, s, leave) })
}

// handshake runs on a goroutine of its own and blocks, because crypto/tls has no other way; it is short.
func (a *acceptor) handshake(nc net.Conn, peer netip.AddrPort, s *startup, leave func()) {
	sw := &switchConn{Conn: nc}
	session := tls.Server(sw, a.tls)
	ctx, cancel := context.WithTimeoutCause(a.ctx, a.lim.Handshake, fmt.Errorf("the TLS handshake took longer than %s", a.lim.Handshake))
	defer cancel()
	if err := session.HandshakeContext(ctx); err != nil {
		_ = nc.Close()
		left(leave)
		a.r.log.Debug("tls handshake failed", "peer", peer, "error", err)
		return
	}
	if err := a.r.adopt(session, s, leave); err != nil && a.ctx.Err() == nil {
		a.refused("taking over a connection failed", peer, err)
	}
}

// admit decides whether a peer may connect.
func (a *acceptor) admit(peer netip.AddrPort) (leave func(), ok bool) {
	if a.lim.Admit == nil {
		return nil, true
	}
	return a.lim.Admit(peer.Addr())
}

// left calls leave, unless it is nil, to report that a connection is closed.
func left(leave func()) {
	if leave != nil {
		leave()
	}
}

func (a *acceptor) refused(what string, peer netip.AddrPort, err error) {
	if n, ok := a.r.admitLog.allow(time.Now()); ok {
		a.r.log.Warn("connection not accepted", "reason", what, "peer", peer, "error", err, "not_logged", n)
	}
}

func (a *acceptor) startup() *startup {
	return &startup{open: a.open, by: a.r.now() + int64(a.lim.Handshake)}
}

// rateLog limits messages to one a second, so that a flood of refused connections does not flood the log.
type rateLog struct {
	mu      sync.Mutex
	last    time.Time
	skipped int
}

// allow reports whether to log now, and how many messages were skipped before.
func (l *rateLog) allow(now time.Time) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.last) < time.Second {
		l.skipped++
		return 0, false
	}
	skipped, l.skipped, l.last = l.skipped, 0, now
	return skipped, true
}

// addrPort returns a peer's address, with IPv4 in its plain form; the zero value if the connection is not TCP.
func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
