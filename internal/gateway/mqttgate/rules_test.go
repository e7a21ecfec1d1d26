package mqttgate_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/pubsub"
)

// The rules that public suites check of every server, one case each. docs/guides/mqtt.md lists them. Where other tests hold a rule in more
// detail, the case is short.

// heard reads packets until n messages have come, and acknowledges them. Answers to the client's own messages are passed over.
func (p *peer) heard(n int) (list []*wire.Publish) {
	p.t.Helper()
	list, p.early = p.early, nil
	for two := 0; len(list) < n || two > 0; {
		packet, err := p.any()
		if err != nil {
			p.t.Fatalf("after %d of %d messages: %v", len(list), n, err)
		}
		switch packet.Type() {
		case wire.PUBLISH:
			m := &wire.Publish{}
			if err := m.Decode(p.v, packet); err != nil {
				p.t.Fatal(err)
			}
			switch m.QoS {
			case 1:
				p.acks(wire.PUBACK, m.ID, wire.Success)
			case 2:
				p.acks(wire.PUBREC, m.ID, wire.Success)
				two++
			}
			list = append(list, m)
		case wire.PUBREL:
			var a wire.Ack
			if err := a.Decode(p.v, packet); err != nil {
				p.t.Fatal(err)
			}
			p.acks(wire.PUBCOMP, a.ID, wire.Success)
			two--
		case wire.PUBACK, wire.PUBREC, wire.PUBCOMP, wire.SUBACK:
		default:
			p.t.Fatalf("got %s among messages", packet.Type())
		}
	}
	list, p.early = list[:n:n], list[n:]
	return list
}

// takes acknowledges a message, at QoS 2 to the end.
func (p *peer) takes(m *wire.Publish) {
	p.t.Helper()
	switch m.QoS {
	case 1:
		p.send(wire.AppendAck(nil, p.v, wire.PUBACK, m.ID, wire.Success, nil))
	case 2:
		p.send(wire.AppendAck(nil, p.v, wire.PUBREC, m.ID, wire.Success, nil))
		p.released(m.ID)
		p.send(wire.AppendAck(nil, p.v, wire.PUBCOMP, m.ID, wire.Success, nil))
	}
}

// released reads packets up to a PUBREL, passing over answers to the client's own messages.
func (p *peer) released(id uint16) {
	p.t.Helper()
	for {
		packet, err := p.any()
		if err != nil {
			p.t.Fatalf("waiting for PUBREL: %v", err)
		}
		switch packet.Type() {
		case wire.PUBACK, wire.PUBREC, wire.PUBCOMP:
			continue
		case wire.PUBREL:
		default:
			p.t.Fatalf("got %s, want PUBREL", packet.Type())
		}
		var a wire.Ack
		if err := a.Decode(p.v, packet); err != nil || a.ID != id || a.Reason != wire.Success {
			p.t.Fatalf("PUBREL: %+v, %v; want that of packet %d", a, err, id)
		}
		return
	}
}

// told publishes at a QoS, to the end.
func (p *peer) told(qos byte, topic, payload string, props ...byte) {
	p.t.Helper()
	p.publish(wire.Head{QoS: qos, ID: 9, Topic: topic, Properties: props}, payload)
	switch qos {
	case 1:
		p.acked(wire.PUBACK, wire.Success)
	case 2:
		p.acked(wire.PUBREC, wire.Success)
		p.send(wire.AppendAck(nil, p.v, wire.PUBREL, 9, wire.Success, nil))
		p.acked(wire.PUBCOMP, wire.Success)
	}
}

// parts disconnects with a goodbye, and returns once the server knows that nobody is there.
func (p *peer) parts(s *kept) {
	p.t.Helper()
	p.send(wire.AppendDisconnect(nil, p.v, wire.Success, nil))
	gone(p.t, s.Server)
}

// texts are the payloads of messages.
func texts(list []*wire.Publish) (all []string) {
	for _, m := range list {
		all = append(all, string(m.Payload))
	}
	return all
}

// both are the rules of 3.1.1 and 5.
var both = map[string]func(*testing.T, *kept, wire.Version){
	"basic":                    basicRule,
	"retained objects":         retainedRule,
	"offline messages":         offlineRule,
	"overlapping filters":      overlappingRule,
	"redelivery on reconnect":  redeliveryRule,
	"client id of no length":   emptyIDRule,
	"refused subscription":     refusedFilterRule,
	"unsubscribe":              unsubscribeRule,
	"dollar topics are hidden": dollarRule,
	"keep-alive and will":      keepAliveRule,
}

func TestRulesOfBothVersions(t *testing.T) {
	for name, rule := range both {
		for _, v := range []wire.Version{wire.V311, wire.V5} {
			t.Run(fmt.Sprint(name, "/", v), func(t *testing.T) {
				t.Parallel()
				rule(t, keeping(t), v)
			})
		}
	}
}

