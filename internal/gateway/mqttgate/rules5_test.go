package mqttgate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
)

// five are the rules that only MQTT 5 has.
var five = map[string]func(*testing.T, *kept){
	"user properties, payload format, content type, response topic": propertiesRule,
	"request and response":         responseRule,
	"subscription identifiers":     subscriptionIDRule,
	"subscription options":         optionsRule,
	"topic aliases of the client":  clientAliasRule,
	"topic aliases of the server":  serverAliasRule,
	"maximum packet size":          packetSizeRule,
	"session expiry":               sessionExpiryRule,
	"publication expiry":           publicationExpiryRule,
	"server keep-alive":            serverKeepAliveRule,
	"flow control to the client":   flowToClientRule,
	"flow control from the client": flowFromClientRule,
	"will delay":                   willDelayRule,
	"shared subscriptions":         sharedRule,
	"what a client may not send":   clientRule,
	"takeover":                     takeoverRule,
}

func TestRulesOf5(t *testing.T) {
	for name, rule := range five {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule(t, keeping(t))
		})
	}
}

// travelling are properties that a server passes on.
func travelling() (props []byte) {
	props = wire.AppendNumber(props, wire.PayloadFormat, 1)
	props = wire.AppendText(props, wire.ContentType, "text/plain; charset=utf-8")
	props = wire.AppendText(props, wire.ResponseTopic, "answers/here")
	props = wire.AppendText(props, wire.CorrelationData, "\x00\x01\xff")
	for _, u := range []string{"c=3", "a=2", "a=1", "æ=ø\n"} {
		name, value, _ := strings.Cut(u, "=")
		props = wire.AppendUser(props, name, value)
	}
	return props
}

// travelled checks that a message has these properties, unaltered and in order.
func travelled(t *testing.T, m *wire.Publish) {
	t.Helper()
	var user []string
	for _, u := range m.Properties.User {
		user = append(user, string(u.Name)+"="+string(u.Value))
	}
	if !slices.Equal(user, []string{"c=3", "a=2", "a=1", "æ=ø\n"}) {
		t.Errorf("%s has the user properties %q", m.Payload, user)
	}
	p := &m.Properties
	if p.Number(wire.PayloadFormat, 0) != 1 || string(p.Text(wire.ContentType)) != "text/plain; charset=utf-8" || string(p.Text(wire.ResponseTopic)) != "answers/here" ||
		string(p.Text(wire.CorrelationData)) != "\x00\x01\xff" {
		t.Errorf("%s has the properties %+v", m.Payload, p)
	}
}

func propertiesRule(t *testing.T, s *kept) {
	hello, props := lasting(wire.V5, "ann", "phone")
	p := connect(t, s.Server, hello, append(props, wire.AppendNumber(nil, wire.AliasMaximum, 5)...)...)
	p.subscribed(1, "TopicA", "kept/#")
	old := connect(t, s.Server, hi(wire.V311, "old", ""))
	old.subscribed(0, "TopicA")
	ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
	for qos := range byte(3) {
		ben.told(qos, "TopicA", fmt.Sprint("live ", qos), append(travelling(), wire.AppendNumber(nil, wire.MessageExpiry, 60)...)...)
		m := p.heard(1)[0]
		travelled(t, m)
		if m.Properties.Number(wire.MessageExpiry, 0) != 60 || m.Properties.Number(wire.TopicAlias, 0) != 1 {
			t.Errorf("%s has expiry and alias %+v", m.Payload, m.Properties)
		}
		old.message("TopicA", fmt.Sprint("live ", qos))
	}
	ben.told(1, "kept/1", "here", travelling()...)
	travelled(t, p.heard(1)[0])
	_ = p.nc.Close()
	until(t, "its connection is gone", func() bool { return s.Hub.Live() == 2 })
	ben.told(1, "kept/1", "away", travelling()...)
	p = connect(t, s.Server, hello, props...)
	for _, m := range p.heard(1) {
		travelled(t, m)
	}
	c := hi(wire.V5, "eve", "")
	c.HasWill, c.WillTopic, c.WillOf = true, []byte("TopicA"), []byte("will")
	_ = connectWill(t, s.Server, c, nil, append(travelling(), wire.AppendNumber(nil, wire.WillDelay, 0)...)).nc.Close()
	travelled(t, p.heard(1)[0])
	many := wire.AppendUser(nil, "x", strings.Repeat("x", 17<<10))
	ben.publish(wire.Head{QoS: 1, ID: 9, Topic: "TopicA", Properties: many}, "x")
	ben.acked(wire.PUBACK, wire.QuotaExceeded)
}

