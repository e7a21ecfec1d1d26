package mqttgate_test

import (
	"fmt"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/mqttgate"
	"godwit.dev/godwit/internal/gateway/mqttgate/filterdb"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
)

// acks acknowledges a packet of the server with a packet of this type.
func (p *peer) acks(t wire.Type, id uint16, r wire.Reason) {
	p.t.Helper()
	p.send(wire.AppendAck(nil, p.v, t, id, r, nil))
}

// unitBox is the mailbox of the device phone of the recipient unit.
var unitBox = filterdb.Device{App: gatetest.App, Recipient: "unit", Name: "phone"}.Mailbox()

// pendingOf waits until so many messages wait in a mailbox.
func (k *kept) pendingOf(t *testing.T, box string, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d messages wait", n), func() bool {
		r, err := k.Mailbox.Recipient(t.Context(), gatetest.App, box)
		return err == nil && int(r.Pending) == n
	})
}

// TestMessageAtQoS2ReachesADeviceOnce: whatever is lost on the way, a device that comes back gets the same packet, or its PUBREL.
func TestMessageAtQoS2ReachesADeviceOnce(t *testing.T) {
	for _, v := range []wire.Version{wire.V311, wire.V5} {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			s := keeping(t)
			hello, props := lasting(v, "unit", "phone")
			p := connect(t, s.Server, hello, props...)
			if got := p.subscribed(2, "kept/#"); got[0] != wire.GrantedQoS2 {
				t.Fatalf("granted %v", got)
			}
			ben := connect(t, s.Server, hi(v, "ben", ""))
			back := func() {
				t.Helper()
				_ = p.nc.Close()
				until(t, "its connection is gone", func() bool { return s.Hub.Live() == 1 })
				if p = connect(t, s.Server, hello, props...); !p.ack.Present {
					t.Fatal("the session is not present")
				}
			}
			for i, topic := range []string{"kept/1", "kept/2", "kept/3"} {
				ben.told([]byte{2, 2, 1}[i], topic, topic)
			}
			one, two, three := p.message("kept/1", "kept/1"), p.message("kept/2", "kept/2"), p.message("kept/3", "kept/3")
			if one.QoS != 2 || two.QoS != 2 || three.QoS != 1 || one.Dup {
				t.Errorf("came as %+v, %+v and %+v", one, two, three)
			}
			p.acks(wire.PUBREC, one.ID, wire.Success)
			p.released(one.ID)
			s.pendingOf(t, unitBox, 3) // until PUBCOMP
			for range 2 {
				back()
				p.released(one.ID)
				again := p.message("kept/2", "kept/2")
				if again.ID != two.ID || !again.Dup || again.QoS != 2 {
					t.Errorf("packet %d came again as %+v", two.ID, again)
				}
				if m := p.message("kept/3", "kept/3"); m.ID == one.ID || m.ID == two.ID || !m.Dup {
					t.Errorf("a message at QoS 1 came again as %+v", m)
				}
			}
			p.acks(wire.PUBCOMP, one.ID, wire.Success)
			p.takes(two)
			p.ping()
			back() // perhaps before that is stored
			p.takes(p.message("kept/3", "kept/3"))
			p.ping()
			s.pendingOf(t, unitBox, 0)
			ben.told(2, "kept/1", "more")
			p.takes(p.message("kept/1", "more"))
		})
	}
}

// TestDeviceTakesOverWhatWasOnItsWay: the new connection of a device has the packets of the one that hangs.
func TestDeviceTakesOverWhatWasOnItsWay(t *testing.T) {
	s := keeping(t)
	hello, props := lasting(wire.V5, "unit", "phone")
	old := connect(t, s.Server, hello, props...)
	old.subscribed(2, "kept/#")
	ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
	ben.told(2, "kept/1", "one")
	ben.told(2, "kept/1", "two")
	one, two := old.message("kept/1", "one"), old.message("kept/1", "two")
	old.acks(wire.PUBREC, one.ID, wire.Success)
	old.released(one.ID)
	p := connect(t, s.Server, hello, props...)
	p.released(one.ID)
	if m := p.message("kept/1", "two"); m.ID != two.ID || !m.Dup {
		t.Errorf("packet %d came again as %+v", two.ID, m)
	}
	p.acks(wire.PUBCOMP, one.ID, wire.Success)
	p.takes(two)
	s.pendingOf(t, unitBox, 0)
}

