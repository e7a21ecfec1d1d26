package foreign

import (
	"fmt"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// keeping starts a server whose app lets messages of these topics wait for clients of MQTT.
func keeping(t *testing.T, store []string, patterns ...string) *blackbox.Server {
	t.Helper()
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--mqtt-addr", blackbox.Free(t)), blackbox.Args(store...))
	args := []string{"app", "set", "demo", "--data", server.Dir}
	for _, p := range patterns {
		args = append(args, "--mqtt-keep", p)
	}
	if out, err := server.Manage(args...); err != nil {
		t.Fatal(out)
	}
	d := newDevice(t, server)
	d.connect(command{ID: "probe", User: "demo/probe"})
	filter := strings.NewReplacer(".", "/", ">", "#").Replace(patterns[0])
	blackbox.Eventually(t, "the server knows what it is to keep", func() error {
		d.Do(command{Do: "subscribe", Filter: filter, QoS: 1})
		if e := d.want("subscribed"); len(e.Codes) != 1 || e.Codes[0] != 1 {
			return fmt.Errorf("granted %v", e.Codes)
		}
		return nil
	})
	d.Do(command{Do: "unsubscribe", Filter: filter})
	d.want("unsubscribed")
	d.Do(command{Do: "disconnect"})
	d.want("closed")
	return server
}

func newDevice(t *testing.T, server *blackbox.Server) *hand {
	t.Helper()
	return &hand{t: t, device: &goDevice{addr: mqttAddress(t, server), events: make(chan happening, 4096)}}
}

// newPublisher connects a device that publishes.
func newPublisher(t *testing.T, server *blackbox.Server) *hand {
	t.Helper()
	d := newDevice(t, server)
	d.connect(command{ID: "publisher", User: "demo/publisher", Clean: true})
	return d
}

// onBothStores tests servers that let messages of jobs.> wait.
func onBothStores(t *testing.T, test func(*testing.T, *blackbox.Server)) {
	t.Run("SQLite", func(t *testing.T) { test(t, keeping(t, nil, "jobs.>")) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, keeping(t, []string{"--postgres", pgtest.Database(t)}, "jobs.>")) })
}

// leave disconnects a device once the server has its acknowledgements, and waits until the server knows that it is gone.
func leave(t *testing.T, server *blackbox.Server, d *hand, recipient string, others int) {
	t.Helper()
	api := server.API()
	blackbox.Eventually(t, "acknowledged", func() error {
		if n, err := api.Pending(t.Context()); err != nil || n > 0 {
			return fmt.Errorf("%d are pending: %w", n, err)
		}
		return nil
	})
	d.Do(command{Do: "disconnect"})
	d.want("closed")
	blackbox.Eventually(t, "gone", func() error {
		var r struct{ Sessions []any }
		answer, err := api.Do(t.Context(), "GET", "/v1/recipients/"+recipient, nil)
		if err == nil && answer.Status == 200 {
			err = answer.JSON(&r)
		}
		if err == nil && len(r.Sessions) > others {
			return fmt.Errorf("%d sessions", len(r.Sessions))
		}
		return err
	})
}

// TestMQTTTopicsWaitForThoseWhoAreAway: messages of QoS 1 wait for a device that is away, each for one member of a queue; nothing waits that the
// app does not allow, after UNSUBSCRIBE, or for a clean session.
func TestMQTTTopicsWaitForThoseWhoAreAway(t *testing.T) {
	blackbox.Long(t)
	onBothStores(t, topicsWait)
}

