package foreign

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/test/blackbox"
)

// TestMQTTFieldCases tries faults that people reported of other brokers, which docs/field-cases.md names.
func TestMQTTFieldCases(t *testing.T) {
	server := keeping(t, nil, "jobs.>")
	for name, test := range map[string]func(*testing.T, *blackbox.Server){
		"what was not acknowledged comes again as a duplicate":      comesAgainAsDuplicate,
		"a half-open connection is taken over without a loss":       halfOpenIsTakenOver,
		"a client that does not read can come back at once":         standingClientComesBack,
		"the receive maximum holds after a reconnect":               receiveMaximumAfterReconnect,
		"a session without subscriptions is present":                emptySessionIsPresent,
		"a follower of figures gets its PINGRESP":                   pingBesideFigures,
		"a filter with U+0000 ends the connection":                  filterWithNUL,
		"a member that has left a queue gets nothing of it":         leftMemberGetsNothing,
		"what was acknowledged does not come again":                 acknowledgedOnce,
		"names and payloads of any bytes that are allowed are kept": anyLetters,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

// talker is a client that sends and reads packets of MQTT 5.
type talker struct {
	*pipeline
	ack wire.Connack
}

// greet connects. Without an expiry the session is clean.
func greet(t *testing.T, server *blackbox.Server, id string, expiry uint32, props ...byte) *talker {
	t.Helper()
	nc, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", mqttAddress(t, server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := &talker{pipeline: &pipeline{t: t, nc: nc}}
	if expiry > 0 {
		props = wire.AppendNumber(props, wire.SessionExpiry, expiry)
	}
	hello := &wire.Connect{Version: wire.V5, Clean: expiry == 0, KeepAlive: 60, ClientID: []byte(id), HasUser: true, User: []byte("demo/" + id)}
	c.write(wire.AppendConnect(nil, hello, props, nil))
	if err := c.ack.Decode(wire.V5, c.want(wire.CONNACK)); err != nil || c.ack.Reason != wire.Success {
		t.Fatalf("%s is answered %+v: %v", id, c.ack, err)
	}
	return c
}

// want reads the next packet, which must be of a type.
func (c *talker) want(of wire.Type) wire.Packet {
	c.t.Helper()
	p, err := c.next()
	if err != nil || p.Type() != of {
		c.t.Fatalf("got %s %x, %v; want %s", p.Type(), p.Body, err, of)
	}
	return p
}

func (c *talker) subscribe(qos, granted byte, filter string) {
	c.t.Helper()
	c.write(wire.AppendSubscribe(nil, wire.V5, 7, nil, wire.Filter{Name: []byte(filter), QoS: qos}))
	var a wire.Suback
	if err := a.Decode(wire.V5, c.want(wire.SUBACK)); err != nil || byte(a.Reasons[0]) != granted {
		c.t.Fatalf("a subscription to %s is answered %+v: %v", filter, a, err)
	}
}

// message reads a message and checks its payload.
func (c *talker) message(payload string) *wire.Publish {
	c.t.Helper()
	m := &wire.Publish{}
	if err := m.Decode(wire.V5, c.want(wire.PUBLISH)); err != nil || !strings.Contains(string(m.Payload), payload) {
		c.t.Fatalf("got %s %.200q, %v; want %s", m.Topic, m.Payload, err, payload)
	}
	return m
}

func (c *talker) acknowledge(m *wire.Publish) {
	c.t.Helper()
	c.write(wire.AppendAck(nil, wire.V5, wire.PUBACK, m.ID, wire.Success, nil))
}

// tell publishes at QoS 1 and waits for the answer.
func (c *talker) tell(topic, payload string) {
	c.t.Helper()
	h := wire.Head{QoS: 1, ID: 9, Topic: topic}
	c.write(append(wire.AppendPublish(nil, wire.V5, &h, len(payload)), payload...))
	var a wire.Ack
	if err := a.Decode(wire.V5, c.want(wire.PUBACK)); err != nil || a.Reason.Failed() {
		c.t.Fatalf("a message to %s is answered %+v: %v", topic, a, err)
	}
}

// quiet checks that nothing comes before the answer to a ping.
func (c *talker) quiet() {
	c.t.Helper()
	c.write(wire.PingRequest)
	c.want(wire.PINGRESP)
}

func comesAgainAsDuplicate(t *testing.T, server *blackbox.Server) {
	p := greet(t, server, "publisher", 0)
	c := greet(t, server, "twice", 3600)
	c.subscribe(1, 1, "inbox")
	c.subscribe(1, 1, "jobs/twice")
	p.tell("jobs/twice", "job")
	p.tell("to/twice", `{"title":"note"}`)
	for range 2 {
		if m := c.anyMessage(); m.Dup {
			t.Errorf("%s is a duplicate the first time", m.Topic)
		}
	}
	_ = c.nc.Close()
	c = greet(t, server, "twice", 3600)
	for range 2 {
		m := c.anyMessage()
		if !m.Dup {
			t.Errorf("%s comes again and is no duplicate", m.Topic)
		}
		c.acknowledge(m)
	}
	c.quiet()
}

func (c *talker) anyMessage() *wire.Publish {
	c.t.Helper()
	return c.message("")
}

func halfOpenIsTakenOver(t *testing.T, server *blackbox.Server) {
	p := greet(t, server, "publisher", 0)
	old := greet(t, server, "half", 3600)
	old.subscribe(1, 1, "jobs/half")
	p.tell("jobs/half", "one") // into a connection whose other end is gone, and does not say so
	p.tell("jobs/half", "two")
	c := greet(t, server, "half", 3600)
	if !c.ack.Present {
		t.Error("the session is gone")
	}
	for _, want := range []string{"one", "two"} {
		c.acknowledge(c.message(want))
	}
	c.quiet()
}

func standingClientComesBack(t *testing.T, server *blackbox.Server) {
	p := greet(t, server, "publisher", 0)
	old := greet(t, server, "standing", 3600)
	old.subscribe(0, 0, "flood/#")
	for i := range 200 { // more than buffers and its queue hold
		p.tell(fmt.Sprint("flood/", i), strings.Repeat("x", 60<<10))
	}
	begun := time.Now()
	c := greet(t, server, "standing", 3600)
	c.subscribe(1, 1, "jobs/standing")
	p.tell("jobs/standing", "here")
	for {
		if m := c.anyMessage(); string(m.Topic) == "jobs/standing" {
			c.acknowledge(m)
			break
		}
	}
	t.Logf("it took %s", time.Since(begun))
}

func receiveMaximumAfterReconnect(t *testing.T, server *blackbox.Server) {
	const most = 2
	p := greet(t, server, "publisher", 0)
	props := wire.AppendNumber(nil, wire.ReceiveMaximum, most)
	c := greet(t, server, "few", 3600, props...)
	c.subscribe(1, 1, "jobs/few")
	for i := range 5 {
		p.tell("jobs/few", fmt.Sprint(i))
	}
	for range 2 {
		var first *wire.Publish
		for i := range most {
			if m := c.message(fmt.Sprint(i)); first == nil {
				first = m
			}
		}
		c.quiet()
		_ = c.nc.Close()
		c = greet(t, server, "few", 3600, props...)
	}
	for i := range 5 {
		c.acknowledge(c.message(fmt.Sprint(i)))
	}
}

func emptySessionIsPresent(t *testing.T, server *blackbox.Server) {
	for _, present := range []bool{false, true} {
		c := greet(t, server, "empty", 3600)
		if c.ack.Present != present {
			t.Errorf("session present is %v", c.ack.Present)
		}
		_ = c.nc.Close()
	}
}

func pingBesideFigures(t *testing.T, server *blackbox.Server) {
	c := greet(t, server, "figures", 0)
	c.write(wire.AppendSubscribe(nil, wire.V5, 7, nil, wire.Filter{Name: []byte("$SYS/#")}))
	c.write(wire.PingRequest)
	for {
		p, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		if p.Type() == wire.PINGRESP {
			return
		}
	}
}

func filterWithNUL(t *testing.T, server *blackbox.Server) {
	c := greet(t, server, "nul", 0)
	c.write(wire.AppendSubscribe(nil, wire.V5, 7, nil, wire.Filter{Name: []byte("a\x00b")}))
	var d wire.Disconnect
	if err := d.Decode(wire.V5, c.want(wire.DISCONNECT)); err != nil || d.Reason != wire.Malformed {
		t.Errorf("answered with %#x, %v", byte(d.Reason), err)
	}
}

func leftMemberGetsNothing(t *testing.T, server *blackbox.Server) {
	p := greet(t, server, "publisher", 0)
	stays, leaves := greet(t, server, "stays", 0), greet(t, server, "leaves", 0)
	for _, c := range []*talker{stays, leaves} {
		c.subscribe(0, 0, "$share/q/work/#")
	}
	leaves.write(wire.AppendDisconnect(nil, wire.V5, wire.Success, nil))
	if _, err := leaves.next(); err == nil {
		t.Fatal("the server does not close")
	}
	for i := range 20 {
		p.tell("work/x", fmt.Sprint("job ", i, "."))
		stays.message(fmt.Sprint("job ", i, "."))
	}
}

func acknowledgedOnce(t *testing.T, server *blackbox.Server) {
	p := greet(t, server, "publisher", 0)
	c := greet(t, server, "once", 3600)
	c.subscribe(1, 1, "jobs/once")
	for i := range 3 {
		p.tell("jobs/once", fmt.Sprint("online ", i))
		c.acknowledge(c.message(fmt.Sprint("online ", i)))
	}
	c.quiet()
	_ = c.nc.Close()
	p.tell("jobs/once", "offline")
	for range 2 {
		c = greet(t, server, "once", 3600)
		m := c.message("offline")
		c.quiet()
		_ = c.nc.Close()
		_ = m
	}
	c = greet(t, server, "once", 3600)
	c.acknowledge(c.message("offline"))
	c.quiet()
}

func anyLetters(t *testing.T, server *blackbox.Server) {
	p := greet(t, server, "publisher", 0)
	c := greet(t, server, "letters", 0)
	c.subscribe(0, 0, "中文/#")
	payload := "abc\x00\xff°C"
	p.tell("中文/°$unit/a b", payload)
	if m := c.message(payload); string(m.Topic) != "中文/°$unit/a b" || string(m.Payload) != payload {
		t.Errorf("came as %q %q", m.Topic, m.Payload)
	}
}
