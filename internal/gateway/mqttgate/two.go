package mqttgate

import (
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/topic"
)

// A message at QoS 2 reaches a client once: PUBREC says that the client has it, PUBREL that it is not sent again, and PUBCOMP that the client knows that.
// Only PUBCOMP settles it in its mailbox. Packets on their way to a session that outlasts its connection are remembered here. So a client that
// comes back gets the same packet again, or if it has that its PUBREL. It is remembered after PUBCOMP, too, because the mailbox may offer a message again until
// the acknowledgement is stored. A crash of the server forgets it all, and the message may come twice.

const maxSent = 256 // packets that are remembered for a session, most of which are over

// sentTwo are the packets of QoS 2 on their way to a session's client. A nil one has none.
type sentTwo struct {
	mu   sync.Mutex
	list []sentPacket
}

// sentPacket is a packet of QoS 2.
type sentPacket struct {
	packet   uint16
	id       string // of its notification
	released bool   // its PUBREC has come
	over     bool   // its PUBCOMP has come
	expires  time.Time
}

// add notes a packet that was sent.
func (s *sentTwo) add(p sentPacket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) >= maxSent {
		s.list = slices.Delete(s.list, 0, len(s.list)-maxSent+1)
	}
	s.list = append(s.list, p)
}

// find returns the packet of a notification.
func (s *sentTwo) find(id []byte) (p sentPacket, was bool) {
	if s == nil {
		return p, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.list {
		if p.id == string(id) {
			return p, true
		}
	}
	return p, false
}

// holds reports whether a packet id is taken.
func (s *sentTwo) holds(packet uint16) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.list, func(p sentPacket) bool { return p.packet == packet && !p.over })
}

// release notes that the client has a packet. over: it knows that the packet does not come again.
func (s *sentTwo) release(packet uint16, over bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.list {
		if p := &s.list[i]; p.packet == packet && !p.over {
			p.released, p.over = true, over
		}
	}
}

// overdue forgets the packets whose messages have expired, which do not come again, and returns those that the client has: they want a PUBREL all the same.
func (s *sentTwo) overdue(now time.Time) (released []uint16) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(p sentPacket) bool {
		over := !p.expires.After(now)
		if over && p.released && !p.over {
			released = append(released, p.packet)
		}
		return over
	})
	return released
}

// sentBefore returns the packet at QoS 2 in which a message was sent before. m may be nil.
func (m *extra) sentBefore(n *note) (p sentPacket, was bool) {
	if m == nil {
		return p, false
	}
	return m.sent.find(n.id)
}

// wantsTwo reports whether the client follows a topic that waits at QoS 2. m may be nil.
func (m *extra) wantsTwo(name string) bool {
	if m == nil || m.queue == nil || len(m.queue.two) == 0 {
		return false
	}
	name = toTopic(name)
	for _, patterns := range m.queue.two {
		if slices.ContainsFunc(patterns, func(p string) bool { return topic.Match(p, name) }) {
			return true
		}
	}
	return false
}

// releaseOverdue sends the PUBREL of packets whose messages have expired since the client has taken them.
func (c *conn) releaseOverdue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more == nil {
		return
	}
	for _, packet := range c.more.sent.overdue(c.gate.cfg.Now()) {
		c.sendRelease(flying{packet: packet, settled: true})
	}
}

// sendRelease sends the PUBREL of a packet of an earlier connection. c.mu is held.
func (c *conn) sendRelease(f flying) bool {
	if !c.write(wire.AppendAck(nil, c.version(), wire.PUBREL, f.packet, wire.Success, nil), nil) {
		return false
	}
	f.two, f.released = true, true
	c.fly(f)
	return true
}

// recorded handles a PUBREC packet.
func (c *conn) recorded(p wire.Packet, in *input) error {
	a := &in.ack
	if err := a.Decode(c.version(), p); err != nil {
		return err // a *wire.Error
	}
	c.sess.Alive()
	if a.Reason.Failed() { // the client does not want it, which settles it (section 4.3.3)
		return c.over(a.ID, wire.PUBREC, in)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	reason := wire.PacketIDNotFound // the client is told that it can forget the packet
	if i := c.flown(a.ID); i >= 0 {
		if !c.more.flight[i].two { // the client answers with a packet of this id that it has from before a crash: it forgets it, and comes again for this one
			c.write(wire.AppendAck(nil, c.version(), wire.PUBREL, a.ID, wire.Success, nil), nil)
			return broken(wire.ProtocolError, "PUBREC for a message at QoS 1")
		}
		c.more.flight[i].released = true
		c.more.sent.release(a.ID, false)
		reason = wire.Success
	}
	c.write(wire.AppendAck(nil, c.version(), wire.PUBREL, a.ID, reason, nil), nil)
	return nil
}

// completed handles a PUBCOMP packet.
func (c *conn) completed(p wire.Packet, in *input) error {
	a := &in.ack
	if err := a.Decode(c.version(), p); err != nil {
		return err // a *wire.Error
	}
	c.sess.Alive()
	return c.over(a.ID, wire.PUBCOMP, in)
}

// over ends a packet of QoS 2.
func (c *conn) over(packet uint16, by wire.Type, in *input) error {
	f, was, full, err := c.land(packet, by)
	if err != nil || !was {
		return err
	}
	if f.kept {
		c.landed(&f, in)
	}
	c.refill(full)
	return nil
}
