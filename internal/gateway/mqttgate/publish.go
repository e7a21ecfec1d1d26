package mqttgate

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// published handles a PUBLISH packet.
func (c *conn) published(p wire.Packet, in *input) error {
	m := &in.publish
	if err := m.Decode(c.version(), p); err != nil {
		return err // a *wire.Error
	}
	c.sess.Alive()
	name, err := c.named(m)
	if err != nil {
		return err
	}
	if m.QoS == 2 && c.has(five) && !c.gate.cfg.QoS2 {
		return broken(wire.QoSUnsupported, "PUBLISH at QoS 2, and the most here is 1")
	}
	if m.Properties.Has(wire.SubscriptionID) { // section 3.3.4
		return broken(wire.ProtocolError, "PUBLISH: a client sends no subscription identifier")
	}
	t, rest := targetOf(name)
	if t == toReplies {
		return c.replied(m, rest, in)
	}
	j := job{c: c, packet: m.ID, qos: m.QoS}
	if m.QoS == 2 {
		if known, err := c.again(m.ID); err != nil {
			return err
		} else if known {
			return c.submit(j, 0) // was published; the answer waits until it is
		}
	}
	if strings.HasPrefix(name, "$") { // nobody can subscribe to it
		c.gate.counts.denied.Add(1)
		j.reason = wire.NoSubscribers
		return c.submit(j, 0)
	}
	if reason, why := c.mayPublish(t, rest); reason != wire.Success {
		return c.deny(&j, reason, why)
	}
	if reason, why := c.gate.work(&j, t, rest, m); reason != wire.Success {
		return c.deny(&j, reason, why)
	}
	if j.message != nil {
		c.sends(name, m.Payload)
	}
	return c.submit(j, len(m.Payload))
}

// named returns the name in a PUBLISH packet, which may be that of an alias.
func (c *conn) named(m *wire.Publish) (string, error) {
	if !m.Properties.Has(wire.TopicAlias) {
		return string(m.Topic), nil
	}
	alias := int(m.Properties.Number(wire.TopicAlias, 0))
	if alias > maxAliases {
		return "", broken(wire.InvalidAlias, "PUBLISH: topic alias "+strconv.Itoa(alias)+"; the most is "+strconv.Itoa(maxAliases))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.busy()
	if len(m.Topic) > 0 {
		if x.aliases == nil {
			x.aliases = make([]string, maxAliases)
		}
		x.aliases[alias-1] = string(m.Topic)
	}
	if x.aliases == nil || x.aliases[alias-1] == "" {
		c.tidy()
		return "", broken(wire.ProtocolError, "PUBLISH: topic alias "+strconv.Itoa(alias)+" has no topic yet")
	}
	return x.aliases[alias-1], nil
}

// work makes the work of a message: a publish to a mailbox, an object's new version, a message of a topic or a request.
func (g *Gateway) work(j *job, t target, rest string, m *wire.Publish) (wire.Reason, string) {
	switch t {
	case toMailbox:
		d, err := g.cfg.ReadDraft(m.Payload)
		if err == nil && len(d.To) > 0 {
			err = notification.BadField("to", "is the recipient in the topic; leave it out of the body")
		}
		if err == nil {
			err = notification.CheckName("to", rest)
		}
		if err != nil {
			return reasonOfError(err)
		}
		d.To = []string{rest}
		j.draft = d
	case toObject:
		return g.put(j, rest, m)
	case toTopics, toWorkers:
		msg := &pubsub.Message{Topic: toTopic(rest), ContentType: string(m.Properties.Text(wire.ContentType))}
		if t == toWorkers {
			return g.question(j, msg, m)
		}
		msg.Data = m.Payload
		if trace, ok := m.Properties.UserValue("traceparent"); ok {
			msg.Traceparent = string(trace)
		}
		if err := msg.Check(); err != nil {
			return reasonOfError(err)
		}
		msg.Data, msg.QoS = bytes.Clone(m.Payload), j.qos
		j.message = msg
		j.expiry = m.Properties.Number(wire.MessageExpiry, 0)
		if j.forward = m.Properties.AppendForwarded(nil); len(j.forward) > maxForwarded {
			return wire.QuotaExceeded, "the properties that travel with a message have at most " + strconv.Itoa(maxForwarded) + " bytes"
		}
		msg.MQTT = string(j.forward)
		if j.expiry > 0 {
			msg.MQTT = string(wire.AppendNumber(j.forward, wire.MessageExpiry, j.expiry))
		}
	default:
		return wire.InvalidTopic, "clients do not publish there"
	}
	return wire.Success, ""
}

// put makes the work of an object's new version, which a user property may give. An empty payload makes the object unknown.
func (g *Gateway) put(j *job, rest string, m *wire.Publish) (wire.Reason, string) {
	group, name, ok := objectOf(rest)
	if !ok {
		return wire.InvalidTopic, "an object is o/GROUP/OBJECT"
	}
	put := &object.Put{Payload: bytes.Clone(m.Payload), ContentType: string(m.Properties.Text(wire.ContentType))}
	if text, given := m.Properties.UserValue("version"); given {
		v, err := object.ParseVersion(string(text))
		if err != nil {
			return reasonOfError(err)
		}
		put.Version = v
	}
	if put.Unknown = len(put.Payload) == 0; put.Unknown {
		put.ContentType = ""
	} else if put.ContentType == "" {
		put.ContentType = notification.GuessType(put.Payload)
	}
	j.key, j.put = object.Key{Group: group, Object: name}, put
	return wire.Success, ""
}

// reasonOfError returns the code and text for an error of a publish.
func reasonOfError(err error) (wire.Reason, string) {
	var field *notification.FieldError
	if errors.As(err, &field) {
		if field.Field == "topic" {
			return wire.InvalidTopic, field.Error()
		}
		return wire.InvalidPayload, field.Error()
	}
	return problemOf(err)
}

// again reports whether a QoS 2 packet has been published already, and notes that it is. A message counts against the receive maximum until its
// PUBREL (section 4.9).
func (c *conn) again(packet uint16) (known bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.busy()
	if x.received == nil {
		x.received = &packetIDs{}
	}
	known, full := x.received.add(packet)
	switch {
	case known:
		return true, nil
	case full || c.has(five) && x.waiting.held >= maxInFlight:
		return false, errTooMany
	}
	x.waiting.held++
	return false, nil
}

// released handles a PUBREL packet.
func (c *conn) released(p wire.Packet, in *input) error {
	a := &in.ack
	if err := a.Decode(c.version(), p); err != nil {
		return err // a *wire.Error
	}
	c.sess.Alive()
	reason := wire.PacketIDNotFound
	if c.release(a.ID) {
		reason = wire.Success
	}
	c.write(wire.AppendAck(nil, c.version(), wire.PUBCOMP, a.ID, reason, nil), nil)
	return nil
}

// release forgets a QoS 2 packet.
func (c *conn) release(packet uint16) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more == nil || c.more.received == nil {
		return false
	}
	was := c.more.received.remove(packet)
	if was && c.more.waiting.held > 0 { // an earlier connection may have added it
		c.more.waiting.held--
	}
	if c.more.state == nil && c.more.received.empty() {
		c.more.received = nil
		c.tidy()
	}
	return was
}

