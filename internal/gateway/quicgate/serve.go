package quicgate

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// Serve accepts connections until ctx ends. Open ones are served until Shutdown. The socket stays open; closing it is up to the caller.
func (g *Gateway) Serve(ctx context.Context, pc net.PacketConn, conf *tls.Config) error {
	tr := g.transport(pc)
	ln, err := tr.Listen(tlsConfig(conf), g.config())
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.sockets = append(g.sockets, tr)
	g.mu.Unlock()
	defer ln.Close() // refuses handshakes under way
	for {
		c, err := ln.Accept(ctx)
		if err != nil {
			return err
		}
		g.running.Go(func() { g.serve(c) })
	}
}

// Shutdown closes connections as their sessions and requests end, and when ctx ends the rest. Serve must have returned.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	g.stopping = true
	all := make([]*line, 0, len(g.lines))
	for l := range g.lines {
		all = append(all, l)
	}
	sockets := g.sockets
	g.mu.Unlock()
	for _, l := range all {
		if !l.hadSession() { // where there was one, the connection ends soon after it, so that its close arrives
			l.quitSoon()
		}
	}
	closed := make(chan struct{})
	go func() { g.running.Wait(); close(closed) }()
	select {
	case <-closed:
	case <-ctx.Done():
		for _, l := range all {
			_ = l.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") // it is open, or closed already
		}
		<-closed
	}
	for _, tr := range sockets {
		_ = tr.Close() // nobody uses it
	}
	return nil
}

// guest is a connection from its first packet on.
type guest struct {
	mu      sync.Mutex
	shaking bool
	gone    bool
	line    *line  // set once the handshake is complete
	leave   func() // nil: not admitted
}

type guestKey struct{}

var (
	errBusy    = errors.New("too many handshakes are under way")
	errFull    = errors.New("the server has as many connections as it may")
	errRefused = errors.New("the address has as many connections as it may, or opens them too fast")
	errGone    = errors.New("the connection has ended")
)

// suspect decides whether an address must prove itself by a retry token before its handshake costs anything: every address must, above a rate.
func (g *Gateway) suspect(net.Addr) bool {
	if g.shaking.Load() < mostShaking/4 && g.retries.Allow() {
		return false
	}
	g.counts.retries.Inc()
	return true
}

// shake admits a handshake. An address that has not proved itself may be forged, so it is not charged before the handshake is complete.
func (g *Gateway) shake(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	if g.shaking.Add(1) > mostShaking {
		g.shaking.Add(-1)
		return nil, g.refuse("handshakes", errBusy)
	}
	who := &guest{shaking: true}
	if info.AddrVerified {
		if err := g.admit(who, info.RemoteAddr); err != nil {
			g.shaking.Add(-1)
			return nil, err
		}
	}
	context.AfterFunc(ctx, func() { g.left(who) })
	return context.WithValue(ctx, guestKey{}, who), nil
}

// shaken ends the handshake of a guest, and charges its address unless that was done before.
func (g *Gateway) shaken(who *guest, addr net.Addr) error {
	who.mu.Lock()
	defer who.mu.Unlock()
	if who.gone {
		return errGone
	}
	who.shaking = false
	g.shaking.Add(-1)
	if who.leave != nil {
		return nil
	}
	return g.admit(who, addr)
}

// left takes a closed connection off the counts.
func (g *Gateway) left(who *guest) {
	who.mu.Lock()
	defer who.mu.Unlock()
	who.gone = true
	if who.shaking {
		g.shaking.Add(-1)
		g.counts.refused("unfinished")
	}
	if who.leave != nil {
		who.leave()
	}
}

// admit charges a connection to the gateway and to its address.
func (g *Gateway) admit(who *guest, addr net.Addr) error {
	if g.open.Add(1) > int64(g.cfg.Most) || !g.budget.Room(lineBytes) {
		g.open.Add(-1)
		return g.refuse("full", errFull)
	}
	leave := func() {}
	if g.cfg.Admit != nil {
		var ok bool
		if leave, ok = g.cfg.Admit(addrOf(addr)); !ok {
			g.open.Add(-1)
			return g.refuse("address", errRefused)
		}
	}
	g.budget.Add(lineBytes)
	who.leave = func() {
		leave()
		g.open.Add(-1)
		g.budget.Add(-lineBytes)
	}
	return nil
}

func (g *Gateway) refuse(why string, err error) error {
	g.counts.refused(why)
	return err
}

func addrOf(a net.Addr) netip.Addr {
	if u, ok := a.(*net.UDPAddr); ok {
		return u.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// serve begins to serve a connection.
func (g *Gateway) serve(c *quic.Conn) {
	who, _ := c.Context().Value(guestKey{}).(*guest)
	if err := g.shaken(who, c.RemoteAddr()); err != nil {
		_ = c.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeExcessiveLoad), err.Error()) // the peer gets it or is gone
		return
	}
	l := &line{gate: g, conn: c, at: c.RemoteAddr(), settled: make(chan struct{})}
	who.line = l
	g.mu.Lock()
	g.lines[l] = struct{}{}
	stopping := g.stopping
	g.mu.Unlock()
	if stopping {
		l.quitIfIdle()
	}
	if l.begin() {
		g.running.Go(l.accept) // with a small stack, since it lives long
	} else {
		g.forget(l)
	}
}

func (g *Gateway) forget(l *line) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.lines, l)
}

// quitLater closes a connection whose session has ended unless its client closes it first. Until then the client's direction of the request's stream stays
// open and unread: Chromium ignores the close and its code if STOP_SENDING comes with it, or if the end of its own direction is read at once.
func (l *line) quitLater(c *conn) {
	time.AfterFunc(quitAfter, func() {
		c.wt.CancelRead(codeGone)
		l.quitIfIdle()
	})
}