func responseRule(t *testing.T, s *kept) {
	asker, other := connect(t, s.Server, hi(wire.V5, "ann", "a")), connect(t, s.Server, hi(wire.V5, "ben", "b"))
	for _, p := range []*peer{asker, other} {
		p.send(wire.AppendSubscribe(nil, wire.V5, 77, nil, wire.Filter{Name: []byte("TopicA"), NoLocal: true}))
		p.suback(wire.SUBACK)
	}
	asker.told(1, "TopicA", "request", wire.AppendText(wire.AppendText(nil, wire.ResponseTopic, "TopicA"), wire.CorrelationData, "334")...)
	m := other.message("TopicA", "request")
	to, id := m.Properties.Text(wire.ResponseTopic), m.Properties.Text(wire.CorrelationData)
	if string(to) != "TopicA" || string(id) != "334" {
		t.Fatalf("came with %q and %q", to, id)
	}
	other.told(1, string(to), "response", wire.AppendText(nil, wire.CorrelationData, id)...)
	if m = asker.message("TopicA", "response"); string(m.Properties.Text(wire.CorrelationData)) != "334" {
		t.Errorf("answered with %+v", m)
	}
}

// optionsRule: No Local is held. Retain As Published and Retain Handling are not offered: every SUBSCRIBE to an object is answered with its state.
func optionsRule(t *testing.T, s *kept) {
	p, other := connect(t, s.Server, hi(wire.V5, "ann", "a")), connect(t, s.Server, hi(wire.V5, "ben", "b"))
	p.send(wire.AppendSubscribe(nil, wire.V5, 77, nil, wire.Filter{Name: []byte("TopicA"), QoS: 2, NoLocal: true, KeepFlag: true, Retaining: 2}))
	if got := p.suback(wire.SUBACK); got[0].Failed() {
		t.Fatalf("answered with %v", got)
	}
	other.subscribed(0, "TopicA")
	p.told(1, "TopicA", "mine")
	other.message("TopicA", "mine")
	other.told(0, "TopicA", "theirs")
	if m := p.message("TopicA", "theirs"); m.Retain {
		t.Error("a message of a topic came as a retained one")
	}
	p.send(wire.AppendSubscribe(nil, wire.V5, 77, nil, wire.Filter{Name: []byte("$share/q/a"), NoLocal: true}))
	p.ended(wire.ProtocolError)
}

func clientAliasRule(t *testing.T, s *kept) {
	hello, props := lasting(wire.V5, "ann", "phone")
	p := connect(t, s.Server, hello, props...)
	p.subscribed(0, "TopicA", "kept/#")
	alias := wire.AppendNumber(nil, wire.TopicAlias, 1)
	p.publish(wire.Head{Topic: "TopicA", Properties: alias}, "1")
	p.publish(wire.Head{Properties: alias}, "2")
	if got := texts(p.heard(2)); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("got %v", got)
	}
	p.parts(s)
	p = connect(t, s.Server, hello, props...)
	p.publish(wire.Head{Topic: "TopicA"}, "3")
	p.message("TopicA", "3")
	p.publish(wire.Head{Properties: alias}, "4") // it ended with its connection
	p.ended(wire.ProtocolError)
	p = connect(t, s.Server, hello, props...)
	p.publish(wire.Head{Topic: "TopicA", Properties: wire.AppendNumber(nil, wire.TopicAlias, 0)}, "5")
	p.ended(wire.InvalidAlias)
}

