package foreign

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// nat stands between a client and the server, and forgets on demand from which port it has sent.
type nat struct {
	inside  net.PacketConn
	server  net.Addr
	outside atomic.Pointer[net.UDPConn]
	client  atomic.Pointer[net.Addr]
}

func newNAT(t *testing.T, server string) *nat {
	t.Helper()
	inside, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, err := net.ResolveUDPAddr("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	n := &nat{inside: inside, server: addr}
	n.moves(t)
	t.Cleanup(func() {
		_ = inside.Close()
		_ = n.outside.Load().Close()
	})
	go func() {
		buf := make([]byte, 2048)
		for {
			size, from, err := inside.ReadFrom(buf)
			if err != nil {
				return
			}
			n.client.Store(&from)
			_, _ = n.outside.Load().WriteTo(buf[:size], n.server) // what is lost while the port changes is sent again
		}
	}()
	return n
}

// moves gives the client another port.
func (n *nat) moves(t *testing.T) {
	t.Helper()
	out, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 2048)
		for {
			size, err := out.Read(buf)
			if err != nil {
				return
			}
			if to := n.client.Load(); to != nil {
				_, _ = n.inside.WriteTo(buf[:size], *to)
			}
		}
	}()
	if old := n.outside.Swap(out); old != nil {
		_ = old.Close()
	}
}

// TestBrowsersKeepTheirSessionWhenTheirAddressChanges moves a page that speaks: the server learns the new address from its packets.
func TestBrowsersKeepTheirSessionWhenTheirAddressChanges(t *testing.T) {
	blackbox.Long(t)
	thorough.IfChanged(t, "internal/gateway/quicgate", "TestAioquicListens, which moves, too")
	s := startQUIC(t)
	// quic-go loses one of the client's connection IDs with each move and gets three (quic-go/quic-go#5819). Chromium has none.
	for browser, moves := range map[string]int{"chromium": 20, "firefox": 3} {
		t.Run(browser, func(t *testing.T) {
			ctx, way := timeout(t), newNAT(t, s.quic)
			p := s.opens(ctx, t, browser, pageConfig{QUIC: "https://" + way.inside.LocalAddr().String(), Recipient: browser, Speaks: true})
			p.wants(ctx, t, "subscribed")
			if over := s.over(ctx, t, browser); over != "quic" {
				t.Fatalf("the page is connected over %s", over)
			}
			for i := range moves {
				way.moves(t)
				id := fmt.Sprintf("%s-%d", browser, i)
				if err := s.api.Publish(ctx, map[string]any{"to": browser, "id": id, "title": "Hi"}); err != nil {
					t.Fatal(err)
				}
				if r := p.wants(ctx, t, "notification", "left", "fallback"); r.Why != id {
					t.Errorf("got %s, want %s", r.Why, id)
				}
			}
		})
	}
}
