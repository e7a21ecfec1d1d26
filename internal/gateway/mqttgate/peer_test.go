package mqttgate_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/mqttgate"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
)

func start(t *testing.T) *gatetest.Server {
	return gatetest.Start(t, func(s *gatetest.Server) { mount(t, s) })
}

func startWith(t *testing.T, set func(*mqttgate.Config)) *gatetest.Server {
	return gatetest.Start(t, func(s *gatetest.Server) { mountWith(t, s, set) })
}

// peer is a client whose test sees packets.
type peer struct {
	*raw
	t     *testing.T
	ack   wire.Connack
	early []*wire.Publish // messages that heard has read beyond what it was asked for
	read  []wire.Packet   // while an answer was awaited
}

// hi is a CONNECT packet of a client of the app.
func hi(v wire.Version, recipient, client string) *wire.Connect {
	return &wire.Connect{Version: v, Clean: true, ClientID: []byte(client), HasUser: true, User: []byte(gatetest.App + "/" + recipient)}
}

// connect connects and checks that the client is accepted.
func connect(t *testing.T, s *gatetest.Server, c *wire.Connect, props ...byte) *peer {
	t.Helper()
	p := connectWill(t, s, c, props, nil)
	if p.ack.Reason != wire.Success {
		t.Fatalf("refused with %#x %s", byte(p.ack.Reason), p.ack.Properties.Text(wire.ReasonString))
	}
	return p
}

// connectWill connects a client that may be refused.
func connectWill(t *testing.T, s *gatetest.Server, c *wire.Connect, props, willProps []byte) *peer {
	t.Helper()
	p := &peer{raw: dialRaw(t, addrOf(s), c.Version), t: t}
	p.send(wire.AppendConnect(nil, c, props, willProps))
	if err := p.ack.Decode(c.Version, p.want(wire.CONNACK)); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	if err := p.write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) any() (wire.Packet, error) {
	if len(p.read) > 0 {
		first := p.read[0]
		p.read = p.read[1:]
		return first, nil
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), gatetest.Patience)
	defer cancel()
	return p.next(ctx)
}

// want reads the next packet and checks its type.
func (p *peer) want(t wire.Type) wire.Packet {
	p.t.Helper()
	packet, err := p.any()
	if err != nil {
		p.t.Fatalf("waiting for %s: %v", t, err)
	}
	if packet.Type() != t {
		p.t.Fatalf("got %s %x, want %s", packet.Type(), packet.Body, t)
	}
	return packet
}

// message reads the next packet and checks that it is this message.
func (p *peer) message(topic, payload string) *wire.Publish {
	p.t.Helper()
	m := p.anyMessage()
	if string(m.Topic) != topic || payload != "" && string(m.Payload) != payload {
		p.t.Fatalf("got %s %s, want %s %s", m.Topic, m.Payload, topic, payload)
	}
	return m
}

// anyMessage reads the next packet, which must be a message.
func (p *peer) anyMessage() *wire.Publish {
	p.t.Helper()
	var m wire.Publish
	if err := m.Decode(p.v, p.want(wire.PUBLISH)); err != nil {
		p.t.Fatal(err)
	}
	return &m
}

// note reads the next packet and checks that it is a notification.
func (p *peer) note(id string) *wire.Publish {
	p.t.Helper()
	m := p.message("inbox", "")
	if !strings.Contains(string(m.Payload), `"id":`+strconv.Quote(id)) {
		p.t.Fatalf("got %s, want %s", m.Payload, id)
	}
	return m
}

// subscribed subscribes and returns the reason codes.
func (p *peer) subscribed(qos byte, filters ...string) []wire.Reason {
	p.t.Helper()
	list := make([]wire.Filter, len(filters))
	for i, f := range filters {
		list[i] = wire.Filter{Name: []byte(f), QoS: qos}
	}
	p.send(wire.AppendSubscribe(nil, p.v, 77, nil, list...))
	return p.suback(wire.SUBACK)
}

// suback waits for the answer to a subscription or to its end. Messages of a subscription may come before its answer (section 3.8.4): they are read
// after it.
func (p *peer) suback(t wire.Type) []wire.Reason {
	p.t.Helper()
	var before []wire.Packet
	packet, err := p.any()
	for err == nil && t == wire.SUBACK && packet.Type() == wire.PUBLISH {
		before = append(before, packet)
		packet, err = p.any()
	}
	p.read = append(before, p.read...)
	if err != nil || packet.Type() != t {
		p.t.Fatalf("got %s %x, %v, want %s", packet.Type(), packet.Body, err, t)
	}
	var a wire.Suback
	if err := a.Decode(p.v, packet); err != nil || a.ID != 77 {
		p.t.Fatalf("%s: %+v, %v", t, a, err)
	}
	return a.Reasons
}

// publish sends a message.
func (p *peer) publish(h wire.Head, payload string) {
	p.t.Helper()
	p.send(append(wire.AppendPublish(nil, p.v, &h, len(payload)), payload...))
}

// acked reads the next packet and checks that it acknowledges packet id 9.
func (p *peer) acked(t wire.Type, want wire.Reason) *wire.Ack {
	p.t.Helper()
	var a wire.Ack
	if err := a.Decode(p.v, p.want(t)); err != nil || a.ID != 9 || a.Reason != want {
		p.t.Fatalf("%s: %+v, %v; want reason %#x", t, a, err, byte(want))
	}
	return &a
}

// ping returns once the server has handled what was sent before, and checks that nothing came meanwhile.
func (p *peer) ping() {
	p.t.Helper()
	p.send(wire.PingRequest)
	p.want(wire.PINGRESP)
}

// ended checks that the server ends the connection, with a reason in MQTT 5.
func (p *peer) ended(want wire.Reason) {
	p.t.Helper()
	if p.v == wire.V5 {
		var d wire.Disconnect
		if err := d.Decode(p.v, p.want(wire.DISCONNECT)); err != nil || d.Reason != want {
			p.t.Fatalf("DISCONNECT: %#x %s, %v; want %#x", byte(d.Reason), d.Properties.Text(wire.ReasonString), err, byte(want))
		}
	}
	if packet, err := p.any(); !errors.Is(err, io.EOF) {
		p.t.Fatalf("got %s, %v; want the end", packet.Type(), err)
	}
}

// gone waits until no session is live.
func gone(t *testing.T, s *gatetest.Server) {
	t.Helper()
	for late := time.Now().Add(gatetest.Patience); s.Hub.Live() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%d sessions are live", s.Hub.Live())
		}
	}
}

// key makes an API key of the app.
func key(t *testing.T, s *gatetest.Server, roles access.Role) (secret, id string) {
	t.Helper()
	k, secret, err := s.Access.CreateKey(t.Context(), gatetest.App, "test", roles)
	if err != nil {
		t.Fatal(err)
	}
	return secret, k.ID
}

// as gives a CONNECT packet a password.
func as(c *wire.Connect, secret string) *wire.Connect {
	c.HasPassword, c.Password = true, []byte(secret)
	return c
}

// publisher makes a token with the claim publish.
func publisher(t *testing.T, s *gatetest.Server, recipient string, patterns ...string) string {
	t.Helper()
	text, _, err := s.Access.MintToken(gatetest.App, access.TokenRequest{Recipient: recipient, TTL: time.Minute, Publish: patterns, Topics: []string{">"}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}