func topicsWait(t *testing.T, server *blackbox.Server) {
	t.Helper()
	publisher := newPublisher(t, server)
	me := command{ID: "unit", User: "demo/unit"}
	d := newDevice(t, server)
	d.connect(me)
	d.subscribe("jobs/#", 1, 1)
	d.subscribe("news/#", 1, 0)
	publisher.publish("jobs/1", "one", 1)
	if e := d.message("jobs/1", "one"); e.QoS != 1 {
		t.Errorf("a message of QoS 1 came at QoS %d", e.QoS)
	}
	publisher.publish("jobs/2", "two", 0) // which paho.golang does not wait for
	if e := d.message("jobs/2", "two"); e.QoS != 0 {
		t.Errorf("a message of QoS 0 came at QoS %d", e.QoS)
	}
	leave(t, server, d, "unit", 0)
	publisher.publish("jobs/3", "three", 1)
	publisher.publish("news/1", "lost", 1)
	publisher.publish("jobs/4", "four", 1)
	if !d.connect(me).Present {
		t.Error("the session is gone")
	}
	d.message("jobs/3", "three")
	d.message("jobs/4", "four")
	d.Do(command{Do: "unsubscribe", Filter: "jobs/#"})
	d.want("unsubscribed")
	publisher.publish("jobs/5", "to nobody", 1)
	d.subscribe("jobs/#", 1, 1)
	leave(t, server, d, "unit", 0)
	publisher.publish("jobs/6", "waits in vain", 1)
	me.Clean = true
	d.connect(me)
	d.subscribe("jobs/#", 1, 1)
	blackbox.Eventually(t, "nothing waits for the former session", func() error {
		if n, err := server.API().Pending(t.Context()); err != nil || n > 0 {
			return fmt.Errorf("%d are pending: %w", n, err)
		}
		return nil
	})
	publisher.publish("jobs/7", "seven", 1)
	if n, err := server.API().Pending(t.Context()); err != nil || n > 0 {
		t.Errorf("for a clean session %d messages wait on disk, %v", n, err)
	}
	if e := d.message("jobs/7", "seven"); e.QoS != 1 {
		t.Errorf("a message of QoS 1 came at QoS %d", e.QoS)
	}
}

// TestMQTTErasedRecipientLeavesNothing: with a recipient go the filters of its devices and the messages that wait for them.
func TestMQTTErasedRecipientLeavesNothing(t *testing.T) {
	onBothStores(t, eraseUnit)
}

func eraseUnit(t *testing.T, server *blackbox.Server) {
	t.Helper()
	publisher := newPublisher(t, server)
	me := command{ID: "unit", User: "demo/unit"}
	d := newDevice(t, server)
	d.connect(me)
	d.subscribe("jobs/#", 1, 1)
	leave(t, server, d, "unit", 0)
	publisher.publish("jobs/1", "one", 1)
	if boxes := deviceMailboxes(t, server); len(boxes) != 1 {
		t.Fatalf("the message waits in %q", boxes)
	}
	answer, err := server.API().Do(t.Context(), "DELETE", "/v1/recipients/unit", nil)
	if err != nil || answer.Status/100 != 2 {
		t.Fatalf("erase: %+v, %v", answer, err)
	}
	publisher.publish("jobs/2", "two", 1)
	if boxes := deviceMailboxes(t, server); len(boxes) > 0 {
		t.Errorf("after the erasure messages wait in %q", boxes)
	}
	if d.connect(me).Present {
		t.Error("the session of an erased recipient is there")
	}
}

// deviceMailboxes lists the mailboxes of MQTT devices. A device has one once something waits for it.
func deviceMailboxes(t *testing.T, server *blackbox.Server) (names []string) {
	t.Helper()
	var list struct{ Items []struct{ ID string } }
	answer, err := server.API().Do(t.Context(), "GET", "/v1/recipients?limit=1000", nil)
	if err == nil {
		err = answer.JSON(&list)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Items {
		if strings.HasPrefix(r.ID, "mqtt:") {
			names = append(names, r.ID)
		}
	}
	return names
}

// TestMQTTQueueMembersShareWhatWaits: each message waits for one member of a queue, and for one that is here if there is one.
func TestMQTTQueueMembersShareWhatWaits(t *testing.T) {
	server := keeping(t, nil, "jobs.>")
	publisher := newPublisher(t, server)
	members := []*hand{newDevice(t, server), newDevice(t, server)}
	for i, m := range members {
		m.connect(command{ID: numbered("member", i), User: "demo/worker"})
		m.subscribe("$share/workers/jobs/#", 1, 1)
	}
	leave(t, server, members[1], "worker", 1)
	for i := range count {
		publisher.publish(fmt.Sprint("jobs/", i), "job", 1)
		members[0].message(fmt.Sprint("jobs/", i), "job")
	}
	leave(t, server, members[0], "worker", 0)
	for i := range count {
		publisher.publish(fmt.Sprint("jobs/", i), "job", 1)
	}
	times := make(map[string]int)
	for i, m := range members {
		m.connect(command{ID: numbered("member", i), User: "demo/worker"})
		for range count / len(members) { // they take turns
			e := m.want("message")
			m.Do(command{Do: "ack", Ref: e.Ref})
			times[e.Topic]++
		}
	}
	for i := range count {
		if n := times[fmt.Sprint("jobs/", i)]; n != 1 {
			t.Errorf("job %d came %d times", i, n)
		}
	}
}
