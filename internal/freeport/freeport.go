// Package freeport finds addresses for servers of tests and benchmarks that are to come back at the same one.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
)

// lowest is above the ports of services that many machines run.
const lowest = 12_000

// tries is how many ports are looked at.
const tries = 100

// Loopback is an address on loopback that nobody listens at. Where it can be, it is not among those that the system gives to
// outgoing connections: while a server is down, one of these may take its port.
func Loopback(ctx context.Context) (string, error) {
	for range tries {
		addr := fmt.Sprintf("127.0.0.1:%d", port())
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("find a free port: %w", err)
		}
		addr = ln.Addr().String()
		return addr, ln.Close()
	}
	return "", fmt.Errorf("find a free port: %d were in use", tries)
}

// port is one below those of outgoing connections, or 0, which has the system choose.
func port() int {
	var from, to int
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(b), &from, &to); err != nil || from <= lowest+1000 {
		return 0
	}
	return lowest + rand.IntN(from-lowest) //nolint:gosec // no secret
}
