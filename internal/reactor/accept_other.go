//go:build !linux

package reactor

import (
	"fmt"
	"net"
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
