// Package narrow makes tests' client connections with small receive buffers, so that a server's writes to them soon block.
package narrow

import (
	"errors"
	"net"
	"syscall"
)

// buffer is the smallest size that every kernel honours.
const buffer = 4096

// Dialer returns a dialer whose connections buffer few unread bytes.
func Dialer() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error { return Control(c) }}
}

// Control sets a small receive buffer on a socket that is not connected yet.
func Control(c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, buffer)
	})
	return errors.Join(err, failed)
}