func serverAliasRule(t *testing.T, s *kept) {
	hello, props := lasting(wire.V5, "ann", "phone")
	most := append(slices.Clone(props), wire.AppendNumber(nil, wire.AliasMaximum, 1)...)
	for range 2 { // a new connection knows no aliases
		p := connect(t, s.Server, hello, most...)
		p.subscribed(0, "TopicA", "TopicB")
		for i := range 3 {
			s.Tell(t, "TopicA", fmt.Sprint(i))
			m := p.anyMessage()
			if alias := m.Properties.Number(wire.TopicAlias, 0); alias != 1 || (len(m.Topic) == 0) != (i > 0) {
				t.Errorf("message %d has topic %q and alias %d", i, m.Topic, alias)
			}
		}
		s.Tell(t, "TopicB", `1`)
		if m := p.message("TopicB", "1"); m.Properties.Has(wire.TopicAlias) {
			t.Error("more aliases than the client takes")
		}
		p.parts(s)
	}
	p := connect(t, s.Server, hello, props...)
	s.Tell(t, "TopicA", `1`)
	if m := p.message("TopicA", "1"); m.Properties.Has(wire.TopicAlias) {
		t.Error("a client that takes no aliases got one")
	}
}

func packetSizeRule(t *testing.T, s *kept) {
	hello, props := lasting(wire.V5, "ann", "phone")
	const most = 64
	p := connect(t, s.Server, hello, append(props, wire.AppendNumber(nil, wire.MaximumPacket, most)...)...)
	if p.ack.Properties.Number(wire.MaximumPacket, 0) == 0 {
		t.Error("CONNACK does not say how much the server takes")
	}
	p.subscribed(1, "TopicA", "kept/#")
	ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
	for _, topic := range []string{"TopicA", "kept/a"} {
		ben.told(1, topic, strings.Repeat(".", most/2))
		p.heard(1)
		ben.told(1, topic, strings.Repeat(".", most))
		ben.told(1, topic, "small", wire.AppendUser(nil, "large", strings.Repeat(".", most))...)
		ben.told(1, topic, "small")
		if got := texts(p.heard(1)); got[0] != "small" {
			t.Errorf("got %v", got)
		}
	}
	ben.send([]byte{0x30, 0xff, 0xff, 0x7f})
	ben.ended(wire.TooLarge)
}

func sessionExpiryRule(t *testing.T, s *kept) {
	hello, _ := lasting(wire.V5, "ann", "phone")
	lasts := func(seconds uint32) []byte { return wire.AppendNumber(nil, wire.SessionExpiry, seconds) }
	for i, c := range []struct {
		connect    uint32
		disconnect []byte
		present    bool // at the next connection
	}{{0, nil, false}, {60, nil, true}, {60, lasts(0), false}, {60, lasts(120), true}, {1, nil, true}} {
		p := connect(t, s.Server, hello, lasts(c.connect)...)
		p.subscribed(0, "TopicA")
		p.send(wire.AppendDisconnect(nil, wire.V5, wire.Success, c.disconnect))
		gone(t, s.Server)
		again := hi(wire.V5, "ann", "phone")
		again.Clean = false
		if p = connect(t, s.Server, again, lasts(60)...); p.ack.Present != c.present {
			t.Errorf("%d: the session is present: %v", i, p.ack.Present)
		}
		p.send(wire.AppendDisconnect(nil, wire.V5, wire.Success, lasts(0)))
		gone(t, s.Server)
	}
	p := connect(t, s.Server, hello, lasts(1)...)
	p.subscribed(1, "kept/#")
	p.parts(s)
	until(t, "its filters are over", func() bool { return len(s.boxes("kept.1")) == 0 })
	s.pass(time.Second) // the session has ended a little later
	if p = connect(t, s.Server, hello, lasts(1)...); p.ack.Present {
		t.Error("a session is there that is over")
	}
	p.subscribed(1, "kept/#")
	p.send(wire.AppendDisconnect(nil, wire.V5, wire.Success, lasts(0)))
	gone(t, s.Server)
	until(t, "no message waits for a session that its client has ended", func() bool { return len(s.boxes("kept.1")) == 0 })
	p = connect(t, s.Server, hello, lasts(1<<32-1)...)
	if got := p.ack.Properties.Number(wire.SessionExpiry, 0); got != 30*24*3600 {
		t.Errorf("a session for ever lasts %d seconds, want 30 days", got)
	}
}

