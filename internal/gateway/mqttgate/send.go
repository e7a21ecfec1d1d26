package mqttgate

import (
	"strconv"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/notify/frame"
)

// Write implements session.Transport: it makes packets of frames.
func (c *conn) Write(k frame.ServerKind, head, tail []byte) bool {
	one, all := unpack(head, tail)
	switch k {
	case frame.ServerNotification:
		return c.notify(readNote(one, all))
	case frame.ServerMessage:
		if taken, is := c.tellAsIs(either(one, all)); is {
			return taken
		}
		return c.tell(readMessage(either(one, all)))
	case frame.ServerObject:
		return c.show(readState(either(one, all)))
	case frame.ServerRecall:
		if c.has(recalls) {
			return c.publish(&wire.Head{Topic: recallName}, either(one, all).b)
		}
	case frame.ServerInbox:
		if c.has(tallies) {
			return c.publish(&wire.Head{Topic: countsName}, either(one, all).b)
		}
	case frame.ServerWelcome:
		c.accept(readWelcome(either(one, all)))
	case frame.ServerError:
		c.caught(readError(either(one, all)))
	case frame.ServerRegistered:
		c.registered(readRegistered(either(one, all)))
	case frame.ServerRegistrationFailed:
		c.unregistered(readFailed(either(one, all)))
	case frame.ServerRequest:
		return c.asked(readRequest(either(one, all)))
	case frame.ServerPong, frame.ServerGoodbye: // PINGRESP was sent; Close follows
	}
	return true
}

// notify sends a notification to a client that has subscribed to its mailbox. Others refuse it: it waits in the mailbox.
func (c *conn) notify(n note) bool {
	flags := c.is.Load()
	if flags&(inboxOnce|inboxAcked) == 0 || flags&ended != 0 {
		return false
	}
	if n.topic != "" {
		return c.deliverKept(&n)
	}
	h := wire.Head{Topic: inboxName}
	var text [48]byte
	start := append(text[:0], `{"seq":`...)
	start = strconv.AppendUint(start, n.seq, 10)
	start = append(start, `,"attempt":`...)
	start = append(strconv.AppendUint(start, uint64(n.attempt), 10), ',')
	var props [256]byte
	if flags&five != 0 {
		h.Properties = c.idsOf(noteProperties(props[:0], &n), inboxName)
	}
	if flags&inboxOnce != 0 {
		return !c.fits(&h, len(start)+len(n.members)) || c.publishTwo(&h, start, n.members)
	}
	h.QoS, h.Dup = 1, n.attempt > 1
	c.mu.Lock()
	defer c.mu.Unlock()
	if flags&limited != 0 && uint64(h.Size(c.version(), len(start)+len(n.members))) > uint64(c.more.packet) {
		c.tooLarge(string(n.id))
		return true
	}
	if !c.room() {
		return false
	}
	h.ID = c.nextID()
	if !c.publishTwo(&h, start, n.members) {
		return false
	}
	c.fly(flying{packet: h.ID, id: string(n.id), settled: n.settled})
	return true
}

