package wire

import (
	"bytes"
	"errors"
	"testing"
)

// decoded is a packet as the decoders read it, of either side.
func decoded(v Version, p Packet) (any, error) {
	switch p.Type() {
	case CONNECT:
		var c Connect
		return &c, c.Decode(p)
	case CONNACK:
		var c Connack
		return &c, c.Decode(v, p)
	case PUBLISH:
		var m Publish
		return &m, m.Decode(v, p)
	case PUBACK, PUBREC, PUBREL, PUBCOMP:
		var a Ack
		return &a, a.Decode(v, p)
	case SUBSCRIBE, UNSUBSCRIBE:
		var s Subscribe
		return &s, s.Decode(v, p)
	case SUBACK, UNSUBACK:
		var s Suback
		return &s, s.Decode(v, p)
	case DISCONNECT, AUTH:
		var d Disconnect
		return &d, d.Decode(v, p)
	default:
		return nil, Empty(p)
	}
}

const fuzzMost = 1 << 16

// FuzzPackets checks that no input breaks the parser, that its results do not depend on how reads cut the input, and that every error has a
// reason code.
func FuzzPackets(f *testing.F) {
	c := &Connect{
		Version: V5, Clean: true, KeepAlive: 60, ClientID: []byte("c"), HasUser: true, User: []byte("demo/ann"), HasPassword: true, Password: []byte("key"),
		HasWill: true, WillQoS: 1, WillTopic: []byte("a/b"), WillOf: []byte("gone"),
	}
	f.Add(AppendConnect(nil, c, AppendNumber(nil, SessionExpiry, 60), AppendNumber(nil, WillDelay, 5)), true)
	c.Version = V311
	f.Add(AppendConnect(nil, c, nil, nil), false)
	h := &Head{QoS: 1, ID: 7, Topic: "a/b", Properties: AppendUser(AppendNumber(nil, TopicAlias, 3), "name", "value")}
	f.Add(append(AppendPublish(nil, V5, h, 2), "hi"...), true)
	f.Add(AppendSubscribe(nil, V5, 9, nil, Filter{Name: []byte("$share/q/a/#"), QoS: 1, Retaining: 2}), true)
	f.Add(append(AppendUnsubscribe(nil, V311, 9, "a/+"), PingRequest...), false)
	f.Add(AppendAck(nil, V5, PUBACK, 1, Unspecified, AppendText(nil, ReasonString, "no")), true)
	f.Add(AppendAck(AppendAck(AppendAck(nil, V5, PUBREC, 2, Success, nil), V5, PUBREL, 2, PacketIDNotFound, nil), V5, PUBCOMP, 2, Success, nil), true)
	f.Add(AppendSubscribe(nil, V5, 9, AppendNumber(nil, SubscriptionID, 1<<28-1), Filter{Name: []byte("a"), QoS: 2, NoLocal: true}), true)
	f.Add(AppendDisconnect(nil, V5, TakenOver, nil), true)
	f.Fuzz(func(t *testing.T, in []byte, five bool) {
		v := V311
		if five {
			v = V5
		}
		for at := 0; at < len(in); {
			p, n, err := Next(in[at:], fuzzMost)
			for cut := range min(len(in)-at, 8) { // a shorter piece says the same or less
				if _, m, early := Next(in[at:at+cut], fuzzMost); m != 0 && m != n || early != nil && err == nil {
					t.Fatalf("%d bytes give %d, %v; all give %d, %v", cut, m, early, n, err)
				}
			}
			if err != nil {
				reasoned(t, err)
				return
			}
			if n == 0 {
				return
			}
			if n != Size(in[at:]) {
				t.Fatalf("the packet has %d bytes, and Size says %d", n, Size(in[at:]))
			}
			if _, err := decoded(v, p); err != nil {
				reasoned(t, err)
				return
			}
			at += n
		}
	})
}

func reasoned(t *testing.T, err error) {
	t.Helper()
	if _, version := errors.AsType[*UnsupportedError](err); version {
		return
	}
	if e, ok := errors.AsType[*Error](err); !ok || !e.Reason.Failed() || e.Text == "" {
		t.Fatalf("%v has no reason code", err)
	}
}

// FuzzPublish checks that a PUBLISH packet is read as it was written.
func FuzzPublish(f *testing.F) {
	f.Add("a/b", byte(1), uint16(7), "application/json", []byte(`{}`), true)
	f.Add("/", byte(0), uint16(0), "", []byte{0, 255}, false)
	f.Fuzz(func(t *testing.T, topic string, qos byte, id uint16, contentType string, payload []byte, five bool) {
		h := Head{Topic: topic, QoS: qos % 3, ID: max(id, 1)}
		v := V311
		if five {
			v = V5
			h.Properties = AppendText(nil, ContentType, contentType)
		}
		b := append(AppendPublish(nil, v, &h, len(payload)), payload...)
		if want := h.Size(v, len(payload)); len(b) != want {
			t.Fatalf("the packet has %d bytes, and Size says %d", len(b), want)
		}
		p, n, err := Next(b, MaxRemaining)
		if err != nil || n != len(b) {
			t.Fatalf("%d of %d bytes, %v", n, len(b), err)
		}
		var m Publish
		if err := m.Decode(v, p); err != nil {
			if !validName([]byte(topic)) || !validText([]byte(topic)) || !validText([]byte(contentType)) || len(topic) > maxString {
				return
			}
			t.Fatal(err)
		}
		if string(m.Topic) != topic || m.QoS != h.QoS || !bytes.Equal(m.Payload, payload) || five && len(contentType) <= maxString && string(m.Properties.Text(ContentType)) != contentType {
			t.Errorf("%+v was read as %+v", h, m)
		}
	})
}

// FuzzAged reads properties that came over the bus, where anybody may have written them.
func FuzzAged(f *testing.F) {
	f.Add(AppendUser(AppendNumber(AppendNumber(nil, PayloadFormat, 1), MessageExpiry, 60), "name", "value"), uint32(7))
	f.Add(AppendText(AppendNumber(nil, MessageExpiry, 7), CorrelationData, "\x00"), uint32(7))
	f.Fuzz(func(t *testing.T, b []byte, seconds uint32) {
		if !CheckForwarded(b) {
			return
		}
		var before, after Properties
		read := func(b []byte, p *Properties) {
			r := reader{of: PUBLISH, b: appendBlock(nil, b)}
			if err := r.properties(PUBLISH, p); err != nil {
				t.Fatal(err)
			}
		}
		read(b, &before)
		aged, over := Aged(b, seconds)
		left := before.Number(MessageExpiry, 1<<32-1)
		if over != (before.Has(MessageExpiry) && left <= seconds) {
			t.Fatalf("after %d of %d s, over is %v", seconds, left, over)
		}
		if over {
			return
		}
		if read(aged, &after); before.Has(MessageExpiry) && after.Number(MessageExpiry, 0) != left-seconds {
			t.Errorf("after %d of %d s, %d are left", seconds, left, after.Number(MessageExpiry, 0))
		}
		if !bytes.Equal(before.AppendForwarded(nil), after.AppendForwarded(nil)) {
			t.Errorf("%x became %x", b, aged)
		}
	})
}
