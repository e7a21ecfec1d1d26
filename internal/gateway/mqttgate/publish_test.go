package mqttgate_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/mqttgate"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
)

func TestPublishToAMailboxIsAnsweredOnceItIsStored(t *testing.T) {
	s := start(t)
	secret, _ := key(t, s, access.Publish)
	for _, v := range []wire.Version{wire.V311, wire.V5} {
		id := fmt.Sprint("ride-", v)
		p := connect(t, s, as(hi(v, "backend", ""), secret))
		p.publish(wire.Head{QoS: 1, ID: 9, Topic: "to/" + id}, fmt.Sprintf(`{"id":%q,"title":"New ride"}`, id))
		p.acked(wire.PUBACK, wire.Success)
		if st := s.Status(t, id, id); st.String() != "stored" {
			t.Errorf("status is %s, want stored", st)
		}
		ann := connect(t, s, hi(v, id, ""))
		ann.subscribed(1, "inbox")
		m := ann.note(id)
		ann.send(wire.AppendAck(nil, v, wire.PUBACK, m.ID, wire.Success, nil))
		s.Await(t, event.Acked, id)
	}
}

func TestRefusedPublishSaysWhy(t *testing.T) {
	s := start(t)
	secret, _ := key(t, s, access.Publish)
	for name, c := range map[string]struct {
		topic, body string
		want        wire.Reason
	}{
		"no JSON":            {"to/ann", `{`, wire.InvalidPayload},
		"unknown field":      {"to/ann", `{"titel":"x"}`, wire.InvalidPayload},
		"recipient twice":    {"to/ann", `{"to":"ben","title":"x"}`, wire.InvalidPayload},
		"no recipient":       {"to/", `{"title":"x"}`, wire.InvalidPayload},
		"bad recipient":      {"to/a b", `{"title":"x"}`, wire.InvalidPayload},
		"other content":      {"to/ann", `{"id":"taken","title":"y"}`, wire.InvalidPayload},
		"mailbox of its own": {"inbox", `{}`, wire.InvalidTopic},
		"17 levels":          {strings.Repeat("a/", 16) + "a", "x", wire.InvalidTopic},
		"too long a message": {"a", strings.Repeat("x", 65<<10), wire.InvalidPayload},
		"bad version":        {"o/g/x", `1`, wire.InvalidPayload},
		"no object":          {"o/g", `1`, wire.InvalidTopic},
	} {
		t.Run(name, func(t *testing.T) {
			p := connect(t, s, as(hi(wire.V5, "backend", ""), secret))
			p.publish(wire.Head{QoS: 1, ID: 9, Topic: "to/ann"}, `{"id":"taken","title":"x"}`)
			p.acked(wire.PUBACK, wire.Success)
			h := wire.Head{QoS: 1, ID: 9, Topic: c.topic}
			if name == "bad version" {
				h.Properties = wire.AppendUser(nil, "version", "-1")
			}
			p.publish(h, c.body)
			if a := p.acked(wire.PUBACK, c.want); len(a.Properties.Text(wire.ReasonString)) == 0 {
				t.Error("there is no reason string")
			}
			p.ping() // the connection stays
		})
	}
	p := connect(t, s, as(hi(wire.V311, "backend", ""), secret))
	p.publish(wire.Head{QoS: 1, ID: 9, Topic: "to/ann"}, `{`)
	p.ended(0) // 3.1.1 has no answer, and an acknowledgement would be a lie
}

func TestTopicsGoToSubscribersOfAllProtocols(t *testing.T) {
	s := start(t)
	secret, _ := key(t, s, access.Publish)
	p := connect(t, s, as(hi(wire.V5, "backend", ""), secret))
	ann := connect(t, s, hi(wire.V5, "ann", ""))
	if got := ann.subscribed(1, "sport/#", "$share/q/jobs/+", "/+", "odd name/€"); !slices.Equal(got, []wire.Reason{1, 0, 1, 1}) {
		t.Fatalf("granted %v, want QoS 1, and 0 for a queue", got)
	}
	for i, topic := range []string{"sport", "sport/tennis/player1", "jobs/x", "/finance", "odd name/€"} {
		h := wire.Head{QoS: byte(i % 2), ID: 9, Topic: topic, Properties: wire.AppendText(nil, wire.ContentType, "text/plain")}
		p.publish(h, "hello")
		if h.QoS == 1 {
			p.acked(wire.PUBACK, wire.Success)
		}
		if m := ann.message(topic, "hello"); m.QoS != h.QoS || string(m.Properties.Text(wire.ContentType)) != "text/plain" {
			t.Errorf("%s came as %+v", topic, m)
		}
	}
	s.Tell(t, "sport.golf", `1`)
	ann.message("sport/golf", "1")
	ann.send(wire.AppendUnsubscribe(nil, wire.V5, 77, "sport/#", "never/was", "inbox"))
	if got := ann.suback(wire.UNSUBACK); got[0] != wire.Success || got[2] != wire.NoSubscription {
		t.Errorf("unsubscribed with %v", got)
	}
	s.Tell(t, "sport.golf", `2`)
	p.publish(wire.Head{Topic: "/last"}, "end")
	ann.message("/last", "end")
}