// deliverKept sends a message of a topic that waited in a mailbox.
func (c *conn) deliverKept(n *note) bool {
	h := wire.Head{Topic: n.topic, QoS: 1, Dup: n.attempt > 1}
	var props [160]byte
	if c.has(five) {
		left := max(1, min((time.Until(n.expires)+time.Second-1)/time.Second, 1<<31))
		h.Properties = wire.AppendNumber(props[:0], wire.MessageExpiry, uint32(left)) // bounded
		if n.contentType != "" {
			h.Properties = wire.AppendText(h.Properties, wire.ContentType, n.contentType)
		}
		h.Properties = c.idsOf(append(h.Properties, n.properties...), n.topic)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, again := c.more.sentBefore(n)
	switch {
	case before.over: // the acknowledgement was not stored yet, or is lost
		c.settleLater(flying{id: string(n.id), kept: true})
		return true
	case again && before.released: // the client has it
		return c.room() && c.sendRelease(flying{packet: before.packet, id: string(n.id), kept: true})
	case again || n.qos == 2 && c.more.wantsTwo(n.topic):
		h.QoS = 2
	}
	if n.topic == "" || c.has(limited) && uint64(h.Size(c.version(), len(n.payload))) > uint64(c.more.packet) {
		c.gate.counts.large.Add(1)
		c.settleLater(flying{id: string(n.id), kept: true}) // it counts as delivered (section 3.1.2.11.4)
		return true
	}
	if !c.room() {
		return false
	}
	if h.ID, h.Dup = before.packet, h.Dup || again; !again {
		h.ID = c.nextID()
	}
	if !c.publishTwo(&h, nil, n.payload) {
		return false
	}
	if h.QoS == 2 && !again && c.more.sent != nil {
		c.more.sent.add(sentPacket{packet: h.ID, id: string(n.id), expires: n.expires})
	}
	c.fly(flying{packet: h.ID, id: string(n.id), kept: true, two: h.QoS == 2})
	return true
}

// noteProperties appends the properties of a notification's packet.
func noteProperties(p []byte, n *note) []byte {
	left := time.Until(n.expires)
	p = wire.AppendNumber(p, wire.PayloadFormat, 1)
	p = wire.AppendNumber(p, wire.MessageExpiry, uint32(max(1, min((left+time.Second-1)/time.Second, 1<<31)))) // bounded
	p = wire.AppendText(p, wire.ContentType, "application/json")
	if n.asks {
		p = wire.AppendText(p, wire.ResponseTopic, replyLevel+"/"+replyToNote+"/"+string(n.id))
		p = wire.AppendText(p, wire.CorrelationData, n.id)
	}
	p = wire.AppendUser(p, "id", n.id)
	var digits [20]byte
	p = wire.AppendUser(p, "seq", strconv.AppendUint(digits[:0], n.seq, 10))
	return wire.AppendUser(p, "attempt", strconv.AppendUint(digits[:0], uint64(n.attempt), 10))
}

// tellAsIs sends a message of a topic in the packet that all clients get. is is false if this one needs another.
func (c *conn) tellAsIs(p parts) (taken, is bool) {
	flags := c.is.Load()
	if flags&(noLocal|aliased|limited|withIDs) != 0 {
		return false, false
	}
	h, head, payload, ok := p.packet(c.version())
	if !ok || h.kept() && flags&queued != 0 || h.qos() > 0 && flags&sure != 0 {
		return false, false
	}
	if taken = c.write(head, payload); taken {
		c.gate.counts.sent[0].Add(1)
	}
	return taken, true
}

// tell sends a message of a topic.
func (c *conn) tell(m message) bool {
	switch {
	case m.gap > 0 && c.has(gaps):
		return c.publish(&wire.Head{Topic: gapName}, append(strconv.AppendUint([]byte(`{"gap":`), m.gap, 10), '}'))
	case m.topic == "" || c.isOwn(m.topic, m.payload) || m.kept && c.keeps(toTopic(m.topic)):
		return true
	}
	if m.qos > 0 && c.has(sure) {
		if taken, is := c.tellSurely(m); is {
			return taken
		}
	}
	var props [160]byte
	h := wire.Head{Topic: m.topic, Properties: c.idsOf(c.propertiesOf(props[:0], &m), m.topic)}
	if !c.has(aliased | limited) {
		return c.publishTwo(&h, nil, m.payload)
	}
	if !c.fits(&h, len(m.payload)) {
		return true
	}
	if !c.has(aliased) {
		return c.publishTwo(&h, nil, m.payload)
	}
	c.mu.Lock()
	defer c.mu.Unlock() // an alias is used after the packet that sets it
	return c.more.alias(&h, func() bool { return c.publishTwo(&h, nil, m.payload) })
}

// propertiesOf appends the properties of a message of a topic.
func (c *conn) propertiesOf(dst []byte, m *message) []byte {
	if !c.has(five) {
		return nil
	}
	return messageProperties(dst, m.contentType, m.properties)
}

// alias has a packet sent with an alias for its topic, if the client has one or can have one more.
func (m *extra) alias(h *wire.Head, send func() bool) bool {
	topic := h.Topic
	n, known := m.given[topic]
	switch {
	case known:
		h.Topic = ""
	case len(m.given) < int(m.aliasMost):
		n = uint16(len(m.given) + 1) // at most maxAliases
	default:
		return send()
	}
	h.Properties = wire.AppendNumber(h.Properties, wire.TopicAlias, uint32(n))
	taken := send()
	if taken && !known {
		if m.given == nil {
			m.given = make(map[string]uint16)
		}
		m.given[topic] = n
	}
	return taken
}

// fits reports whether the client takes a packet of this size. One that is larger counts as sent (section 3.1.2.11.4).
func (c *conn) fits(h *wire.Head, size int) bool {
	if !c.has(limited) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if uint64(h.Size(c.version(), size)) <= uint64(c.more.packet) {
		return true
	}
	c.gate.counts.large.Add(1)
	return false
}

// publish sends a packet at QoS 0 with a payload that is made for it.
func (c *conn) publish(h *wire.Head, payload []byte) bool {
	h.Properties = c.idsOf(h.Properties, h.Topic)
	return !c.fits(h, len(payload)) || c.publishTwo(h, payload, nil)
}

// publishTwo sends a packet whose payload begins with start, which is copied, and ends with rest, which is shared.
func (c *conn) publishTwo(h *wire.Head, start, rest []byte) bool {
	b, _ := c.gate.heads.Get().(*[]byte)
	*b = append(wire.AppendPublish((*b)[:0], c.version(), h, len(start)+len(rest)), start...)
	taken := c.write(*b, rest)
	if cap(*b) <= keptHead {
		c.gate.heads.Put(b)
	}
	if taken {
		c.gate.counts.sent[h.QoS].Add(1)
	}
	return taken
}

// show sends the state of an object as a retained message.
func (c *conn) show(s state) bool {
	if c.has(silent) {
		return true
	}
	h := wire.Head{Topic: objectLevel + "/" + s.group + "/" + s.object, Retain: true}
	if c.has(five) {
		h.Properties = c.idsOf(stateProperties(&s), h.Topic)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.more
	for i := range m.flights() {
		f := &m.flight[i]
		switch {
		case f.object != s.object || f.group != s.group || f.version != s.version:
		case f.unknown != s.known:
			return true // it is on its way; MQTT sends nothing twice on one connection
		default: // the object has become unknown, which keeps its version: the client has that once it acknowledges this packet, not the earlier one
			f.version = 0
		}
	}
	if m.lowQoS(h.Topic) {
		c.mu.Unlock()
		taken := !c.fits(&h, len(s.payload)) || c.publishTwo(&h, nil, s.payload)
		c.mu.Lock()
		if taken && s.version > 0 {
			c.settleLater(flying{group: s.group, object: s.object, version: s.version})
		}
		return taken
	}
	if c.has(limited) && uint64(h.Size(c.version(), len(s.payload))) > uint64(m.packet) {
		c.gate.counts.large.Add(1)
		return true
	}
	if !c.room() {
		return false
	}
	h.QoS, h.ID = 1, c.nextID()
	if !c.publishTwo(&h, nil, s.payload) {
		return false
	}
	c.fly(flying{packet: h.ID, group: s.group, object: s.object, version: s.version, unknown: !s.known})
	return true
}

func stateProperties(s *state) (p []byte) {
	if s.contentType != "" {
		p = wire.AppendText(p, wire.ContentType, s.contentType)
	}
	if s.version > 0 {
		p = wire.AppendUser(p, "version", strconv.FormatUint(s.version, 10))
	}
	if !s.known {
		p = wire.AppendUser(p, "unknown", "true")
	}
	return p
}
