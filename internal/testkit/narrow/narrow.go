// Package narrow connects tests as clients that hardly take anything: what a server writes to them waits there.
package narrow

import (
	"errors"
	"net"
	"syscall"
)

// buffer is the least for which every kernel keeps to what it was asked.
const buffer = 4096

// Dialer returns a dialer whose connections take few bytes that nobody reads.
func Dialer() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error { return Control(c) }}
}

// Control makes a socket that is not connected yet take few bytes that nobody reads.
func Control(c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, buffer)
	})
	return errors.Join(err, failed)
}
