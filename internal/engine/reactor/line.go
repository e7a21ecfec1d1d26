package reactor

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Bytes that the kernel has accepted do not show that the peer is alive: if the peer's machine or network is lost, the kernel's buffer
// still accepts megabytes, and reports no error for a quarter of an hour. Bytes that the peer's TCP has acknowledged do show it. The kernel
// counts them anyway, so asking costs a system call and no memory. (TCP_USER_TIMEOUT would end such connections, too, but by the kernel's
// retransmission timers, not within a session's heartbeats; and a peer that reads slowly counts as alive as long as it accepts something
// now and then.)

// Acked returns the number of bytes that the peer has acknowledged, modulo 2^32, and whether these are all. If the system does not count
// acknowledgements, all bytes that have left the queue count.
func (c *Conn) Acked() (count uint32, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state&(dead|finished) != 0 {
		return 0, false
	}
	count, all = c.sysAcked()
	return count, all && c.out == nil
}

// Line is a connection of net/http, for callers that need to know how many of the written bytes its peer has received.
type Line struct {
	raw syscall.RawConn
	sw  *switchConn // nil: the connection did not come through Listener
}

type lineKey struct{}

// ConnContext is for an http.Server: it enables LineOf to find a request's connection.
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

// Acked is like Conn.Acked; ok reports whether the connection is still open.
func (l *Line) Acked() (count uint32, all, ok bool) {
	err := l.raw.Control(func(fd uintptr) { count, all = acked(int(fd)) })
	return count, all, err == nil
}

// Taken returns the number of bytes received from the peer; 0: unknown. A peer that sends another request has read the answers before it.
func (l *Line) Taken() uint64 {
	if l.sw == nil {
		return 0
	}
	return l.sw.taken.Load()
}

// Reset reports whether the peer has reset the connection, or has closed it before all bytes had arrived. A peer that has read everything
// closes its connection only afterwards.
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

// peerLeft returns false for both if this side has closed the connection.
func (l *Line) peerLeft() (closed, lost bool) {
	_ = l.raw.Control(func(fd uintptr) { closed, lost = peerLeft(int(fd)) })
	return closed, lost
}

// noteReset records whether an error means that the peer has reset the connection.
func (s *switchConn) noteReset(err error) {
	if err != nil && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ETIMEDOUT)) {
		s.reset.Store(true)
	}
}
