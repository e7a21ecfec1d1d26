//go:build unix

package reactor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// newSock takes over nc for the goroutine driver and returns its descriptor, which nc keeps open.
func newSock(nc net.Conn) (*sock, int32, error) {
	rc, err := rawConn(nc)
	if err != nil {
		return nil, -1, err
	}
	fd := int32(-1)
	if err := rc.Control(func(f uintptr) { fd = int32(f) }); err != nil { // descriptors are small
		return nil, -1, fmt.Errorf("take over a connection: %w", err)
	}
	return &sock{nc: nc, rc: rc}, fd, nil
}

func rawConn(nc net.Conn) (syscall.RawConn, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("cannot take over a %T: it has no descriptor", nc)
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("take over a connection: %w", err)
	}
	return rc, nil
}

// read parks until there is input. It takes a buffer only when it runs, so a parked connection holds no buffer.
func (s *sock) read() (*scratch, int, error) {
	var (
		buf *scratch
		n   int
		bad error
	)
	err := s.rc.Read(func(fd uintptr) bool {
		buf, _ = scratches.Get().(*scratch)
		n, bad = unix.Read(int(fd), buf.raw[headroom:])
		if errors.Is(bad, unix.EAGAIN) || errors.Is(bad, unix.EINTR) {
			scratches.Put(buf)
			buf, n, bad = nil, 0, nil
			return false
		}
		return true
	})
	switch {
	case err != nil:
		return buf, 0, fmt.Errorf("wait for input: %w", err)
	case bad != nil:
		return buf, 0, os.NewSyscallError("read", bad)
	case n == 0:
		return buf, 0, errEOF
	}
	return buf, n, nil
}

// flush waits until the socket accepts bytes, and sends as many as it accepts.
func (s *sock) flush(c *Conn) error {
	err := s.rc.Write(func(uintptr) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.flush()
	})
	if err != nil {
		return fmt.Errorf("wait for room to write: %w", err)
	}
	return nil
}

// sysWrite sends head and tail without blocking. c.mu is held, which keeps the descriptor open.
func (c *Conn) sysWrite(head, tail []byte) (int, error) {
	return sysSend(c.fd, head, tail)
}

func (c *Conn) sysWritev(bufs [][]byte) (int, error) { return sysWritev(c.fd, bufs) }

func (c *Conn) shutdownWrite() { _ = unix.Shutdown(int(c.fd), unix.SHUT_WR) }
