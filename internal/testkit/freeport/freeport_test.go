package freeport_test

import (
	"errors"
	"net"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"godwit.dev/godwit/internal/testkit/freeport"
)

func TestAFreePortCanBeListenedAtAgainAndAgain(t *testing.T) {
	addr, release, err := freeport.Loopback(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for range 3 {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPortsInARowAreFreeAndGivenToOne(t *testing.T) {
	first, release, err := freeport.Row(t.Context(), 24)
	if err != nil {
		t.Fatal(err)
	}
	for port := first; port < first+24; port++ {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		ln.Close()
		if _, _, err := freeport.Try(t.Context(), addr); runtime.GOOS == "linux" && !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s was given to two: %v", addr, err)
		}
	}
	release()
}

// TestAPortIsGivenToOneUntilItIsReleased checks that a port stays reserved also while its server is down.
func TestAPortIsGivenToOneUntilItIsReleased(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("ports are not reserved here")
	}
	for range 10 {
		addr, release, err := freeport.Loopback(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if again, _, err := freeport.Try(t.Context(), addr); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s was given to two: %q, %v", addr, again, err)
		}
		release()
		if _, release, err = freeport.Try(t.Context(), addr); err == nil {
			release()
			return
		}
	}
	t.Error("ports that were released could not be taken again") // repeated above, since another process may have taken a port meanwhile
}
