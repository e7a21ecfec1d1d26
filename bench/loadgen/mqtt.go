package loadgen

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MQTT is the transport MQTT 3.1.1 at QoS 1: to Godwit's inbox, or both to subscribe and to publish, for servers that Godwit is compared with.
// There a recipient is a topic; messages for all recipients go to a separate topic.
const MQTT = "mqtt"

// topicAll is the topic of messages to all subscribers.
const topicAll = "bench/all"

// Packet types of MQTT 3.1.1, with the flags they always have.
const (
	mqttConnect   = 0x10
	mqttConnAck   = 0x20
	mqttPublish   = 0x30
	mqttPubAck    = 0x40
	mqttSubscribe = 0x82
	mqttSubAck    = 0x90

	mqttQoS1     = 0x02
	mqttDup      = 0x08
	mqttPacketID = 1 // always the same, because one publish is under way at a time
)

func appendMQTT(dst []byte, first byte, body []byte) []byte {
	dst = append(dst, first)
	n := len(body)
	for n >= 0x80 {
		dst = append(dst, byte(n)|0x80)
		n >>= 7
	}
	return append(append(dst, byte(n)), body...)
}

func appendMQTTString(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

// mqttHello is a CONNECT packet. user may be empty.
func mqttHello(client, user string) []byte {
	body := appendMQTTString(nil, "MQTT")
	if user == "" {
		body = append(body, 4, 2, 0, 0) // version 3.1.1, clean session, no keep-alive
		return appendMQTT(nil, mqttConnect, appendMQTTString(body, client))
	}
	body = append(body, 4, 2|mqttUserFlag, 0, 0)
	return appendMQTT(nil, mqttConnect, appendMQTTString(appendMQTTString(body, client), user))
}

const mqttUserFlag = 0x80

// mqttPacket parses one packet at the beginning of b; n is its length, or 0 if it is incomplete.
func mqttPacket(b []byte) (first byte, body []byte, n int, err error) {
	size, shift := 0, 0
	for i := 1; ; i++ {
		if i >= len(b) {
			return 0, nil, 0, nil
		}
		if i > 4 {
			return 0, nil, 0, errFrame
		}
		size |= int(b[i]&0x7f) << shift
		shift += 7
		if b[i]&0x80 == 0 {
			if len(b) < i+1+size {
				return 0, nil, 0, nil
			}
			return b[0], b[i+1 : i+1+size], i + 1 + size, nil
		}
	}
}

// mqttWire subscribes to the recipient's topic and to the topic for all.
type mqttWire struct {
	name string
	seq  uint64 // number of deliveries, because MQTT messages have no numbers
	dup  bool
}

func newMQTTWire(name string) *mqttWire { return &mqttWire{name: name} }

func (w *mqttWire) begin() []byte {
	body := []byte{0, mqttPacketID}
	for _, topic := range []string{w.name, topicAll} {
		body = append(appendMQTTString(body, topic), 1)
	}
	return appendMQTT(mqttHello(w.name, ""), mqttSubscribe, body)
}

func (w *mqttWire) parse(b []byte, s *subscriber) (used int, send []byte, err error) {
	for {
		first, body, n, err := mqttPacket(b[used:])
		if err != nil || n == 0 {
			return used, send, err
		}
		used += n
		switch {
		case first == mqttConnAck && (len(body) < 2 || body[1] != 0):
			return used, send, fmt.Errorf("the server refused the connection: %x", body)
		case first == mqttSubAck:
			err = s.frame(nil)
		case first&0xf0 == mqttPublish:
			w.dup = first&mqttDup != 0
			err = s.frame(body)
		}
		if err != nil {
			return used, send, err
		}
	}
}

// read implements wire. An empty frame means that the server has accepted the session.
func (w *mqttWire) read(body []byte) (a arrival, err error) {
	if body == nil {
		a.kind = welcome
		return a, nil
	}
	if len(body) < 2 {
		return a, errFrame
	}
	at := 2 + int(binary.BigEndian.Uint16(body))
	if len(body) < at+2 {
		return a, errFrame
	}
	a.kind, a.id, a.attempt = notification, body[at:at+2], 2
	if !w.dup {
		w.seq++
		a.attempt = 1
	}
	a.seq, a.due = w.seq, findStamp(body[at+2:])
	return a, nil
}

func (w *mqttWire) say(dst, _ []byte) []byte { return dst }

func (w *mqttWire) ack(dst []byte, ids [][]byte) []byte {
	for _, id := range ids {
		dst = appendMQTT(dst, mqttPubAck, id)
	}
	return dst
}

// inboxWire subscribes to the mailbox of a recipient of Godwit's.
type inboxWire struct {
	mqttWire
	user string
}

func (w *inboxWire) begin() []byte {
	return appendMQTT(mqttHello("", w.user), mqttSubscribe, append(appendMQTTString([]byte{0, mqttPacketID}, "inbox"), 1))
}

// read implements wire. A notification is acknowledged by the id of its packet.
func (w *inboxWire) read(body []byte) (arrival, error) {
	a, err := w.mqttWire.read(body)
	if err != nil || a.kind != notification {
		return a, err
	}
	n, err := readNotificationJSON(body[2+int(binary.BigEndian.Uint16(body))+len(a.id):])
	n.id = a.id
	return n, err
}

// followerWire subscribes at QoS 0 to the topic for all.
type followerWire struct {
	mqttWire
	user string // of Godwit; empty: another broker's
}

func (w *followerWire) begin() []byte {
	client := w.name
	if w.user != "" {
		client = ""
	}
	return appendMQTT(mqttHello(client, w.user), mqttSubscribe, append(appendMQTTString([]byte{0, mqttPacketID}, topicAll), 0))
}

// read implements wire. A message at QoS 0 has no packet id.
func (w *followerWire) read(body []byte) (a arrival, err error) {
	switch {
	case body == nil:
		a.kind = welcome
		return a, nil
	case len(body) < 2 || len(body) < 2+int(binary.BigEndian.Uint16(body)):
		return a, errFrame
	}
	w.seq++
	return arrival{kind: notification, seq: w.seq, attempt: 1, due: findStamp(body)}, nil
}

// mailContent returns a PUBLISH packet to a mailbox of Godwit's.
func (c *PublishConfig) mailContent() content {
	data, stamp := makeData(c.Size)
	body := appendMQTTString(nil, "to/"+RecipientName(c.Prefix, 0))
	number := len(body) - numberLen
	body = append(binary.BigEndian.AppendUint16(body, mqttPacketID), `{"data":`...)
	stamp += len(body)
	body = append(append(body, data...), '}')
	packet := appendMQTT(nil, mqttPublish|mqttQoS1, body)
	head := len(packet) - len(body)
	return content{bytes: packet, stamps: []int{head + stamp}, numbers: []int{head + number}, copies: 1}
}

// burstContent returns a row of PUBLISH packets to all.
func (c *PublishConfig) burstContent() content {
	var row content
	for i := range c.Burst {
		one := c.mqttContent()
		binary.BigEndian.PutUint16(one.bytes[one.id:], uint16(i+1)) // fewer than a client may have unanswered
		row.stamps = append(row.stamps, len(row.bytes)+one.stamps[0])
		row.bytes = append(row.bytes, one.bytes...)
		row.copies += one.copies
	}
	return row
}

// mqttContent returns a PUBLISH packet to one recipient, or to all.
func (c *PublishConfig) mqttContent() content {
	data, stamp := makeData(c.Size)
	body := appendMQTTString(nil, RecipientName(c.Prefix, 0))
	number := len(body) - numberLen
	copies := 1
	if c.ToAll {
		body, copies = appendMQTTString(nil, topicAll), c.Recipients
	}
	id := len(body)
	body = binary.BigEndian.AppendUint16(body, mqttPacketID)
	packet := appendMQTT(nil, mqttPublish|mqttQoS1, append(body, data...))
	head := len(packet) - len(body) - len(data)
	out := content{bytes: packet, stamps: []int{head + len(body) + stamp}, id: head + id, copies: copies}
	if !c.ToAll {
		out.numbers = []int{head + number}
	}
	return out
}

// mqttPub publishes at QoS 1, one message at a time or several in a row.
type mqttPub struct {
	client, user string
	row          int // messages of a request
	acked        int // of the one under way
}

func (p *mqttPub) begin() []byte { return mqttHello(p.client, p.user) }

func (*mqttPub) admit(*request) bool { return true }

func (p *mqttPub) parse(b []byte, copies int) (used int, a *answer, send []byte, err error) {
	for {
		first, body, n, err := mqttPacket(b[used:])
		if err != nil || n == 0 {
			return used, a, nil, err
		}
		used += n
		switch first {
		case mqttConnAck:
			if len(body) < 2 || body[1] != 0 {
				return used, nil, nil, fmt.Errorf("the server refused the connection: %x", body)
			}
		case mqttPubAck:
			if a != nil {
				return used, nil, nil, errors.New("the server acknowledged more than was published")
			}
			if p.acked++; p.acked == p.row {
				a, p.acked = &answer{accepted: copies}, 0
			}
		}
	}
}
