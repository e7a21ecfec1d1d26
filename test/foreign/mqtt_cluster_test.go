package foreign

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/cluster"
)

// TestMQTTErasedRecipientLeavesNothingOnAnyNode: each node keeps in its memory the sessions of devices that left it, and an index of all filters.
func TestMQTTErasedRecipientLeavesNothingOnAnyNode(t *testing.T) {
	blackbox.Long(t)
	c := cluster.Start(t, cluster.Options{Serve: []blackbox.Option{blackbox.Args("--mqtt-addr", "127.0.0.1:0")}})
	first := c.Nodes[0]
	if out, err := first.Manage("app", "set", "demo", "--mqtt-keep", "jobs.>", "--data", first.Dir, "--operator-key-file", blackbox.OperatorKey(t, c.Nodes...)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	devices := func(i int) (unit, other *hand, me, them command) {
		unit, other = newDevice(t, c.Nodes[i]), newDevice(t, c.Nodes[i])
		return unit, other, command{ID: numbered("unit", i), User: "demo/unit"}, command{ID: numbered("other", i), User: "demo/other"}
	}
	for i, n := range c.Nodes {
		unit, other, me, them := devices(i)
		for d, who := range map[*hand]command{unit: me, other: them} {
			d.connect(who)
			blackbox.Eventually(t, "the node lets jobs wait", func() error {
				d.Do(command{Do: "subscribe", Filter: "jobs/#", QoS: 1})
				if e := d.want("subscribed"); len(e.Codes) != 1 || e.Codes[0] != 1 {
					return fmt.Errorf("granted %v", e.Codes)
				}
				return nil
			})
			d.subscribe("news/#", 0, 0)
		}
		leave(t, n, unit, "unit", 0)
		leave(t, n, other, "other", 0)
	}
	newPublisher(t, c.Nodes[1]).publish("jobs/1", "one", 1)
	if boxes := deviceMailboxes(t, first); len(boxes) != 6 {
		t.Fatalf("the message waits in %q", boxes)
	}
	if answer, err := first.API().Do(t.Context(), http.MethodDelete, "/v1/recipients/unit", nil); err != nil || answer.Status/100 != 2 {
		t.Fatalf("erase: %+v, %v", answer, err)
	}
	for i, n := range c.Nodes {
		newPublisher(t, n).publish("jobs/2", "two", 1)
		if boxes := deviceMailboxes(t, n); len(boxes) != 3 {
			t.Errorf("after the erasure a message that comes to node %d waits in %q", i+1, boxes)
		}
		unit, other, me, them := devices(i)
		if unit.connect(me).Present {
			t.Errorf("node %d has the session of an erased recipient", i+1)
		}
		if !other.connect(them).Present {
			t.Errorf("node %d has lost the session of another recipient", i+1)
		}
	}
}

// TestMQTTKeepsItsQoSAcrossNodes: a message comes from a publisher at another node as it was published, once, and in order: to a session that ends
// with its connection, and to one that was away and comes back to a third node.
func TestMQTTKeepsItsQoSAcrossNodes(t *testing.T) {
	blackbox.Long(t)
	c := cluster.Start(t, cluster.Options{Serve: []blackbox.Option{blackbox.Args("--mqtt-addr", "127.0.0.1:0", "--mqtt-qos2")}})
	if out, err := c.Nodes[0].Manage("app", "set", "demo", "--mqtt-keep", "jobs.>", "--data", c.Nodes[0].Dir, "--operator-key-file", blackbox.OperatorKey(t, c.Nodes...)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, n := range c.Nodes { // all know what is kept: one that does not ends such subscriptions
		greet(t, n, numbered("knows", i), 3600).grantedTwo("jobs/known")
	}
	for i := range c.Nodes {
		t.Run(numbered("from node", i+1), func(t *testing.T) {
			publisher, near, far := c.Nodes[i], c.Nodes[(i+1)%3], c.Nodes[(i+2)%3]
			p := greet(t, publisher, numbered("publisher", i), 0)
			topic := numbered("news", i)
			ends := followed(t, near, p, numbered("ends", i), 0, topic)
			var want []string
			for n := range 20 {
				payload := fmt.Sprint("news ", n)
				if n%2 == 0 {
					p.tell(topic, payload)
				} else {
					p.tellTwo(topic, payload)
				}
				want = append(want, fmt.Sprint(payload, " at ", 1+n%2))
			}
			if got := ends.settled(len(want)); !slices.Equal(got, want) {
				t.Errorf("got %q", got)
			}
			ends.quiet()

			lasts := followed(t, near, p, numbered("lasts", i), 3600, numbered("jobs/job", i))
			_ = lasts.nc.Close()
			want = want[:0]
			for n := range 20 {
				p.tellTwo(numbered("jobs/job", i), fmt.Sprint("job ", n))
				want = append(want, fmt.Sprint("job ", n, " at 2"))
			}
			lasts = greet(t, far, numbered("lasts", i), 3600)
			if !lasts.ack.Present {
				t.Error("the session is on one node alone")
			}
			if got := lasts.settled(len(want)); !slices.Equal(got, want) {
				t.Errorf("got %q", got)
			}
			lasts.quiet()
		})
	}
}

// grantedTwo subscribes at QoS 2, until the node lets the topic wait.
func (c *talker) grantedTwo(topic string) {
	c.t.Helper()
	blackbox.Eventually(c.t, "the node lets the topic wait", func() error {
		c.write(wire.AppendSubscribe(nil, wire.V5, 7, nil, wire.Filter{Name: []byte(topic), QoS: 2}))
		var a wire.Suback
		if err := a.Decode(wire.V5, c.want(wire.SUBACK)); err != nil || byte(a.Reasons[0]) != 2 {
			return fmt.Errorf("granted %+v: %w", a, err)
		}
		return nil
	})
}

// followed connects a client that follows a topic at QoS 2, and returns once messages of the publisher come to it.
func followed(t *testing.T, at *blackbox.Server, p *talker, name string, expiry uint32, topic string) *talker {
	t.Helper()
	c := greet(t, at, name, expiry)
	c.grantedTwo(topic)
	seen, probes := make(map[string]bool), 0
	blackbox.Eventually(t, "the publisher's node knows of the subscription", func() error {
		probes++
		p.tell(topic, fmt.Sprint(probe, probes))
		c.write(wire.PingRequest)
		for packet, err := c.next(); packet.Type() != wire.PINGRESP; packet, err = c.next() {
			var m wire.Publish
			if err := errors.Join(err, m.Decode(wire.V5, packet)); err != nil {
				t.Fatal(err)
			}
			c.acknowledge(&m)
			if seen[string(m.Payload)] {
				t.Errorf("%s came twice", m.Payload)
			}
			seen[string(m.Payload)] = true
		}
		if len(seen) == 0 {
			return errors.New("nothing came")
		}
		return nil
	})
	return c
}

const probe = "probe "

// settled settles messages that are no probes, to the end, and returns each as payload and QoS.
func (c *talker) settled(count int) (list []string) {
	c.t.Helper()
	for open := 0; len(list) < count || open > 0; {
		packet, err := c.next()
		if err != nil {
			c.t.Fatalf("after %q: %v", list, err)
		}
		if packet.Type() == wire.PUBREL {
			var a wire.Ack
			if err := a.Decode(wire.V5, packet); err != nil {
				c.t.Fatal(err)
			}
			c.answer(wire.PUBCOMP, a.ID)
			open--
			continue
		}
		var m wire.Publish
		if err := m.Decode(wire.V5, packet); err != nil {
			c.t.Fatal(err)
		}
		switch m.QoS {
		case 1:
			c.acknowledge(&m)
		case 2:
			c.answer(wire.PUBREC, m.ID)
			open++
		}
		if !strings.HasPrefix(string(m.Payload), probe) {
			list = append(list, fmt.Sprint(string(m.Payload), " at ", m.QoS))
		}
	}
	return list
}
