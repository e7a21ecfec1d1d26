package foreign

import (
	"fmt"
	"net/http"
	"testing"

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