func publicationExpiryRule(t *testing.T, s *kept) {
	hello, props := lasting(wire.V5, "ann", "phone")
	p := connect(t, s.Server, hello, props...)
	p.subscribed(1, "kept/#")
	p.parts(s)
	ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
	expiry := func(seconds uint32) []byte { return wire.AppendNumber(nil, wire.MessageExpiry, seconds) }
	ben.told(1, "kept/a", "overdue", expiry(1)...)
	ben.told(2, "kept/a", "overdue", expiry(1)...)
	ben.told(1, "kept/a", "in time", expiry(600)...)
	box := s.boxes("kept.a")[0]
	until(t, "two messages have expired", func() bool {
		r, err := s.Mailbox.Recipient(t.Context(), "demo", box)
		return err == nil && r.Pending == 1
	})
	p = connect(t, s.Server, hello, props...)
	m := p.heard(1)[0]
	if left := m.Properties.Number(wire.MessageExpiry, 0); string(m.Payload) != "in time" || left == 0 || left > 600 {
		t.Errorf("got %s, which lasts %d s", m.Payload, left)
	}
	p.ping()
}

func serverKeepAliveRule(t *testing.T, s *kept) {
	for asked, want := range map[uint16]uint32{1: 7, 8: 0, 60: 0, 0: 0} {
		c := hi(wire.V5, "ann", "")
		c.KeepAlive = asked
		p := connect(t, s.Server, c)
		if got := p.ack.Properties.Number(wire.ServerKeepAlive, 0); got != want {
			t.Errorf("a keep-alive of %d is answered with %d, want %d", asked, got, want)
		}
	}
}

func flowToClientRule(t *testing.T, s *kept) {
	hello, props := lasting(wire.V5, "ann", "phone")
	p := connect(t, s.Server, hello, append(props, wire.AppendNumber(nil, wire.ReceiveMaximum, 2)...)...)
	p.subscribed(1, "kept/#", "inbox")
	ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
	var ids []uint16
	for i := range 4 {
		ben.told(1, "kept/a", fmt.Sprint(i))
		if i < 2 {
			ids = append(ids, p.message("kept/a", fmt.Sprint(i)).ID)
		}
	}
	s.Send(t, draft("ann", "ride-1"))
	p.ping() // two are on their way, and nothing follows
	for i := range 2 {
		p.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, ids[i], wire.Success, nil))
		m := p.anyMessage() // of the topic or of the inbox
		ids = append(ids, m.ID)
		p.ping()
	}
	p.send(wire.AppendAck(nil, wire.V5, wire.PUBACK, ids[2], wire.Success, nil))
	p.anyMessage()
}

// flowFromClientRule: a message at QoS 2 counts until its PUBREL.
func flowFromClientRule(t *testing.T, s *kept) {
	p := connect(t, s.Server, hi(wire.V5, "ann", ""))
	most := int(p.ack.Properties.Number(wire.ReceiveMaximum, 0))
	if most != 64 {
		t.Fatalf("the receive maximum is %d", most)
	}
	send := func(id int) {
		p.publish(wire.Head{QoS: 2, ID: uint16(id), Topic: "TopicA"}, "x")
	}
	for i := range most {
		send(i + 1)
		p.want(wire.PUBREC)
	}
	p.send(wire.AppendAck(nil, wire.V5, wire.PUBREL, 1, wire.Success, nil))
	p.want(wire.PUBCOMP)
	send(1000)
	p.want(wire.PUBREC)
	send(1000) // again, which takes no room
	p.want(wire.PUBREC)
	send(1001)
	p.ended(wire.ReceiveMaxExceeded)
}

func willDelayRule(t *testing.T, s *kept) {
	watch := connect(t, s.Server, hi(wire.V5, "watch", ""))
	watch.subscribed(0, "wills/+")
	with := func(client string, delay, expiry uint32, clean bool) *peer {
		c := hi(wire.V5, "ben", client)
		c.Clean = clean
		c.HasWill, c.WillTopic, c.WillOf = true, []byte("wills/"+client), []byte("gone")
		p := connectWill(t, s.Server, c, wire.AppendNumber(nil, wire.SessionExpiry, expiry), wire.AppendNumber(nil, wire.WillDelay, delay))
		if p.ack.Reason != wire.Success {
			t.Fatalf("refused with %#x", byte(p.ack.Reason))
		}
		return p
	}
	const long = 3600
	begun := time.Now()
	_ = with("delayed", 1, long, true).nc.Close()
	watch.message("wills/delayed", "gone")
	if took := time.Since(begun); took < time.Second {
		t.Errorf("the will came after %s, want a second", took)
	}
	_ = with("unkept", long, 0, true).nc.Close() // its session ends with the connection
	watch.message("wills/unkept", "gone")
	_ = with("short", long, 1, true).nc.Close() // its session ends before
	watch.message("wills/short", "gone")
	_ = with("clean", long, long, true).nc.Close()
	until(t, "the client is away", func() bool { return s.Hub.Live() == 1 })
	with("clean", long, long, true) // which ends the session of the one before
	watch.message("wills/clean", "gone")
	with("over", long, long, true)
	with("over", long, long, true)
	watch.message("wills/over", "gone")
	back := with("back", long, long, true)
	again := with("back", long, long, false) // the session goes on
	back.ended(wire.TakenOver)
	again.ping()
	s.Tell(t, "wills.end", `1`)
	watch.message("wills/end", "1")
}

