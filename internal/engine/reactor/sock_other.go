//go:build !unix

package reactor

import (
	"fmt"
	"net"
	"slices"
	"syscall"
)

// newSock takes over nc for the goroutine driver.
func newSock(nc net.Conn) (*sock, int32, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, -1, fmt.Errorf("cannot take over a %T: it has no descriptor", nc)
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil, -1, fmt.Errorf("take over a connection: %w", err)
	}
	return &sock{nc: nc, rc: rc}, -1, nil
}

// read parks until there is input and only then takes a buffer. It waits with a read of 0 bytes, which Windows completes when input has
// arrived.
func (s *sock) read() (*scratch, int, error) {
	waited := false
	err := s.rc.Read(func(uintptr) bool {
		done := waited
		waited = true
		return done
	})
	if err != nil {
		return nil, 0, fmt.Errorf("wait for input: %w", err)
	}
	buf, _ := scratches.Get().(*scratch)
	n, err := s.nc.Read(buf.raw[headroom:])
	return buf, n, err // io.EOF keeps its meaning
}

// flush sends the queue. It blocks its own goroutine: these systems have no non-blocking write.
func (s *sock) flush(c *Conn) error {
	c.mu.Lock()
	if !c.wantsOutput() {
		c.mu.Unlock()
		return nil
	}
	bufs := net.Buffers(slices.Clone(c.out.bufs))
	c.mu.Unlock()
	n, err := bufs.WriteTo(s.nc)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out != nil {
		c.sent(int(n))
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// Every write is queued and sent by the flushing goroutine.
func (c *Conn) sysWrite(_, _ []byte) (int, error) { return 0, errAgain }

func (c *Conn) sysWritev(_ [][]byte) (int, error) { return 0, errAgain }

func (c *Conn) shutdownWrite() {
	if w, ok := c.sock.nc.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
}