// deny answers a message that is refused. MQTT 3.1.1 has no answer for that, and an acknowledgement would say that the message is stored: so
// the connection ends. At QoS 0 nothing is answered.
func (c *conn) deny(j *job, reason wire.Reason, why string) error {
	c.gate.counts.denied.Add(1)
	if j.qos == 2 {
		c.release(j.packet)
	}
	switch {
	case j.qos == 0:
		c.gate.cfg.Log.Debug("MQTT message refused", "reason", byte(reason), "error", why)
	case !c.has(five):
		return broken(reason, why)
	default:
		c.reply(j, reason, why)
	}
	return nil
}

// reply sends the PUBACK or PUBREC of a message.
func (c *conn) reply(j *job, reason wire.Reason, why string) {
	t := wire.PUBACK
	if j.qos == 2 {
		t = wire.PUBREC
	}
	var props []byte
	if reason.Failed() {
		props = c.explain(why, nil)
	}
	c.write(wire.AppendAck(nil, c.version(), t, j.packet, reason, props), nil)
}

// replied handles an answer to a request or a notification: a message to the response topic that came with it.
func (c *conn) replied(m *wire.Publish, rest string, in *input) error {
	j := job{c: c, packet: m.ID, qos: m.QoS}
	r := &frame.Reply{ContentType: string(m.Properties.Text(wire.ContentType)), Data: m.Payload}
	kind, id, _ := bytes.Cut([]byte(rest), []byte("/"))
	switch string(kind) {
	case replyToRequest:
		r.RequestID = id
	case replyToNote:
		r.ID = id
	default:
		return c.deny(&j, wire.InvalidTopic, "no answer is expected there")
	}
	for _, u := range m.Properties.User {
		switch string(u.Name) {
		case "status":
			r.Status, _ = strconv.Atoi(string(u.Value)) // checked with the frame
		case "header":
			if name, value, ok := bytes.Cut(u.Value, []byte(": ")); ok {
				if r.Headers == nil {
					r.Headers = make(frame.Headers)
				}
				r.Headers[string(name)] = append(r.Headers[string(name)], string(value))
			}
		}
	}
	in.frame = frame.Client{Kind: frame.KindReply, Reply: r}
	if e, bad := errors.AsType[*frame.Error](in.frame.Check()); bad {
		c.sess.Bad(e)
		return c.deny(&j, wire.InvalidPayload, e.Message)
	}
	if e := c.pass(&in.frame); len(e) > 0 {
		return c.deny(&j, wire.InvalidPayload, e[0].Message)
	}
	if m.QoS == 2 {
		if _, err := c.again(m.ID); err != nil {
			return err
		}
	}
	if m.QoS > 0 {
		c.reply(&j, wire.Success, "")
	}
	return nil
}

// delayOf reads the delay of a nack; a wrong one counts as none.
func delayOf(text string) time.Duration {
	d, err := notification.ParseDuration(text)
	if err != nil || d < 0 || d > notification.MaxTTL {
		return 0
	}
	return d
}

func versionOf(v uint64) object.Version { return object.Version(v) } // was one

// clipBytes shortens a client's reason to what a nack may have.
func clipBytes(b []byte) []byte { return []byte(clip(string(b))) }

// problemOf returns the code and text of a failure that is not the client's fault, or that only the store knows.
func problemOf(err error) (wire.Reason, string) {
	if errors.Is(err, topic.ErrUnavailable) {
		return wire.Unspecified, "the message bus cannot be reached now; try again"
	}
	return describe(err)
}
