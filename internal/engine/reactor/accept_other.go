//go:build !linux

package reactor

import (
	"fmt"
	"net"
	"net/netip"
)

func (a *acceptor) method(ln net.Listener) (accept func() error, release func()) {
	return func() error {
		nc, err := ln.Accept()
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		a.accepted(nc)
		return nil
	}, func() {}
}

func (r *Reactor) take(c *Conn, nc net.Conn) error { return takeSock(c, nc) }

// peerAddr serves connections without a net.Conn, which only the epoll driver has.
func peerAddr(int32) netip.AddrPort { return netip.AddrPort{} }