func basicRule(t *testing.T, s *kept, v wire.Version) {
	connect(t, s.Server, hi(v, "ann", "a")).parts(s)
	p := connect(t, s.Server, hi(v, "ann", "a"))
	if got := p.subscribed(2, "TopicA"); got[0] != wire.GrantedQoS2 {
		t.Fatalf("granted %v", got)
	}
	for qos := range byte(3) {
		p.publish(wire.Head{QoS: qos, ID: uint16(qos), Topic: "TopicA"}, fmt.Sprint("qos ", qos))
		if m := p.heard(1)[0]; string(m.Payload) != fmt.Sprint("qos ", qos) || m.QoS != qos {
			t.Errorf("a message at QoS %d came as %+v", qos, m)
		}
	}
	p = connect(t, s.Server, hi(v, "ann", "a"))
	p.send(wire.AppendConnect(nil, hi(v, "ann", "a"), nil, nil))
	p.ended(wire.ProtocolError)
	r := dialRaw(t, addrOf(s.Server), v)
	if err := r.write(bytes.Replace(wire.AppendConnect(nil, hi(v, "ann", "a"), nil, nil), []byte("MQTT"), []byte("MqTT"), 1)); err != nil {
		t.Fatal(err)
	}
	if packet, err := r.next(t.Context()); err == nil {
		t.Errorf("another protocol is answered with %s", packet.Type())
	}
}

// retainedRule: objects are what is retained. An empty payload makes an object unknown, and a topic keeps nothing.
func retainedRule(t *testing.T, s *kept, v wire.Version) {
	p := connect(t, s.Server, hi(v, "ann", ""))
	p.publish(wire.Head{QoS: 1, ID: 9, Topic: "TopicA", Retain: true}, "kept by nobody")
	p.acked(wire.PUBACK, wire.Success)
	for qos := range byte(3) {
		p.publish(wire.Head{QoS: qos, ID: 9, Topic: fmt.Sprint("o/g/", qos), Retain: true}, "on")
		switch qos {
		case 1:
			p.acked(wire.PUBACK, wire.Success)
		case 2:
			p.acked(wire.PUBREC, wire.Success)
		}
	}
	late := connect(t, s.Server, hi(v, "ben", ""))
	late.subscribed(1, "TopicA", "o/g/0", "o/g/1", "o/g/2")
	for _, m := range late.heard(3) {
		if !m.Retain || string(m.Payload) != "on" {
			t.Errorf("%s came as %+v", m.Topic, m)
		}
	}
	p.publish(wire.Head{QoS: 1, ID: 8, Topic: "o/g/1", Retain: true}, "")
	if m := late.heard(1)[0]; string(m.Topic) != "o/g/1" || len(m.Payload) > 0 {
		t.Errorf("%s came as %+v", m.Topic, m)
	}
	again := connect(t, s.Server, hi(v, "eve", ""))
	again.subscribed(1, "o/g/1")
	if m := again.heard(1)[0]; len(m.Payload) > 0 {
		t.Errorf("a state that was ended comes again: %+v", m)
	}
}

func offlineRule(t *testing.T, s *kept, v wire.Version) {
	hello, props := lasting(v, "ann", "phone")
	p := connect(t, s.Server, hello, props...)
	p.subscribed(2, "kept/#")
	p.parts(s)
	ben := connect(t, s.Server, hi(v, "ben", ""))
	for qos := range byte(3) {
		ben.told(qos, "kept/a", fmt.Sprint("qos ", qos))
	}
	if p = connect(t, s.Server, hello, props...); !p.ack.Present {
		t.Error("the session is gone")
	}
	if got := texts(p.heard(2)); !slices.Equal(got, []string{"qos 1", "qos 2"}) {
		t.Errorf("got %v", got)
	}
	p.ping()
}

func overlappingRule(t *testing.T, s *kept, v wire.Version) {
	hello, props := lasting(v, "ann", "phone")
	p := connect(t, s.Server, hello, props...)
	p.subscribed(0, "kept/+")
	p.subscribed(1, "kept/#", "TopicA/#", "TopicA/+")
	p.publish(wire.Head{QoS: 1, ID: 9, Topic: "kept/c"}, "one")
	p.publish(wire.Head{QoS: 1, ID: 9, Topic: "TopicA/c"}, "two")
	p.publish(wire.Head{QoS: 1, ID: 9, Topic: "TopicA/c"}, "three")
	p.publish(wire.Head{QoS: 1, ID: 9, Topic: "kept/d"}, "four")
	qos := make(map[string]byte)
	for _, m := range p.heard(4) { // mailboxes and topics have no common order
		if _, twice := qos[string(m.Payload)]; twice {
			t.Errorf("%s came twice", m.Payload)
		}
		qos[string(m.Payload)] = m.QoS
	}
	if qos["one"] != 1 || qos["four"] != 1 || qos["two"] != 0 {
		t.Errorf("the messages came at QoS %v; want the highest that was granted", qos)
	}
	ends := connect(t, s.Server, hi(v, "eve", ""))
	ends.subscribed(2, "TopicA/#")
	ends.subscribed(1, "TopicA/+")
	ends.publish(wire.Head{QoS: 2, ID: 9, Topic: "TopicA/c"}, "once")
	if m := ends.heard(1)[0]; m.QoS != 2 {
		t.Errorf("came at QoS %d; want the highest that was granted", m.QoS)
	}
	ends.ping()
}

