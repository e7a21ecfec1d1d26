package limit

import (
	"errors"
	"net/netip"
	"testing"
)

func TestConnectionsAreCountedInAllAndByAddress(t *testing.T) {
	c := NewConns(5, 2, false)
	enter := func(addr string, want error) func() {
		t.Helper()
		leave, err := c.Enter(netip.MustParseAddr(addr))
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", addr, err, want)
		}
		return leave
	}
	first := enter("192.0.2.1", nil)
	enter("192.0.2.1", nil)
	enter("192.0.2.1", ErrAddrFull)
	enter("2001:db8::1", nil)
	enter("2001:db8::2", nil)
	enter("2001:db8::3", ErrAddrFull) // a customer's network
	loop := enter("127.0.0.1", nil)
	enter("192.0.2.9", ErrFull)
	enter("127.0.0.1", ErrFull)
	loop()
	enter("192.0.2.1", ErrAddrFull)
	first()
	enter("192.0.2.1", nil)
	if n, of := c.Open(), len(c.of); n != 4 || of != 2 {
		t.Errorf("%d are counted, of %d addresses", n, of)
	}
}

func TestLoopbackIsCountedByAddressIfConfigured(t *testing.T) {
	for _, loopback := range []bool{false, true} {
		c := NewConns(100, 1, loopback)
		lo := netip.MustParseAddr("127.0.0.2")
		leave, _ := c.Enter(lo)
		if _, err := c.Enter(lo); (err != nil) != loopback {
			t.Errorf("limit loopback %t: the second connection gets %v", loopback, err)
		}
		leave()
	}
}

func TestAddressesWithoutConnectionsAreForgotten(t *testing.T) {
	c := NewConns(100, 10, true)
	for range 3 {
		leave, err := c.Enter(netip.MustParseAddr("127.0.0.2"))
		if err != nil {
			t.Fatal(err)
		}
		leave()
	}
	if len(c.of) != 0 || c.Open() != 0 {
		t.Errorf("%d addresses are kept, %d connections", len(c.of), c.Open())
	}
}
