package quic

import (
	"context"
	"errors"
	"net"
	"net/url"
	"testing"
	"time"

	"go.uber.org/goleak"

	godwit "godwit.dev/godwit/clients/go"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSilenceOverUDPIsTold dials a socket that answers nothing, as behind a firewall: the client then uses a WebSocket.
func TestSilenceOverUDPIsTold(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	if _, err := Dial(t.Context(), godwit.LinkOptions{URL: url.URL{Scheme: "https", Host: pc.LocalAddr().String()}}); !errors.Is(err, godwit.ErrBlocked) {
		t.Errorf("the error is %v, want that nothing answers", err)
	}
}

func TestASocketIsReplacedBelowItsReader(t *testing.T) {
	s, err := newSocket()
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		defer close(read)
		b := make([]byte, 10)
		for {
			n, _, err := s.ReadFrom(b)
			if err != nil {
				return
			}
			read <- string(b[:n])
		}
	}()
	for _, want := range []string{"one", "two"} {
		port := s.LocalAddr().(*net.UDPAddr).Port
		c, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(want))
		if got := <-read; got != want {
			t.Errorf("read %s, want %s", got, want)
		}
		_ = c.Close()
		if err := s.swap(); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	if _, open := <-read; open {
		t.Error("the reader goes on after the end")
	}
	if n, err := s.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}); err == nil {
		t.Errorf("wrote %d bytes after the end", n)
	}
}

func TestSourceIsTheAddressTowardsTheServer(t *testing.T) {
	if at := source(&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}); !at.IsLoopback() {
		t.Errorf("the source is %v", at)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0*time.Second)
	defer cancel()
	watch(ctx, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}, func() { t.Error("the network has not changed") })
}