func redeliveryRule(t *testing.T, s *kept, v wire.Version) {
	hello, props := lasting(v, "ann", "phone")
	p := connect(t, s.Server, hello, props...)
	p.subscribed(1, "kept/#")
	ben := connect(t, s.Server, hi(v, "ben", ""))
	for i := range 3 {
		ben.told(byte(1+i%2), "kept/a", fmt.Sprint(i))
	}
	for i := range 3 {
		if m := p.message("kept/a", fmt.Sprint(i)); m.Dup {
			t.Errorf("%d is marked as sent again", i)
		}
	}
	_ = p.nc.Close()
	until(t, "its connection is gone", func() bool { return s.Hub.Live() == 1 })
	p = connect(t, s.Server, hello, props...)
	for i, m := range p.heard(3) {
		if !m.Dup || string(m.Payload) != fmt.Sprint(i) {
			t.Errorf("came again as %+v", m)
		}
	}
	p.ping()
	until(t, "the acknowledgements have been stored", func() bool {
		r, err := s.Mailbox.Recipient(t.Context(), "demo", s.boxes("kept.a")[0])
		return err == nil && r.Pending == 0
	})
	_ = ben.nc.Close()
	p.parts(s)
	connect(t, s.Server, hello, props...).ping() // and nothing comes a third time
}

func emptyIDRule(t *testing.T, s *kept, v wire.Version) {
	one, two := connect(t, s.Server, hi(v, "ann", "")), connect(t, s.Server, hi(v, "ann", ""))
	one.ping()
	two.ping() // neither ended the other
	if a, b := one.ack.Properties.Text(wire.AssignedClientID), two.ack.Properties.Text(wire.AssignedClientID); v == wire.V5 && (len(a) == 0 || len(b) == 0 || bytes.Equal(a, b)) {
		t.Errorf("the ids %q and %q were assigned, want two different ones", a, b)
	}
	nobody := hi(v, "ann", "")
	nobody.Clean = false
	p := connectWill(t, s.Server, nobody, nil, nil)
	switch {
	case v == wire.V311 && p.ack.Reason != 2:
		t.Errorf("a session of nobody is answered with %d", p.ack.Reason)
	case v == wire.V5 && (p.ack.Reason != wire.Success || p.ack.Present || len(p.ack.Properties.Text(wire.AssignedClientID)) == 0):
		t.Errorf("without an id a client is answered %+v", p.ack)
	}
}

func refusedFilterRule(t *testing.T, s *kept, v wire.Version) {
	p := connect(t, s.Server, as(hi(v, "ann", ""), s.TopicsToken(t, "ann", "rides.>")))
	got := p.subscribed(2, "test/nosubscribe", "rides/a", "other/#")
	if !got[0].Failed() || got[1] != wire.GrantedQoS2 || !got[2].Failed() || v == wire.V311 && got[0] != 0x80 {
		t.Errorf("answered with %v", got)
	}
	s.Tell(t, "test.nosubscribe", `1`)
	s.Tell(t, "other.x", `1`)
	s.Tell(t, "rides.a", `2`)
	p.message("rides/a", "2")
}

func unsubscribeRule(t *testing.T, s *kept, v wire.Version) {
	hello, props := lasting(v, "ann", "phone")
	p := connect(t, s.Server, hello, props...)
	p.subscribed(1, "TopicA", "TopicA/B", "kept/1", "kept/2", "$share/q/c1")
	p.send(wire.AppendUnsubscribe(nil, v, 77, "TopicA", "kept/1", "$share/q/c1", "never/was"))
	got := p.suback(wire.UNSUBACK)
	if v == wire.V5 && (len(got) != 4 || slices.ContainsFunc(got[:3], wire.Reason.Failed)) || v == wire.V311 && len(got) > 0 {
		t.Errorf("answered with %v", got)
	}
	p.subscribed(0, "$share/q/c2")
	ben := connect(t, s.Server, hi(v, "ben", ""))
	for _, topic := range []string{"TopicA", "kept/1", "c1", "kept/2", "TopicA/B", "c2"} {
		ben.told(1, topic, topic)
	}
	list := texts(p.heard(3))
	if slices.Sort(list); !slices.Equal(list, []string{"TopicA/B", "c2", "kept/2"}) {
		t.Errorf("got %v", list)
	}
}

