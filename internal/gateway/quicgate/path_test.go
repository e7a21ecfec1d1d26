package quicgate_test

import (
	"strings"
	"testing"

	"github.com/quic-go/quic-go"

	"godwit.dev/godwit/internal/gateway/quicgate"
)

// tunnelMTU is what a packet of a tunnel with an MTU of 1,280 bytes holds of UDP over IPv6, the least that networks of IPv6 must carry.
const tunnelMTU = 1280 - 40 - 8

// through opens a session of driver-1 through a network. The client sends packets of the least size.
func through(t *testing.T, d *door, r *relay) *client {
	t.Helper()
	wt := d.dialer()
	wt.QUICConfig = &quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true, InitialPacketSize: 1200, DisablePathMTUDiscovery: true}
	t.Cleanup(func() { _ = wt.Close() })
	_, sess, err := wt.Dial(patient(t), "https://"+r.addr()+quicgate.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sess.CloseWithError(0, "") })
	c := over(t, sess)
	if err := c.Send(t.Context(), `{"hello":{"app":"demo","recipient":"driver-1"}}`); err != nil {
		t.Fatal(err)
	}
	c.gets(t, "welcome")
	return c
}

func TestSessionBeginsThroughATunnel(t *testing.T) {
	s := start(t, quicgate.Config{})
	r := newRelay(t, doorOf(s).addr)
	r.most.Store(tunnelMTU)
	c := through(t, doorOf(s), r)
	subscribe(t, c, "news.>")
	publish(t, s, "news.a", `"`+strings.Repeat("x", 32<<10)+`"`)
	c.gets(t, "news.a")
}

// A VPN begins below a session, or a route changes: the path takes only small packets from now on, and nobody says so.
func TestSessionSurvivesAPathThatBecomesNarrow(t *testing.T) {
	s := start(t, quicgate.Config{})
	r := newRelay(t, doorOf(s).addr)
	c := through(t, doorOf(s), r)
	subscribe(t, c, "news.>")
	text := `"` + strings.Repeat("x", 32<<10) + `"`
	for range 50 { // a server that looks for larger packets has found them
		publish(t, s, "news.a", text)
		c.gets(t, "news.a")
	}
	r.most.Store(tunnelMTU)
	publish(t, s, "news.b", text)
	c.gets(t, "news.b")
}

// A NAT forgets the client's port. The session goes on at the new one from the client's next packet on.
func TestSessionSurvivesANewPortOfTheNAT(t *testing.T) {
	s := start(t, quicgate.Config{})
	r := newRelay(t, doorOf(s).addr)
	c := through(t, doorOf(s), r)
	subscribe(t, c, "news.>")
	for range 5 {
		r.rebind(t)
		if err := c.Send(t.Context(), `{"ping":{}}`); err != nil {
			t.Fatal(err)
		}
		c.gets(t, "pong")
		publish(t, s, "news.a", `"x"`)
		c.gets(t, "news.a")
	}
	if n := doorOf(s).Moves(); n == 0 {
		t.Error("no move was counted")
	}
}
