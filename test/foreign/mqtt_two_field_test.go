package foreign

import (
	"bytes"
	"fmt"
	"testing"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/test/blackbox"
)

// TestMQTTFieldCasesOfQoS2 tries faults of QoS 2, of windows and of subscriptions that people reported of other brokers, which docs/field-cases.md names.
func TestMQTTFieldCasesOfQoS2(t *testing.T) {
	server := keeping(t, []string{"--mqtt-qos2"}, "jobs.>")
	for name, test := range map[string]func(*testing.T, *blackbox.Server){
		"what was under way at QoS 2 goes on at the next connection": goesOn,
		"a message that comes again and again is published once":     repeatedPublish,
		"a PUBREL that follows a reconnect is answered":              releasedLater,
		"messages beyond the window come as it empties":              beyondTheWindow,
		"a follower at QoS 0 gets messages of every QoS":             lowFollower,
		"messages of a queue have the identifier":                    identifiedQueue,
		"after a kill, packets of before are released":               releasedAfterAKill,
		"after a kill, no packet of before stands in the way":        stalePacket,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

// answer sends an acknowledgement.
func (c *talker) answer(of wire.Type, id uint16) {
	c.write(wire.AppendAck(nil, wire.V5, of, id, wire.Success, nil))
}

// answered reads an acknowledgement.
func (c *talker) answered(of wire.Type, id uint16, want wire.Reason) {
	c.t.Helper()
	var a wire.Ack
	if err := a.Decode(wire.V5, c.want(of)); err != nil || a.ID != id || a.Reason != want {
		c.t.Fatalf("%s: %+v, %v; want packet %d and %#x", of, a, err, id, byte(want))
	}
}

// send sends a message with packet id 9 and waits for nothing.
func (c *talker) send(qos byte, topic, payload string, dup bool) {
	h := wire.Head{QoS: qos, ID: 9, Topic: topic, Dup: dup}
	c.write(append(wire.AppendPublish(nil, wire.V5, &h, len(payload)), payload...))
}

// tellTwo publishes at QoS 2, to the end.
func (c *talker) tellTwo(topic, payload string) {
	c.t.Helper()
	c.send(2, topic, payload, false)
	c.answered(wire.PUBREC, 9, wire.Success)
	c.answer(wire.PUBREL, 9)
	c.answered(wire.PUBCOMP, 9, wire.Success)
}

// take acknowledges a message at QoS 2.
func (c *talker) take(m *wire.Publish) {
	c.t.Helper()
	c.answer(wire.PUBREC, m.ID)
	c.answered(wire.PUBREL, m.ID, wire.Success)
	c.answer(wire.PUBCOMP, m.ID)
}

func goesOn(t *testing.T, server *blackbox.Server) {
	p, c := greet(t, server, "publisher", 0), greet(t, server, "goes-on", 3600)
	c.subscribe(2, 2, "jobs/on")
	p.tellTwo("jobs/on", "one")
	p.tellTwo("jobs/on", "two")
	one, two := c.message("one"), c.message("two")
	c.answer(wire.PUBREC, one.ID)
	c.answered(wire.PUBREL, one.ID, wire.Success)
	_ = c.nc.Close()
	c = greet(t, server, "goes-on", 3600)
	c.answered(wire.PUBREL, one.ID, wire.Success)
	if m := c.message("two"); m.ID != two.ID || !m.Dup {
		t.Errorf("packet %d comes again as %+v", two.ID, m)
	}
	c.answer(wire.PUBCOMP, one.ID)
	c.take(two)
	c.quiet() // the server has read both
	_ = c.nc.Close()
	c = greet(t, server, "goes-on", 3600)
	c.quiet()
}

func repeatedPublish(t *testing.T, server *blackbox.Server) {
	c, p := greet(t, server, "once", 0), greet(t, server, "repeats", 0)
	c.subscribe(2, 2, "again")
	for i := range 4 {
		p.send(2, "again", "once", i > 0)
		p.answered(wire.PUBREC, 9, wire.Success)
	}
	p.answer(wire.PUBREL, 9)
	p.answered(wire.PUBCOMP, 9, wire.Success)
	c.take(c.message("once"))
	c.quiet()
}

func releasedLater(t *testing.T, server *blackbox.Server) {
	c, p := greet(t, server, "later", 0), greet(t, server, "releases", 3600)
	c.subscribe(2, 2, "later")
	p.send(2, "later", "once", false)
	p.answered(wire.PUBREC, 9, wire.Success)
	_ = p.nc.Close()
	p = greet(t, server, "releases", 3600)
	p.send(2, "later", "once", true)
	p.answered(wire.PUBREC, 9, wire.Success)
	for _, want := range []wire.Reason{wire.Success, wire.PacketIDNotFound} {
		p.answer(wire.PUBREL, 9)
		p.answered(wire.PUBCOMP, 9, want)
	}
	c.take(c.message("once"))
	c.quiet()
}

func beyondTheWindow(t *testing.T, server *blackbox.Server) {
	const most, all = 3, 100
	p := greet(t, server, "publisher", 0)
	for _, expiry := range []uint32{0, 3600} {
		c := greet(t, server, fmt.Sprint("window-", expiry), expiry, wire.AppendNumber(nil, wire.ReceiveMaximum, most)...)
		c.subscribe(2, 2, "jobs/window")
		for i := range all {
			p.tellTwo("jobs/window", fmt.Sprint(i))
		}
		c.inOrder(all, most)
		c.quiet()
		_ = c.nc.Close()
	}
}

// inOrder takes messages at QoS 2, and checks their order and that never more than most are open.
func (c *talker) inOrder(all, most int) {
	c.t.Helper()
	for next, open := 0, 0; next < all || open > 0; {
		packet, err := c.next()
		if err != nil {
			c.t.Fatalf("after %d messages: %v", next, err)
		}
		switch packet.Type() {
		case wire.PUBLISH:
			var m wire.Publish
			if err := m.Decode(wire.V5, packet); err != nil || string(m.Payload) != fmt.Sprint(next) {
				c.t.Fatalf("got %s, %v as number %d", m.Payload, err, next)
			}
			next++
			if open++; open > most {
				c.t.Fatalf("%d messages are on their way", open)
			}
			c.answer(wire.PUBREC, m.ID)
		case wire.PUBREL:
			var a wire.Ack
			if err := a.Decode(wire.V5, packet); err != nil {
				c.t.Fatal(err)
			}
			open--
			c.answer(wire.PUBCOMP, a.ID)
		default:
			c.t.Fatalf("got %s", packet.Type())
		}
	}
}

func lowFollower(t *testing.T, server *blackbox.Server) {
	c, p := greet(t, server, "low", 0), greet(t, server, "publisher", 0)
	c.subscribe(0, 0, "jobs/low")
	p.tell("jobs/low", "at 1")
	p.tellTwo("jobs/low", "at 2")
	for _, want := range []string{"at 1", "at 2"} {
		if m := c.message(want); m.QoS != 0 {
			t.Errorf("%s came at QoS %d", want, m.QoS)
		}
	}
}

func identifiedQueue(t *testing.T, server *blackbox.Server) {
	c, p := greet(t, server, "identified", 0), greet(t, server, "publisher", 0)
	id := wire.AppendNumber(nil, wire.SubscriptionID, 1)
	c.write(wire.AppendSubscribe(nil, wire.V5, 7, id, wire.Filter{Name: []byte("$share/hey/identified")}))
	c.want(wire.SUBACK)
	p.tell("identified", "x")
	if packet := c.want(wire.PUBLISH); !bytes.Contains(packet.Body, append([]byte{byte(len(id))}, id...)) {
		t.Errorf("came as %x", packet.Body)
	}
}

// again kills the server and starts it.
func again(t *testing.T, server *blackbox.Server) {
	t.Helper()
	server.Kill()
	if err := server.Launch(); err != nil {
		t.Fatal(err)
	}
}

func releasedAfterAKill(t *testing.T, server *blackbox.Server) {
	p, c := greet(t, server, "publisher", 0), greet(t, server, "killed", 3600)
	c.subscribe(2, 2, "jobs/killed")
	p.tellTwo("jobs/killed", "one")
	one := c.message("one")
	again(t, server)
	c = greet(t, server, "killed", 3600)
	m := c.message("one") // the packet is forgotten, the message is not
	if m.ID != one.ID {   // ids begin anywhere
		c.answer(wire.PUBREC, one.ID)
		c.answered(wire.PUBREL, one.ID, wire.PacketIDNotFound)
		c.answer(wire.PUBCOMP, one.ID)
	}
	c.take(m)
	c.quiet()
}

func stalePacket(t *testing.T, server *blackbox.Server) {
	greet(t, server, "stale", 3600).subscribe(2, 2, "jobs/stale")
	again(t, server)
	p, c := greet(t, server, "publisher", 0), greet(t, server, "stale", 3600)
	p.tell("jobs/stale", "at 1")
	m := c.message("at 1")
	c.answer(wire.PUBREC, m.ID) // of a packet of this id that the client still has
	c.answered(wire.PUBREL, m.ID, wire.Success)
	c.want(wire.DISCONNECT)
	c = greet(t, server, "stale", 3600)
	c.acknowledge(c.message("at 1"))
	c.quiet()
}
