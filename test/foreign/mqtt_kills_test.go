package foreign

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// TestMQTTPublishesSurviveKills: the server is killed in the middle of publishes, with some of them stored, some answered, and some neither. Every
// message whose publisher was answered comes to each device that follows its topic, in order, and to one member of each queue; every notification
// to the recipient, in order.
func TestMQTTPublishesSurviveKills(t *testing.T) {
	blackbox.Long(t)
	t.Run("SQLite", func(t *testing.T) { publishesSurvive(t, thorough.Rounds(3, 20)) })
	t.Run("PostgreSQL", func(t *testing.T) { publishesSurvive(t, thorough.Rounds(1, 20), "--postgres", pgtest.Database(t)) })
}

// between is how many messages are answered between two kills. With those that come twice they are fewer than the mailbox of a device holds.
const between = 30

func publishesSurvive(t *testing.T, kills int, store ...string) {
	t.Helper()
	server := keeping(t, store, "jobs.>")
	follow := map[string]*follower{
		"here": {filter: "jobs/+"}, "away": {filter: "jobs/+"}, "member here": {filter: "$share/q/jobs/+"}, "member away": {filter: "$share/q/jobs/+"},
		"inbox here": {filter: "inbox", of: "driver"},
	}
	for name, f := range follow {
		f.begin(t, server, name)
	}
	jobs := &pipeline{t: t, addr: mqttAddress(t, server), topic: "jobs/x", payload: strconv.Itoa}
	notes := &pipeline{t: t, addr: jobs.addr, topic: "to/driver", payload: func(n int) string { return fmt.Sprintf(`{"id":"n%d","title":"%d"}`, n, n) }}
	both := []*pipeline{jobs, notes}
	for _, p := range both {
		p.connect()
	}
	for i := range kills {
		for _, p := range both {
			p.publish(i*between + rand.N(between))
		}
		for _, p := range both {
			p.fill()
		}
		killed := time.After(rand.N(3 * time.Millisecond)) // before, in the middle of or after the commit of what is under way
		<-killed
		server.Kill()
		for _, p := range both {
			p.drain()
		}
		if err := server.Launch(); err != nil {
			t.Fatal(err)
		}
		for _, p := range both {
			p.connect()
		}
	}
	for _, p := range both {
		p.publish(kills * between)
		p.drainAll()
		t.Logf("%s: %d messages were answered, %d of them sent twice or more", p.topic, p.answered, p.repeated)
	}
	for _, name := range []string{"away", "member away"} {
		follow[name].start(t)
	}
	blackbox.Eventually(t, "all have what was answered", func() error {
		return errors.Join(follow["here"].lacks(jobs.answered), follow["away"].lacks(jobs.answered),
			lackBoth(jobs.answered, follow["member here"], follow["member away"]), follow["inbox here"].lacks(notes.answered))
	})
	for _, name := range []string{"here", "away", "inbox here"} {
		if err := follow[name].ordered(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// pipeline publishes numbers, with many of them unanswered at a time.
type pipeline struct {
	t                        *testing.T
	addr, topic              string
	payload                  func(n int) string
	nc                       net.Conn
	in                       []byte
	sent, answered, repeated int // the next number to send; the first one without an answer
}

const unanswered = 48 // fewer than the receive maximum

func (p *pipeline) connect() {
	p.t.Helper()
	nc, err := (&net.Dialer{}).DialContext(p.t.Context(), "tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = nc.Close() })
	p.nc, p.in = nc, nil
	p.repeated += p.sent - p.answered
	p.sent = p.answered // what was not answered is sent again
	p.write(wire.AppendConnect(nil, &wire.Connect{Version: wire.V5, Clean: true, KeepAlive: 60, ClientID: []byte(deviceName(p.topic)), HasUser: true, User: []byte("demo/publisher")}, nil, nil))
	packet, err := p.next()
	var ack wire.Connack
	if err == nil {
		err = ack.Decode(wire.V5, packet)
	}
	if err != nil || ack.Reason != wire.Success {
		p.t.Fatalf("the publisher is answered %+v: %v", ack, err)
	}
}

func (p *pipeline) write(b []byte) {
	p.t.Helper()
	if _, err := p.nc.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pipeline) next() (wire.Packet, error) {
	_ = p.nc.SetReadDeadline(time.Now().Add(blackbox.Patience))
	for {
		packet, n, err := wire.Next(p.in, wire.MaxRemaining)
		if err != nil || n > 0 {
			p.in = p.in[n:]
			return packet, err
		}
		buf := make([]byte, 4096)
		n, err = p.nc.Read(buf)
		if n == 0 && err != nil {
			return packet, err
		}
		p.in = append(p.in, buf[:n]...)
	}
}

// fill sends as many messages as may be unanswered.
func (p *pipeline) fill() {
	p.t.Helper()
	var b []byte
	for ; p.sent < p.answered+unanswered; p.sent++ {
		payload := p.payload(p.sent)
		h := wire.Head{QoS: 1, ID: uint16(p.sent%65535 + 1), Topic: p.topic}
		b = append(wire.AppendPublish(b, wire.V5, &h, len(payload)), payload...)
	}
	p.write(b)
}

// publish goes on until this many messages are answered.
func (p *pipeline) publish(until int) {
	p.t.Helper()
	for p.answered < until {
		p.fill()
		if err := p.answer(); err != nil {
			p.t.Fatal(err)
		}
	}
}

// answer reads one answer. They come in order.
func (p *pipeline) answer() error {
	packet, err := p.next()
	if err != nil {
		return err
	}
	var ack wire.Ack
	if err := ack.Decode(wire.V5, packet); err != nil || packet.Type() != wire.PUBACK || ack.Reason.Failed() || int(ack.ID) != p.answered%65535+1 {
		p.t.Fatalf("message %d is answered with %s %+v: %v", p.answered, packet.Type(), ack, err)
	}
	p.answered++
	return nil
}

// drain reads the answers that a killed server has sent: they hold.
func (p *pipeline) drain() {
	p.t.Helper()
	for p.answer() == nil {
	}
	_ = p.nc.Close()
}

// drainAll reads the answers to all that was sent.
func (p *pipeline) drainAll() {
	p.t.Helper()
	for p.answered < p.sent {
		if err := p.answer(); err != nil {
			p.t.Fatal(err)
		}
	}
}

// deviceName is the client id of the publisher to a topic.
func deviceName(topic string) string { return "publisher-" + strings.ReplaceAll(topic, "/", "-") }

// follower is a device that follows a topic or its mailbox: paho.golang, which connects again whenever its connection is lost.
type follower struct {
	filter string
	of     string // recipient; empty: unit
	me     command
	device *goDevice
	mu     sync.Mutex
	got    []int
	// How often it was connected, and to a session that was not there: a failing test says it.
	connected, fresh int
}

// begin subscribes, and then stays or goes away for now.
func (f *follower) begin(t *testing.T, server *blackbox.Server, name string) {
	t.Helper()
	h := newDevice(t, server)
	f.device, _ = h.device.(*goDevice)
	f.me = command{Do: "connect", ID: name, User: "demo/" + cmp.Or(f.of, "unit")}
	h.connect(f.me)
	h.subscribe(f.filter, 1, 1)
	h.Do(command{Do: "disconnect"})
	h.want("closed")
	if strings.HasSuffix(name, "here") {
		f.start(t)
	}
}

// start has the device stay, acknowledge and note what comes, until the test ends.
func (f *follower) start(t *testing.T) {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		f.device.Do(f.me)
		for {
			e, err := f.device.Next(ctx)
			if err != nil {
				return
			}
			switch {
			case e.Event == "message":
				f.mu.Lock()
				f.got = append(f.got, numberIn(e.Payload))
				f.mu.Unlock()
				f.device.Do(command{Do: "ack", Ref: e.Ref})
			case e.Event == "connected" && e.Code == 0 && e.Text == "<nil>":
				f.came(e.Present)
				if !e.Present {
					f.device.Do(command{Do: "subscribe", Filter: f.filter, QoS: 1})
				}
			case e.Event == "subscribed": // or the connection is lost, which is told
			case e.Event == "closed" && e.Ref != f.device.number: // a former connection
			default: // the server is not there
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
					return
				}
				f.device.Do(f.me)
			}
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		f.device.Do(command{Do: "drop"})
	})
}

// numberIn returns the number of a message, or of a notification.
func numberIn(payload string) int {
	var note struct{ Title string }
	if json.Unmarshal([]byte(payload), &note) == nil && note.Title != "" {
		payload = note.Title
	}
	n, err := strconv.Atoi(payload)
	if err != nil {
		return -1
	}
	return n
}

// came counts a connection.
func (f *follower) came(present bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connected++
	if !present {
		f.fresh++
	}
}

// String implements fmt.Stringer.
func (f *follower) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%s, connected %d times, %d of them without its session, has %d", f.me.ID, f.connected, f.fresh, f.got)
}

func (f *follower) all() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]int(nil), f.got...)
}

func (f *follower) lacks(answered int) error { return lackBoth(answered, f) }

// lackBoth reports what none of some devices has got.
func lackBoth(answered int, devices ...*follower) error {
	has := make(map[int]bool)
	for _, f := range devices {
		for _, n := range f.all() {
			has[n] = true
		}
	}
	for i := range answered {
		if !has[i] {
			return fmt.Errorf("%d of %d is lacking: %s", i, answered, devices)
		}
	}
	return nil
}

// ordered checks that no number came before a smaller one.
func (f *follower) ordered() error {
	next := 0
	for _, n := range f.all() {
		if n < 0 || n > next {
			return fmt.Errorf("%d came where %d was next", n, next)
		}
		if n == next {
			next++
		}
	}
	return nil
}
