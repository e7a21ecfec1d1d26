package quic

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// socket is a UDP socket that can be replaced below QUIC. QUIC ends a connection when its socket fails, and a socket fails when its network
// goes away; here its packets are lost instead, until the connection has moved.
type socket struct {
	mu     sync.Mutex
	pc     net.PacketConn
	closed bool
}

func newSocket() (*socket, error) {
	pc, err := listen()
	if err != nil {
		return nil, err
	}
	return &socket{pc: pc}, nil
}

func listen() (net.PacketConn, error) {
	var lc net.ListenConfig
	return lc.ListenPacket(context.Background(), "udp", ":0")
}

func (s *socket) now() (pc net.PacketConn, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pc, s.closed
}

// swap replaces the socket: the address is new.
func (s *socket) swap() error {
	pc, err := listen()
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.pc
	s.pc = pc
	s.mu.Unlock()
	return old.Close()
}

// failedPause is the wait after a failure to read, which a lost network may repeat at once.
const failedPause = 10 * time.Millisecond

// ReadFrom implements net.PacketConn.
func (s *socket) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		pc, _ := s.now()
		n, addr, err := pc.ReadFrom(b)
		if err == nil {
			return n, addr, nil
		}
		again, closed := s.now()
		switch {
		case closed, errors.Is(err, os.ErrDeadlineExceeded) && again == pc:
			return 0, nil, err
		case again == pc:
			time.Sleep(failedPause)
		}
	}
}

// WriteTo implements net.PacketConn.
func (s *socket) WriteTo(b []byte, to net.Addr) (int, error) {
	pc, closed := s.now()
	if closed {
		return 0, net.ErrClosed
	}
	if _, err := pc.WriteTo(b, to); errors.Is(err, net.ErrClosed) {
		if pc, closed = s.now(); !closed {
			_, _ = pc.WriteTo(b, to) // a packet may be lost
		}
	}
	return len(b), nil
}

// Close implements net.PacketConn.
func (s *socket) Close() error {
	s.mu.Lock()
	s.closed = true
	pc := s.pc
	s.mu.Unlock()
	return pc.Close()
}

// SetReadBuffer and SetWriteBuffer are for QUIC, which wants large ones.
func (s *socket) SetReadBuffer(n int) error {
	if u, ok := s.udp(); ok {
		return u.SetReadBuffer(n)
	}
	return nil
}

// SetWriteBuffer sets the size of the socket's send buffer.
func (s *socket) SetWriteBuffer(n int) error {
	if u, ok := s.udp(); ok {
		return u.SetWriteBuffer(n)
	}
	return nil
}

func (s *socket) udp() (*net.UDPConn, bool) {
	pc, _ := s.now()
	u, ok := pc.(*net.UDPConn)
	return u, ok
}

// LocalAddr implements net.PacketConn.
func (s *socket) LocalAddr() net.Addr { pc, _ := s.now(); return pc.LocalAddr() }

// SetDeadline implements net.PacketConn.
func (s *socket) SetDeadline(t time.Time) error { pc, _ := s.now(); return pc.SetDeadline(t) }

// SetReadDeadline implements net.PacketConn.
func (s *socket) SetReadDeadline(t time.Time) error { pc, _ := s.now(); return pc.SetReadDeadline(t) }

// SetWriteDeadline implements net.PacketConn.
func (s *socket) SetWriteDeadline(t time.Time) error { pc, _ := s.now(); return pc.SetWriteDeadline(t) }

// lookEvery is how often the system is asked for the network in use. A look costs three system calls, and no packet.
const lookEvery = time.Second

// source returns the address from which the system would send to another. The zero value: there is no network.
func source(to *net.UDPAddr) netip.Addr {
	c, err := net.DialUDP("udp", nil, to)
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	at, _ := c.LocalAddr().(*net.UDPAddr)
	return at.AddrPort().Addr().Unmap()
}

// watch calls moved whenever the system sends from another address than before.
func watch(ctx context.Context, to *net.UDPAddr, moved func()) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := source(to)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := source(to); now.IsValid() && now != last {
			last = now
			moved()
		}
	}
}
