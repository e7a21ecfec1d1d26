package quicflood

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"

	"github.com/quic-go/quic-go"

	"godwit.dev/godwit/internal/server/certs/certstest"
	"godwit.dev/godwit/test/blackbox"
)

// TestPacketsBeginHandshakes floods a listener of quic-go, which must take the packets for handshakes.
func TestPacketsBeginHandshakes(t *testing.T) {
	cert, key, _ := certstest.Issue(t, t.TempDir(), "flooded")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	shaking, asked := make(chan struct{}, 1000), 0
	tr := &quic.Transport{
		Conn:                pc,
		VerifySourceAddress: func(net.Addr) bool { asked++; return asked%2 == 0 },
		ConnContext: func(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
			shaking <- struct{}{}
			return ctx, nil
		},
	}
	ln, err := tr.Listen(&tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h3"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(t.Context(), Config{Addr: pc.LocalAddr().String(), Sources: 5, Packets: 10 * len(kinds)})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-shaking
	blackbox.Eventually(t, "answers", func() error {
		if s := f.Sent(); s.Begun == 0 || s.Retries == 0 || s.Versions == 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	f.Close()
	if s := f.Sent(); s.Packets != int64(10*len(kinds)) || s.Worst > 3 {
		t.Errorf("%+v", s)
	}
	_ = ln.Close()
	_ = tr.Close()
}