func dollarRule(t *testing.T, s *kept, v wire.Version) {
	p := connect(t, s.Server, hi(v, "ann", ""))
	p.subscribed(0, "#", "+/x", "+/sessions")
	ben := connect(t, s.Server, hi(v, "ben", ""))
	taken := map[wire.Version]wire.Reason{wire.V311: wire.Success, wire.V5: wire.NoSubscribers}[v]
	for _, topic := range []string{"$TopicA/x", "$SYS/x", "$SYS/broker/connection/plant/state"} {
		ben.publish(wire.Head{Topic: topic}, "for nobody")
		ben.publish(wire.Head{QoS: 1, ID: 9, Topic: topic, Retain: true}, "for nobody")
		ben.acked(wire.PUBACK, taken)
		ben.publish(wire.Head{QoS: 2, ID: 9, Topic: topic}, "for nobody")
		ben.acked(wire.PUBREC, taken)
		ben.send(wire.AppendAck(nil, v, wire.PUBREL, 9, wire.Success, nil))
		ben.acked(wire.PUBCOMP, wire.Success)
	}
	bridge := hi(v, "plant", "")
	bridge.HasWill, bridge.WillTopic, bridge.WillOf = true, []byte("$SYS/broker/connection/plant/state"), []byte("0")
	_ = connect(t, s.Server, bridge).nc.Close()
	s.Tell(t, "%24TopicA.x", `"by others"`)
	s.Tell(t, "%24SYS.sessions", `"by others"`)
	ben.publish(wire.Head{Topic: "end"}, "end")
	p.message("end", "end")
}

// keepAliveRule: a client that is silent is gone one and a half times its keep-alive later, and its will is published. Messages are signs of life.
func keepAliveRule(t *testing.T, s *kept, v wire.Version) {
	watch := connect(t, s.Server, hi(v, "watch", ""))
	watch.subscribed(0, "wills/+")
	busy := hi(v, "busy", "")
	busy.KeepAlive = 7
	publishing := connect(t, s.Server, busy)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = publishing.write(append(wire.AppendPublish(nil, v, &wire.Head{Topic: "x"}, 1), 'x'))
			}
		}
	})
	defer running.Wait()
	defer stop()
	c := hi(v, "ben", "")
	c.KeepAlive, c.HasWill, c.WillTopic, c.WillOf = 1, true, []byte("wills/silent"), []byte("gone")
	c.Clean, c.ClientID = false, []byte("silent")
	p := connect(t, s.Server, c, wire.AppendNumber(nil, wire.SessionExpiry, 60)...)
	if got := p.ack.Properties.Number(wire.ServerKeepAlive, 0); v == wire.V5 && got != 7 {
		t.Errorf("the server's keep-alive is %d, want 7", got)
	}
	p.ended(wire.KeepAliveTimeout)
	stop()
	watch.message("wills/silent", "gone")
	if n := s.metric(t, "godwit_mqtt_sessions", "connected"); n != 1 {
		t.Error("the will came after the end of the connection, whose other side the silent client has not closed")
	}
	c.Clean = true
	publishing.ping()
	c.ClientID, c.WillTopic = []byte("polite"), []byte("wills/polite")
	polite := connect(t, s.Server, c)
	polite.send(wire.AppendDisconnect(nil, v, wire.Success, nil))
	c.ClientID, c.WillTopic = []byte("taken"), []byte("wills/taken")
	connect(t, s.Server, c)
	connect(t, s.Server, c) // takes over: the first one's will is published
	watch.message("wills/taken", "gone")
}

// TestPropertiesOfNATSClientsAreChecked: over the bus anything may come as properties of a message.
func TestPropertiesOfNATSClientsAreChecked(t *testing.T) {
	s := start(t)
	p := connect(t, s, hi(wire.V5, "ann", ""))
	p.subscribed(0, "#")
	good := string(wire.AppendUser(nil, "a", "1"))
	for _, text := range []string{"x", "\x26\x00", string(wire.AppendNumber(nil, wire.TopicAlias, 1)), good + good[:3], good} {
		if err := s.Topics.Publish(t.Context(), "demo", &pubsub.Message{Topic: "a", Data: []byte("1"), MQTT: text}); err != nil {
			t.Fatal(err)
		}
		m := p.message("a", "1")
		if v, _ := m.Properties.UserValue("a"); (string(v) == "1") != (text == good) || m.Properties.Has(wire.TopicAlias) {
			t.Errorf("%x came as %+v", text, m.Properties.User)
		}
	}
}