func sharedRule(t *testing.T, s *kept) {
	var members []*peer
	for _, name := range []string{"a", "b"} {
		hello, props := lasting(wire.V5, "ann", name)
		p := connect(t, s.Server, hello, props...)
		p.subscribed(1, "$share/q/x", "$share/q/kept/x", "TopicA")
		members = append(members, p)
	}
	ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
	const count = 10
	for i := range count {
		ben.told(0, "x", fmt.Sprint("x", i))
		ben.told(1, "kept/x", fmt.Sprint("kept", i))
	}
	ben.told(0, "TopicA", "end")
	got := make(map[string]int)
	for len(got) < 2*count+1 {
		for _, p := range members {
			p.send(wire.PingRequest)
			for {
				packet, err := p.any()
				if err != nil {
					t.Fatal(err)
				}
				if packet.Type() == wire.PINGRESP {
					break
				}
				var m wire.Publish
				if err := m.Decode(p.v, packet); err != nil {
					t.Fatal(err)
				}
				p.takes(&m)
				if got[string(m.Payload)]++; got[string(m.Payload)] > 1 && string(m.Payload) != "end" {
					t.Fatalf("%s came to both", m.Payload)
				}
			}
		}
	}
}

// clientRule: what a client may not send ends its connection.
func clientRule(t *testing.T, s *kept) {
	for name, props := range map[string][]byte{
		"subscription identifier":  wire.AppendNumber(nil, wire.SubscriptionID, 1),
		"wildcard in the response": wire.AppendText(nil, wire.ResponseTopic, "a/#"),
		"a property twice":         append(wire.AppendNumber(nil, wire.PayloadFormat, 1), wire.AppendNumber(nil, wire.PayloadFormat, 1)...),
		"payload format 2":         {byte(wire.PayloadFormat), 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := connect(t, s.Server, hi(wire.V5, "ann", ""))
			p.publish(wire.Head{Topic: "a", Properties: props}, "x")
			p.ended(wire.ProtocolError)
		})
	}
}

// takeoverRule: the former connection ends with 0x8E and its will is published; a session that goes on is present.
func takeoverRule(t *testing.T, s *kept) {
	watch := connect(t, s.Server, hi(wire.V5, "watch", ""))
	watch.subscribed(0, "wills/+")
	for _, expiry := range []uint32{0, 60} {
		c := hi(wire.V5, "ben", "phone")
		c.Clean = false
		c.HasWill, c.WillTopic, c.WillOf = true, []byte("wills/ben"), []byte("gone")
		old := connect(t, s.Server, c, wire.AppendNumber(nil, wire.SessionExpiry, expiry)...)
		fresh := connect(t, s.Server, c, wire.AppendNumber(nil, wire.SessionExpiry, expiry)...)
		fresh.publish(wire.Head{Topic: "wills/ben"}, "here") // does not overtake the will: who watches would think that the client is gone
		old.ended(wire.TakenOver)
		watch.message("wills/ben", "gone")
		watch.message("wills/ben", "here")
		if fresh.ack.Present != (expiry > 0) {
			t.Errorf("with an expiry of %d the session is present: %v", expiry, fresh.ack.Present)
		}
		fresh.send(wire.AppendDisconnect(nil, wire.V5, wire.Success, nil))
		until(t, "it is gone", func() bool { return s.Hub.Live() == 1 })
	}
}