// TestReleasedMessageThatExpiresIsReleasedStill: a device that passes a message on at its PUBREL would otherwise keep it for ever.
func TestReleasedMessageThatExpiresIsReleasedStill(t *testing.T) {
	s := keeping(t)
	hello, props := lasting(wire.V5, "unit", "phone")
	p := connect(t, s.Server, hello, props...)
	p.subscribed(2, "kept/#")
	ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
	ben.told(2, "kept/1", "one", wire.AppendNumber(nil, wire.MessageExpiry, 1)...)
	ben.told(2, "kept/1", "two", wire.AppendNumber(nil, wire.MessageExpiry, 1)...)
	one := p.message("kept/1", "one")
	p.message("kept/1", "two")
	p.acks(wire.PUBREC, one.ID, wire.Success)
	p.released(one.ID)
	_ = ben.nc.Close()
	p.parts(s)
	s.pendingOf(t, unitBox, 0) // both have expired
	s.pass(time.Second)
	p = connect(t, s.Server, hello, props...)
	p.released(one.ID)
	p.ping()
	p.acks(wire.PUBCOMP, one.ID, wire.Success)
	p.parts(s)
	connect(t, s.Server, hello, props...).ping()
}

// TestAcknowledgementsOutOfTurn: each QoS has acknowledgements of its own. A packet that the server does not know is released, or a client that comes back
// after a crash of the server would wait for ever.
func TestAcknowledgementsOutOfTurn(t *testing.T) {
	s := keeping(t)
	hello, props := lasting(wire.V5, "unit", "phone")
	begin := func(qos byte) (*peer, uint16) {
		p := connect(t, s.Server, hello, props...)
		p.subscribed(2, "TopicA", "kept/#")
		ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
		ben.told(qos, "kept/1", "x")
		m := p.message("kept/1", "x")
		_ = ben.nc.Close()
		return p, m.ID
	}
	hello.Clean = true
	for _, c := range []struct {
		qos  byte
		with wire.Type
	}{{2, wire.PUBACK}, {2, wire.PUBCOMP}, {1, wire.PUBREC}, {1, wire.PUBCOMP}} {
		p, id := begin(c.qos)
		p.acks(c.with, id, wire.Success)
		if c.qos == 1 && c.with == wire.PUBREC { // it may hold that packet from before a crash
			p.released(id)
		}
		p.ended(wire.ProtocolError)
	}
	p, id := begin(2)
	p.acks(wire.PUBREC, id, wire.Unspecified) // refused, which settles it
	p.ping()
	s.pendingOf(t, unitBox, 0)
	p.acks(wire.PUBREC, 777, wire.Success)
	var a wire.Ack
	if err := a.Decode(p.v, p.want(wire.PUBREL)); err != nil || a.ID != 777 || a.Reason != wire.PacketIDNotFound {
		t.Errorf("an unknown packet is answered with %+v, %v", a, err)
	}
	p.acks(wire.PUBCOMP, 777, wire.Success)
	p.acks(wire.PUBACK, 778, wire.Success)
	p.ping()
}

// TestQoS2IsGrantedWhereItIsAllowed: without the setting, 1 is the highest QoS towards clients of both versions.
func TestQoS2IsGrantedWhereItIsAllowed(t *testing.T) {
	s := keeping(t, func(c *mqttgate.Config) { c.QoS2 = false })
	ben := connect(t, s.Server, hi(wire.V311, "ben", "")) // which may publish at QoS 2
	for _, v := range []wire.Version{wire.V311, wire.V5} {
		hello, props := lasting(v, "unit", "phone")
		for i, p := range []*peer{connect(t, s.Server, hello, props...), connect(t, s.Server, hi(v, "ann", ""))} {
			if got := p.subscribed(2, "kept/#"); got[0] != wire.GrantedQoS1 {
				t.Errorf("granted %v", got)
			}
			text := fmt.Sprint("to ", i, " of version ", v)
			ben.told(2, "kept/1", text)
			if m := p.heard(1)[0]; m.QoS != 1 || string(m.Payload) != text {
				t.Errorf("%s came at QoS %d", m.Payload, m.QoS)
			}
			p.send(wire.AppendUnsubscribe(nil, v, 77, "kept/#"))
			p.suback(wire.UNSUBACK)
			s.pendingOf(t, unitBox, 0)
			until(t, "nobody follows it", func() bool { return len(s.boxes("kept.1")) == 0 })
		}
	}
}