func TestRightsOfTheTokenDecideWhatIsPublished(t *testing.T) {
	s := start(t)
	p := connect(t, s, as(hi(wire.V5, "car.7", ""), publisher(t, s, "car.7", "telemetry.{sub}.>", "to.dispatch", "o.cars.{sub}", ">.never")))
	for topic, want := range map[string]wire.Reason{
		"telemetry/car.7/speed": wire.Success, "telemetry/car.8/speed": wire.NotAuthorized, "other": wire.NotAuthorized,
		"to/dispatch": wire.Success, "to/ann": wire.NotAuthorized, "o/cars/car.7": wire.Success, "o/cars/car.8": wire.NotAuthorized,
	} {
		p.publish(wire.Head{QoS: 1, ID: 9, Topic: topic}, `{"title":"x"}`)
		p.acked(wire.PUBACK, want)
	}
	all := connect(t, s, as(hi(wire.V5, "car.9", ""), publisher(t, s, "car.9", ">")))
	all.publish(wire.Head{QoS: 1, ID: 9, Topic: "any/topic"}, `x`)
	all.acked(wire.PUBACK, wire.Success)
	all.publish(wire.Head{QoS: 1, ID: 9, Topic: "to/ann"}, `{"title":"x"}`)
	all.acked(wire.PUBACK, wire.NotAuthorized) // all topics are no mailbox
	none := connect(t, s, as(hi(wire.V311, "car.8", ""), s.Token(t, "car.8", 60e9)))
	none.publish(wire.Head{Topic: "other"}, "dropped")
	none.ping()
	none.publish(wire.Head{QoS: 1, ID: 9, Topic: "other"}, "refused")
	none.ended(0)
}

func TestDeletedKeyPublishesNoMore(t *testing.T) {
	s := start(t)
	secret, id := key(t, s, access.Publish)
	p := connect(t, s, as(hi(wire.V5, "backend", ""), secret))
	p.publish(wire.Head{QoS: 1, ID: 9, Topic: "a"}, "1")
	p.acked(wire.PUBACK, wire.Success)
	if err := s.Access.DeleteKey(t.Context(), "demo", id); err != nil {
		t.Fatal(err)
	}
	p.publish(wire.Head{QoS: 1, ID: 9, Topic: "a"}, "2")
	p.acked(wire.PUBACK, wire.NotAuthorized)
}

func TestWillOfADeletedKeyIsNotPublished(t *testing.T) {
	s := start(t)
	watch := connect(t, s, hi(wire.V5, "watch", ""))
	watch.subscribed(0, "wills/+")
	secret, id := key(t, s, access.Publish)
	with := func(client, secret string) *peer {
		c := as(hi(wire.V5, "ben", client), secret)
		c.HasWill, c.WillTopic, c.WillOf = true, []byte("wills/"+client), []byte("gone")
		return connect(t, s, c)
	}
	p := with("deleted", secret)
	other, _ := key(t, s, access.Publish)
	allowed := with("allowed", other)
	if err := s.Access.DeleteKey(t.Context(), "demo", id); err != nil {
		t.Fatal(err)
	}
	_ = p.nc.Close()
	for late := time.Now().Add(gatetest.Patience); s.Hub.Live() > 2 && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	_ = allowed.nc.Close()
	watch.message("wills/allowed", "gone")
}

func TestKeyPublishesNoMoreThanItsLimit(t *testing.T) {
	var left atomic.Int64
	left.Store(2)
	s := startWith(t, func(c *mqttgate.Config) {
		c.PublishLimit = func(_ string, n int) time.Duration {
			if left.Add(int64(-n)) < 0 {
				return time.Second
			}
			return 0
		}
	})
	secret, _ := key(t, s, access.Publish)
	p := connect(t, s, as(hi(wire.V5, "backend", ""), secret))
	for _, want := range []wire.Reason{wire.Success, wire.Success, wire.QuotaExceeded} {
		p.publish(wire.Head{QoS: 1, ID: 9, Topic: "a"}, "1")
		p.acked(wire.PUBACK, want)
	}
}

