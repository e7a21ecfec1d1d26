package quicgate_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// relay is a network between one client and the server: a NAT whose mapping can change, and a path that drops large packets.
type relay struct {
	front  *net.UDPConn // towards the client
	server *net.UDPAddr
	most   atomic.Int64 // bytes of a packet, of UDP's payload; 0: any

	mu     sync.Mutex
	back   *net.UDPConn // towards the server
	client net.Addr
}

func newRelay(t testing.TB, server string) *relay {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	front, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{front: front, server: to}
	r.rebind(t)
	ended := make(chan struct{})
	go func() { defer close(ended); r.out() }()
	t.Cleanup(func() {
		_ = front.Close()
		<-ended
		r.mu.Lock()
		defer r.mu.Unlock()
		_ = r.back.Close()
	})
	return r
}

func (r *relay) addr() string { return r.front.LocalAddr().String() }

// rebind gives the client another port towards the server.
func (r *relay) rebind(t testing.TB) {
	back, err := net.DialUDP("udp", nil, r.server)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.back != nil {
		_ = r.back.Close()
	}
	r.back = back
	go r.in(back) // ends with the socket
}

func (r *relay) fits(n int) bool {
	most := int(r.most.Load())
	return most == 0 || n <= most
}

func (r *relay) out() {
	b := make([]byte, 64<<10)
	for {
		n, from, err := r.front.ReadFrom(b)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.client = from
		if r.fits(n) {
			_, _ = r.back.Write(b[:n]) // a packet may be lost
		}
		r.mu.Unlock()
	}
}

func (r *relay) in(back *net.UDPConn) {
	b := make([]byte, 64<<10)
	for {
		n, err := back.Read(b)
		if err != nil {
			return
		}
		r.mu.Lock()
		to := r.client
		r.mu.Unlock()
		if to != nil && r.fits(n) {
			_, _ = r.front.WriteTo(b[:n], to) // a packet may be lost
		}
	}
}
