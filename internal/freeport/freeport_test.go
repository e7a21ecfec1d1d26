package freeport_test

import (
	"net"
	"testing"

	"godwit.dev/godwit/internal/freeport"
)

func TestAFreePortCanBeListenedAtAgainAndAgain(t *testing.T) {
	addr, err := freeport.Loopback(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
