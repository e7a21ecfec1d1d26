package reactor

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Bytes that the kernel took are no sign of a peer's life: a peer whose machine or network is gone leaves room for
// megabytes of them in the kernel's buffer, and nothing tells for a quarter of an hour. Bytes that the peer's TCP has
// acknowledged are one. The kernel counts them anyway, so that asking costs a system call and no memory. (TCP_USER_TIMEOUT
// would end such connections too, but by the kernel's own retransmission timers, not within a session's heartbeats; and a
// peer that only does not read is alive as long as it takes something now and then.)

// Acked returns how many bytes the peer has acknowledged, modulo 2^32, and whether these are all. Where the system does
// not count acknowledgements, all bytes that have left the queue count.
func (c *Conn) Acked() (count uint32, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state&(dead|finished) != 0 {
		return 0, false
	}
	count, all = c.sysAcked()
	return count, all && c.out == nil
}

// Line is a connection of net/http, for code that asks how many of the written bytes its peer has received.
type Line struct {
	raw syscall.RawConn
	sw  *switchConn // nil: the connection did not come through Listener
}

type lineKey struct{}

// ConnContext is for an http.Server: it has LineOf find the connection of a request.
func ConnContext(ctx context.Context, nc net.Conn) context.Context {
	l := &Line{}
	for below := nc; below != nil; {
		if sw, ok := below.(*switchConn); ok {
			l.sw = sw
		}
		if raw, ok := below.(syscall.Conn); ok {
			l.raw, _ = raw.SyscallConn()
			break
		}
		over, ok := below.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		below = over.NetConn()
	}
	if l.raw == nil {
		return ctx
	}
	if l.sw != nil {
		l.sw.line.Store(l)
	}
	return context.WithValue(ctx, lineKey{}, l)
}

// LineOf returns the connection of a request; nil: unknown.
func LineOf(ctx context.Context) *Line {
	l, _ := ctx.Value(lineKey{}).(*Line)
	return l
}

// Acked is as Conn's. ok: the connection is still open.
func (l *Line) Acked() (count uint32, all, ok bool) {
	err := l.raw.Control(func(fd uintptr) { count, all = acked(int(fd)) })
	return count, all, err == nil
}

// Taken is the number of bytes received from the peer. A peer that sends a further request has read the answers before it. 0:
// unknown.
func (l *Line) Taken() uint64 {
	if l.sw == nil {
		return 0
	}
	return l.sw.taken.Load()
}

// Reset reports a connection that the peer has reset, or has closed before all bytes had arrived. A peer that has read
// everything closes its connection afterwards.
func (l *Line) Reset() bool {
	if l.sw != nil && l.sw.reset.Load() {
		return true
	}
	_, lost := l.peerLeft()
	return lost
}

// PeerLeft reports whether the peer has closed the connection, which net/http may not have noticed yet.
func (l *Line) PeerLeft() bool {
	closed, _ := l.peerLeft()
	return closed
}

// peerLeft says nothing of a connection that this side has closed.
func (l *Line) peerLeft() (closed, lost bool) {
	_ = l.raw.Control(func(fd uintptr) { closed, lost = peerLeft(int(fd)) })
	return closed, lost
}

// noteReset remembers that the peer has broken the connection off.
func (s *switchConn) noteReset(err error) {
	if err != nil && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ETIMEDOUT)) {
		s.reset.Store(true)
	}
}
