package mqttgate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
)

// windowed connects a client whose session ends with its connection, and whose window has two places.
func windowed(t *testing.T, s *kept, props ...byte) *peer {
	t.Helper()
	return connect(t, s.Server, hi(wire.V5, "ann", ""), append(props, wire.AppendNumber(nil, wire.ReceiveMaximum, 2)...)...)
}

// TestTopicsOfASessionThatEndsComeAtTheirQoS: within the window, in order, and with aliases.
func TestTopicsOfASessionThatEndsComeAtTheirQoS(t *testing.T) {
	s := keeping(t)
	p := windowed(t, s, wire.AppendNumber(nil, wire.AliasMaximum, 2)...)
	if got := p.subscribed(2, "TopicA", "kept/#", "$share/q/TopicB"); !slices.Equal(got, []wire.Reason{2, 2, 0}) {
		t.Fatalf("granted %v", got)
	}
	ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
	const count = 20
	for i := range count {
		ben.told(byte(1+i%2), []string{"TopicA", "kept/1"}[i/2%2], fmt.Sprint(i))
	}
	held := []*wire.Publish{p.anyMessage(), p.anyMessage()}
	p.ping() // the others wait for a place
	p.takes(held[0])
	held = append(held, p.anyMessage())
	p.acks(wire.PUBREC, held[1].ID, wire.Success)
	p.released(held[1].ID)
	p.ping() // its place is taken until PUBCOMP
	ben.told(0, "TopicA", "at QoS 0")
	p.message("", "at QoS 0") // needs none, and its alias is known
	p.acks(wire.PUBCOMP, held[1].ID, wire.Success)
	p.takes(held[2])
	for i, m := range append(held, p.heard(count-len(held))...) {
		if string(m.Payload) != fmt.Sprint(i) || m.QoS != byte(1+i%2) || m.Dup || (len(m.Topic) > 0) != (i == 0 || i == 2) {
			t.Errorf("message %d came as %+v", i, m)
		}
	}
	p.ping()
	p.subscribed(0, "TopicA")
	p.send(wire.AppendUnsubscribe(nil, wire.V5, 77, "kept/#"))
	p.suback(wire.UNSUBACK)
	ben.told(2, "kept/1", "to nobody")
	ben.told(2, "TopicA", "lower")
	if m := p.heard(1)[0]; string(m.Payload) != "lower" || m.QoS != 0 {
		t.Errorf("after it has asked for QoS 0, the client got %+v", m)
	}
}

// TestClientThatAcknowledgesNothingMissesMessages: what waits for it has limits, and it learns how many are missing.
func TestClientThatAcknowledgesNothingMissesMessages(t *testing.T) {
	for name, c := range map[string]struct{ size, wait int }{"by number": {1, 256}, "by bytes": {60_000, 4}} {
		t.Run(name, func(t *testing.T) {
			s := keeping(t)
			p := windowed(t, s)
			p.subscribed(1, "TopicA", "$SYS/gap")
			ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
			const missed = 3
			for i := range 2 + c.wait + missed {
				ben.told(1, "TopicA", strings.Repeat(".", c.size-1)+string(rune('0'+i%10)))
			}
			held := []*wire.Publish{p.message("TopicA", ""), p.message("TopicA", "")}
			for sum := 0; sum < missed; {
				var n int
				if _, err := fmt.Sscanf(string(p.message("$SYS/gap", "").Payload), `{"gap":%d}`, &n); err != nil {
					t.Fatal(err)
				}
				sum += n
			}
			p.takes(held[0])
			p.takes(held[1])
			if got := p.heard(c.wait); len(got[0].Payload) != c.size {
				t.Errorf("got %d bytes", len(got[0].Payload))
			}
			p.ping()
			ben.told(1, "TopicA", "again")
			if m := p.heard(1)[0]; string(m.Payload) != "again" {
				t.Errorf("got %s", m.Payload)
			}
		})
	}
}

// TestTopicsAndMailboxTakeTurnsInTheWindow: neither keeps the other out.
func TestTopicsAndMailboxTakeTurnsInTheWindow(t *testing.T) {
	s := keeping(t)
	p := windowed(t, s)
	p.subscribed(1, "TopicA")
	ben := connect(t, s.Server, hi(wire.V5, "ben", ""))
	const topics, notes = 50, 4
	for i := range topics {
		ben.told(1, "TopicA", fmt.Sprint(i))
	}
	for i := range notes {
		s.Send(t, draft("ann", fmt.Sprint("ride-", i)))
	}
	held := []*wire.Publish{p.message("TopicA", "0"), p.message("TopicA", "1")}
	p.subscribed(1, "inbox")
	p.takes(held[0])
	p.takes(held[1])
	told, heard := topics, len(held)
	for got := 0; got < notes; {
		if m := p.heard(1)[0]; string(m.Topic) == "inbox" {
			got++
		} else if string(m.Payload) != fmt.Sprint(heard) {
			t.Fatalf("%s came as number %d", m.Payload, heard)
		} else if heard++; heard > 100_000 {
			t.Fatalf("%d notifications came among %d messages", got, heard)
		}
		for ; told < heard+topics; told++ { // some wait at any time
			ben.told(1, "TopicA", fmt.Sprint(told))
		}
	}
	p.heard(told - heard)
	p.ping()
}

// TestMessageThatWaitsForRoomExpires: what is left of its expiry counts when it is sent.
func TestMessageThatWaitsForRoomExpires(t *testing.T) {
	s := keeping(t)
	p := windowed(t, s, wire.AppendNumber(nil, wire.MaximumPacket, 64)...)
	p.subscribed(1, "TopicA")
	ben, last := connect(t, s.Server, hi(wire.V5, "ben", "")), connect(t, s.Server, hi(wire.V5, "last", ""))
	last.subscribed(0, "TopicA")
	expiry := func(seconds uint32) []byte {
		return wire.AppendUser(wire.AppendNumber(nil, wire.MessageExpiry, seconds), "a", "1")
	}
	ben.told(1, "TopicA", "0")
	ben.told(1, "TopicA", "1")
	ben.told(1, "TopicA", "overdue", expiry(2)...)
	ben.told(1, "TopicA", strings.Repeat("too large", 9))
	ben.told(1, "TopicA", "in time", expiry(600)...)
	held := []*wire.Publish{p.message("TopicA", "0"), p.message("TopicA", "1")}
	for string(last.message("TopicA", "").Payload) != "in time" { // it subscribed last, so p has been offered all
	}
	p.ping()
	s.pass(5 * time.Second)
	p.takes(held[0])
	m := p.message("TopicA", "in time")
	if left := m.Properties.Number(wire.MessageExpiry, 0); left == 0 || left > 595 {
		t.Errorf("it lasts %d s more", left)
	}
	if v, _ := m.Properties.UserValue("a"); string(v) != "1" {
		t.Errorf("its properties are %+v", m.Properties)
	}
	p.ping()
}
