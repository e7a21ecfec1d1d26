package reactor

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keepIdle is the time after which the kernel begins to probe a silent peer. Sessions have heartbeats; the probes only find peers without
// any, and a phone's radio should not be woken more often.
const keepIdle = 5 * time.Minute

// method chooses how to accept connections. Plain TCP for epoll loops bypasses package net: the descriptor goes directly to its loop,
// without prior registration and duplication.
func (a *acceptor) method(ln net.Listener) (accept func() error, release func()) {
	if tcp, ok := ln.(*net.TCPListener); ok && a.tls == nil && a.r.cfg.Driver == DriverEpoll {
		// The RawConn of a listener cannot wait; that of a duplicate can.
		if f, err := tcp.File(); err == nil {
			if rc, err := f.SyscallConn(); err == nil {
				_ = rc.Control(func(fd uintptr) { tune(int(fd)) }) // accepted sockets inherit it
				return func() error { return a.acceptRaw(rc) }, func() { _ = f.Close() }
			}
			_ = f.Close()
		}
	}
	return func() error { return a.acceptConn(ln) }, func() {}
}

func (a *acceptor) acceptConn(ln net.Listener) error {
	nc, err := ln.Accept()
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	a.accepted(nc)
	return nil
}

// acceptRaw accepts one connection as a raw descriptor.
func (a *acceptor) acceptRaw(rc syscall.RawConn) error {
	var (
		fd  int
		sa  unix.Sockaddr
		bad error
	)
	err := rc.Read(func(lfd uintptr) bool {
		fd, sa, bad = unix.Accept4(int(lfd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return !errors.Is(bad, unix.EAGAIN)
	})
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	if bad != nil {
		return os.NewSyscallError("accept4", bad)
	}
	peer := sockaddr(sa)
	leave, ok := a.admit(peer)
	if !ok {
		_ = unix.Close(fd)
		return nil
	}
	c := newConn(a.r.nextLoop())
	c.fd, c.start, c.gone = int32(fd), a.startup(), leave // descriptors are small
	_ = a.r.launch(c)                                     // fails only when the reactor closes; then the next accept fails, too
	return nil
}

// take moves nc's socket into c.
func (r *Reactor) take(c *Conn, nc net.Conn) error {
	if r.cfg.Driver == DriverGoroutine {
		return takeSock(c, nc)
	}
	rc, err := rawConn(nc)
	if err != nil {
		return err
	}
	fd := -1
	var bad error
	err = rc.Control(func(f uintptr) {
		fd, bad = unix.FcntlInt(f, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, os.NewSyscallError("fcntl", bad)); err != nil {
		return fmt.Errorf("take over a connection: %w", err)
	}
	c.fd = int32(fd) // descriptors are small
	tune(fd)
	_ = nc.Close() // the duplicate keeps the socket, which stays non-blocking
	return nil
}

// tune sets socket options for small frames and idle peers. Errors are ignored: the socket works without these options.
func tune(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(keepIdle.Seconds()))
}

func peerAddr(fd int32) netip.AddrPort {
	sa, err := unix.Getpeername(int(fd))
	if err != nil {
		return netip.AddrPort{}
	}
	return sockaddr(sa)
}

func sockaddr(sa unix.Sockaddr) netip.AddrPort {
	switch s := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), uint16(s.Port)) // a port
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(s.Addr).Unmap(), uint16(s.Port)) // a port
	default:
		return netip.AddrPort{}
	}
}
