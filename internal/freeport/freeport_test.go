package freeport_test

import (
	"errors"
	"net"
	"runtime"
	"syscall"
	"testing"

	"godwit.dev/godwit/internal/freeport"
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

// TestAPortIsGivenToOneUntilItIsReleased: also while its server is down.
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
	t.Error("ports that were released could not be taken again") // one may have been another process's since
}
