package mqttgate_test

import (
	"bytes"
	"crypto/rand"
	"slices"
	"testing"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/objects/object"
)

// subscriptionIDRule: each message has the identifiers of all subscriptions that it matches, also at the next connection.
func subscriptionIDRule(t *testing.T, s *kept) {
	hello, props := lasting(wire.V5, "ann", "phone")
	p := connect(t, s.Server, hello, props...)
	if p.ack.Properties.Has(wire.SubIDsHere) {
		t.Error("CONNACK says something of subscription identifiers, which a client takes for granted")
	}
	subscribe := func(id uint32, qos byte, filters ...string) {
		t.Helper()
		list := make([]wire.Filter, len(filters))
		for i, f := range filters {
			list[i] = wire.Filter{Name: []byte(f), QoS: qos}
		}
		var with []byte
		if id > 0 {
			with = wire.AppendNumber(nil, wire.SubscriptionID, id)
		}
		p.send(wire.AppendSubscribe(nil, wire.V5, 77, with, list...))
		if got := p.suback(wire.SUBACK); slices.ContainsFunc(got, wire.Reason.Failed) {
			t.Fatalf("answered with %v", got)
		}
	}
	const a, b, c = 456789, 1<<28 - 1, 7
	subscribe(a, 1, "TopicA", "inbox", "kept/1")
	subscribe(b, 2, "TopicA/#", "kept/+", "$share/q/work/+")
	subscribe(c, 0, "#")
	ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
	check := func(topic string, want ...uint32) {
		t.Helper()
		packet := p.want(wire.PUBLISH)
		var m wire.Publish
		if err := m.Decode(p.v, packet); err != nil {
			t.Fatal(err)
		}
		p.takes(&m)
		var ids []byte
		for _, id := range want {
			ids = wire.AppendNumber(ids, wire.SubscriptionID, id)
		}
		more := append(slices.Clone(ids), byte(wire.SubscriptionID))
		if string(m.Topic) != topic || !bytes.Contains(packet.Body, ids) || bytes.Contains(packet.Body, more) || m.Properties.Has(wire.SubscriptionID) != (len(want) > 0) {
			t.Errorf("%s came with %x, want %s with %x", m.Topic, packet.Body, topic, ids)
		}
	}
	for range 2 {
		ben.told(0, "TopicA", "x")
		check("TopicA", a, b, c)
		ben.told(2, "kept/1", "x")
		check("kept/1", a, b, c)
		ben.told(0, "work/2", "x") // once by the queue, and once by #
		check("work/2", b, c)
		check("work/2", b, c)
		s.Tell(t, "other", `1`)
		check("other", c)
		s.Send(t, draft("ann", rand.Text()))
		check("inbox", a)
		s.pendingOf(t, "ann", 0)
		_ = p.nc.Close()
		until(t, "its connection is gone", func() bool { return s.Hub.Live() == 1 })
		p = connect(t, s.Server, hello, props...)
	}
	subscribe(0, 0, "TopicA")
	p.send(wire.AppendUnsubscribe(nil, wire.V5, 77, "#"))
	p.suback(wire.UNSUBACK)
	ben.told(0, "TopicA", "x")
	check("TopicA", b)
	subscribe(0, 0, "TopicA/#")
	ben.told(0, "TopicA", "x")
	check("TopicA")
	p = connect(t, s.Server, hi(wire.V5, "eve", ""))
	subscribe(a, 1, "TopicB")
	ben.told(1, "TopicB", "x")
	check("TopicB", a)
	s.Put(t, "x", object.Put{Payload: []byte(`1`)})
	p.send(wire.AppendSubscribe(nil, wire.V5, 77, wire.AppendNumber(nil, wire.SubscriptionID, a), wire.Filter{Name: []byte("o/region-1/x"), QoS: 1}))
	if m := p.heard(1)[0]; m.Properties.Number(wire.SubscriptionID, 0) != a {
		t.Errorf("came as %+v", m)
	}
}
