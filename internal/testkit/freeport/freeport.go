// Package freeport finds addresses for servers of tests and benchmarks that must restart at the same address.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
)

// lowest is the lowest port used, above the ports of common services.
const lowest = 12_000

// tries limits how many ports are tried.
const tries = 100

// Loopback returns a free loopback address. If possible, its port is outside the system's range for outgoing connections, which could
// otherwise take it while a server is down. No other call in any process returns the address until release; a process that ends releases
// all of its addresses.
func Loopback(ctx context.Context) (addr string, release func(), err error) {
	first, release, err := Row(ctx, 1)
	if err != nil {
		return "", nil, err
	}
	return at(first), release, nil
}

// Row returns the first of n consecutive ports, reserved as by Loopback.
func Row(ctx context.Context, n int) (first int, release func(), err error) {
	for range tries {
		if first, release, err = row(ctx, port(), n); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return 0, nil, fmt.Errorf("find free ports, %d in a row: %w", n, err)
	}
	return first, release, nil
}

func row(ctx context.Context, first, n int) (int, func(), error) {
	var taken []func()
	release := func() {
		for _, give := range taken {
			give()
		}
	}
	for i := range n {
		next := first
		if first > 0 {
			next += i
		}
		addr, give, err := try(ctx, next)
		if err != nil {
			release()
			return 0, nil, err
		}
		taken = append(taken, give)
		if first == 0 { // the system has chosen it
			first = int(netip.MustParseAddrPort(addr).Port())
		}
	}
	return first, release, nil
}

// try reserves a port, or any if it is 0.
func try(ctx context.Context, port int) (addr string, release func(), err error) {
	var to net.ListenConfig
	ln, err := to.Listen(ctx, "tcp", at(port))
	if err != nil {
		return "", nil, err
	}
	defer ln.Close()
	addr = ln.Addr().String()
	if runtime.GOOS != "linux" {
		return addr, func() {}, nil
	}
	// An abstract socket: its name exists as long as the socket, in the same network namespace as the port.
	mark, err := to.Listen(ctx, "unix", "@godwit-freeport-"+addr)
	if err != nil {
		return "", nil, err
	}
	return addr, func() { mark.Close() }, nil
}

func at(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// port returns a port below the range for outgoing connections, or 0, which makes the system choose.
func port() int {
	var from, to int
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(b), &from, &to); err != nil || from <= lowest+1000 {
		return 0
	}
	return lowest + rand.IntN(from-lowest) // no secret
}