func TestQoS2IsPublishedOnceUntilItIsReleased(t *testing.T) {
	s := startWith(t, func(c *mqttgate.Config) { c.QoS2 = true })
	for _, v := range []wire.Version{wire.V311, wire.V5} {
		watch := connect(t, s, hi(v, "ann", ""))
		watch.subscribed(0, "a/+")
		hello := hi(v, "ben", fmt.Sprint("ben-", v))
		hello.Clean = false
		props := wire.AppendNumber(nil, wire.SessionExpiry, 60)
		p := connect(t, s, hello, props...)
		once := wire.Head{QoS: 2, ID: 9, Topic: "a/1"}
		p.publish(once, "1")
		p.acked(wire.PUBREC, wire.Success)
		once.Dup = true
		p.publish(once, "1")
		p.acked(wire.PUBREC, wire.Success)
		_ = p.nc.Close()
		p = connect(t, s, hello, props...)
		if !p.ack.Present {
			t.Fatal("the session is gone")
		}
		p.publish(once, "1")
		p.acked(wire.PUBREC, wire.Success)
		p.send(wire.AppendAck(nil, v, wire.PUBREL, 9, wire.Success, nil))
		p.acked(wire.PUBCOMP, wire.Success)
		once.Dup = false
		p.publish(once, "2")
		p.acked(wire.PUBREC, wire.Success)
		watch.message("a/1", "1")
		watch.message("a/1", "2")
		if v == wire.V5 {
			p.send(wire.AppendAck(nil, v, wire.PUBREL, 9, wire.Success, nil))
			p.acked(wire.PUBCOMP, wire.Success)
			p.send(wire.AppendAck(nil, v, wire.PUBREL, 9, wire.Success, nil))
			p.acked(wire.PUBCOMP, wire.PacketIDNotFound)
			p.publish(wire.Head{QoS: 2, ID: 9, Topic: "to/ann"}, "{")
			p.acked(wire.PUBREC, wire.InvalidPayload)
			p.publish(wire.Head{QoS: 2, ID: 9, Topic: "a/1"}, "3") // the refused one has left its id
			p.acked(wire.PUBREC, wire.Success)
		}
	}
}

func TestAliasesStandForTheirTopics(t *testing.T) {
	s := start(t)
	ann := connect(t, s, hi(wire.V5, "ann", ""))
	ann.subscribed(0, "#")
	p := connect(t, s, hi(wire.V5, "ben", ""))
	if got := p.ack.Properties.Number(wire.AliasMaximum, 0); got != 16 {
		t.Fatalf("the alias maximum is %d", got)
	}
	alias := func(n uint32) []byte { return wire.AppendNumber(nil, wire.TopicAlias, n) }
	p.publish(wire.Head{Topic: "a/1", Properties: alias(1)}, "1")
	p.publish(wire.Head{Topic: "a/16", Properties: alias(16)}, "2")
	p.publish(wire.Head{Properties: alias(1)}, "3")
	p.publish(wire.Head{Topic: "a/2", Properties: alias(1)}, "4")
	p.publish(wire.Head{Properties: alias(1)}, "5")
	for i, topic := range []string{"a/1", "a/16", "a/1", "a/2", "a/2"} {
		ann.message(topic, fmt.Sprint(i+1))
	}
}

func TestManyPublishesOfOneClientAreAnsweredInOrder(t *testing.T) {
	s := start(t)
	for _, v := range []wire.Version{wire.V311, wire.V5} {
		p := connect(t, s, hi(v, "ben", ""))
		const count = 300
		go func() {
			for i := range count {
				if v == wire.V5 && i == 60 {
					return // as many as the receive maximum allows, and not more
				}
				h := wire.Head{QoS: 1, ID: uint16(i + 1), Topic: "to/ann"}
				if i%3 == 0 {
					h.Topic = "a/b"
				}
				body := fmt.Sprintf(`{"id":"%d-%d","title":"x","ack":"none"}`, v, i)
				if p.write(append(wire.AppendPublish(nil, v, &h, len(body)), body...)) != nil {
					return
				}
			}
		}()
		for i := range count {
			if v == wire.V5 && i == 60 {
				break
			}
			var a wire.Ack
			if err := a.Decode(v, p.want(wire.PUBACK)); err != nil || a.ID != uint16(i+1) || a.Reason != wire.Success {
				t.Fatalf("answer %d is %+v, %v", i+1, a, err)
			}
		}
	}
}
