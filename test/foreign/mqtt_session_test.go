package foreign

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/cluster"
)

// TestMQTTSessionsSurviveKills: a client whose session lasts has it after the server was killed: its mailbox, objects, topics, queues and filters, and it
// subscribes to none again.
func TestMQTTSessionsSurviveKills(t *testing.T) {
	blackbox.Long(t)
	onBothStores(t, func(t *testing.T, server *blackbox.Server) {
		clients := makers()
		if strings.HasSuffix(t.Name(), "/PostgreSQL") && !thorough.Run() {
			clients = clients[:1] // the others differ on the wire, and SQLite's server has met them
		}
		for _, m := range clients {
			t.Run(m.name, func(t *testing.T) { sessionSurvives(t, server, m) })
		}
		t.Run("its time", func(t *testing.T) { sessionEndsInTime(t, server) })
	})
}

// everyKind subscribes to everything, and to a topic that it gives up again.
func everyKind(t *testing.T, d *hand, who string) {
	t.Helper()
	d.subscribe("inbox", 1, 1)
	d.subscribe("o/"+who+"/config", 1, 1)
	comes(t, d, "o/"+who+"/config", "") // mqtt.js takes no answer before
	d.subscribe(who+"/news/+", 0, 0)
	d.subscribe("$share/q/"+who+"/work/#", 0, 0)
	d.subscribe("jobs/"+who, 1, 1)
	d.subscribe(who+"/ended", 0, 0)
	d.Do(command{Do: "unsubscribe", Filter: who + "/ended"})
	d.want("unsubscribed")
}

// comes waits for a message. What a kill kept from being acknowledged may come again before.
func comes(t *testing.T, d *hand, topic, payload string) {
	t.Helper()
	for {
		e := d.want("message")
		if e.QoS > 0 {
			d.Do(command{Do: "ack", Ref: e.Ref})
		}
		switch {
		case strings.HasSuffix(e.Topic, "/ended"):
			t.Errorf("a subscription that was given up brings %+v", e)
		case e.Topic == topic && e.Payload == payload:
			return
		}
	}
}

// everythingComes has a message come by each of these.
func everythingComes(ctx context.Context, t *testing.T, server *blackbox.Server, d *hand, who string, round int) {
	t.Helper()
	api := server.API()
	id := fmt.Sprint(who, "-", round)
	tell := func(topic string) {
		t.Helper()
		if answer, err := api.Do(ctx, http.MethodPost, "/v1/topics/"+who+"."+topic, id); err != nil || answer.Status != http.StatusAccepted {
			t.Fatalf("%v %v", answer, err)
		}
	}
	tell("ended")
	tell("news.today")
	comes(t, d, who+"/news/today", `"`+id+`"`)
	tell("work.1")
	comes(t, d, who+"/work/1", `"`+id+`"`)
	newPublisher(t, server).publish("jobs/"+who, id, 1)
	comes(t, d, "jobs/"+who, id)
	if err := api.Publish(ctx, map[string]any{"to": who, "id": id, "title": "Hi"}); err != nil {
		t.Fatal(err)
	}
	for acked := false; !acked; {
		e := d.want("message")
		d.Do(command{Do: "ack", Ref: e.Ref})
		acked = e.Topic == "inbox" && strings.Contains(e.Payload, `"`+id+`"`)
	}
	blackbox.Eventually(t, "acknowledged", func() error { return api.WantState(ctx, id, who, "acked") })
	api.Call(t, http.MethodPut, "/v1/objects/"+who+"/config", map[string]any{"payload": id}, nil)
	comes(t, d, "o/"+who+"/config", `"`+id+`"`)
}

func sessionSurvives(t *testing.T, server *blackbox.Server, m maker) {
	ctx, who := timeout(t), strings.NewReplacer(" ", "-", ".", "-").Replace(m.name)
	me := command{ID: who, User: "demo/" + who}
	d := &hand{t: t, device: m.make(t, mqttAddress(t, server))}
	if d.connect(me).Present {
		t.Error("a new client is told that it has a session")
	}
	everyKind(t, d, who)
	everythingComes(ctx, t, server, d, who, 0)
	for round, away := range []bool{false, true} {
		if away {
			d.Do(command{Do: "disconnect"})
			d.want("closed")
		}
		server.Kill()
		if !away {
			d.want("closed")
		}
		if err := server.Launch(); err != nil {
			t.Fatal(err)
		}
		d = &hand{t: t, device: m.make(t, mqttAddress(t, server))}
		if !d.connect(me).Present {
			t.Fatal("after the server was killed, the client is told that its session is gone")
		}
		everythingComes(ctx, t, server, d, who, round+1)
	}
	me.Clean = true
	d.Do(command{Do: "disconnect"})
	d.want("closed")
	if d.connect(me).Present {
		t.Error("a clean start has a session")
	}
	d.Do(command{Do: "disconnect"})
	d.want("closed")
	server.Kill()
	if err := server.Launch(); err != nil {
		t.Fatal(err)
	}
	me.Clean = false
	d = &hand{t: t, device: m.make(t, mqttAddress(t, server))}
	if d.connect(me).Present {
		t.Error("a session that a clean start has discarded is there after a kill")
	}
}

// sessionEndsInTime: whether its client was away when the server was killed, or connected.
func sessionEndsInTime(t *testing.T, server *blackbox.Server) {
	for name, c := range map[string]struct{ away, stopped bool }{"away": {away: true}, "connected": {}, "while the server is down": {true, true}} {
		me := command{ID: "brief-" + strings.ReplaceAll(name, " ", "-"), User: "demo/brief", Expiry: 1}
		d := newDevice(t, server)
		d.connect(me)
		d.subscribe("jobs/#", 1, 1)
		if c.away {
			d.Do(command{Do: "disconnect"})
			d.want("closed")
		}
		over := time.After(1100 * time.Millisecond) // a second of real time is what the client has asked for
		if c.stopped {
			server.Stop()
			<-over
		} else {
			server.Kill()
		}
		if err := server.Launch(); err != nil {
			t.Fatal(err)
		}
		if !c.stopped {
			over = time.After(1100 * time.Millisecond)
			newPublisher(t, server).publish("jobs/1", "in vain", 1)
			<-over
		}
		d = newDevice(t, server)
		if d.connect(me).Present {
			t.Errorf("%s: a session is there after its time", name)
		}
		d.subscribe(name, 0, 0)
		newPublisher(t, server).publish(name, "end", 0)
		if e := d.want("message"); e.Payload != "end" {
			t.Errorf("%s: a session whose time is over got %+v", name, e)
		}
	}
}

// TestMosquittoSubHasItsSubscriptionsAfterAKill: it follows a topic that an earlier process of it has subscribed to.
func TestMosquittoSubHasItsSubscriptionsAfterAKill(t *testing.T) {
	blackbox.Long(t)
	sub := blackbox.Tool(t, "mosquitto_sub")
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--mqtt-addr", blackbox.Free(t)))
	host, port, _ := strings.Cut(mqttAddress(t, server), ":")
	for _, version := range []string{"311", "5"} {
		ctx := timeout(t)
		args := []string{"-h", host, "-p", port, "-V", version, "-u", "demo/unit", "-i", "unit-" + version, "-c"}
		if version == "5" {
			args = append(args, "-x", "600")
		}
		if out, err := exec.CommandContext(ctx, sub, append(args, "-E", "-t", "news/#")...).CombinedOutput(); err != nil {
			t.Fatalf("mosquitto_sub: %v %s", err, out)
		}
		server.Kill()
		if err := server.Launch(); err != nil {
			t.Fatal(err)
		}
		var got []string
		err := run(ctx, t, func(line string) {
			if strings.Contains(line, "Subscribed (mid") {
				newPublisher(t, server).publish("news/today", "good", 0)
			}
			if _, message, is := strings.Cut(line, "got "); is {
				got = append(got, message)
			}
		}, "stdbuf", append([]string{"-oL", sub}, append(args, "-d", "-F", "got %t %p", "-C", "1", "-t", "another")...)...)
		if err != nil || len(got) != 1 || got[0] != "news/today good" {
			t.Errorf("%s: mosquitto_sub prints %q, %v", version, got, err)
		}
	}
}

// TestMQTTSessionsAreOnEveryNode: a client that comes to another node has its session there, whether it has left the first one, is connected to it still, or
// that node was killed.
func TestMQTTSessionsAreOnEveryNode(t *testing.T) {
	blackbox.Long(t)
	c := cluster.Start(t, cluster.Options{Serve: []blackbox.Option{blackbox.Args("--mqtt-addr", "127.0.0.1:0")}})
	if out, err := c.Nodes[0].Manage("app", "set", "demo", "--mqtt-keep", "jobs.>", "--data", c.Nodes[0].Dir, "--operator-key-file", blackbox.OperatorKey(t, c.Nodes...)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, me := timeout(t), command{ID: "unit", User: "demo/unit"}
	for _, n := range c.Nodes { // all know what is kept
		d := newDevice(t, n)
		d.connect(command{ID: "probe", User: "demo/probe", Clean: true, Expiry: 1})
		d.Do(command{Do: "disconnect"})
		d.want("closed")
	}
	d := newDevice(t, c.Nodes[0])
	d.connect(me)
	blackbox.Eventually(t, "the node lets jobs wait", func() error {
		d.Do(command{Do: "subscribe", Filter: "jobs/probe", QoS: 1})
		if e := d.want("subscribed"); len(e.Codes) != 1 || e.Codes[0] != 1 {
			return fmt.Errorf("granted %v", e.Codes)
		}
		return nil
	})
	everyKind(t, d, "unit")
	at := 0
	moves := func(to int, left bool) {
		t.Helper()
		former := d
		d = newDevice(t, c.Nodes[to])
		if !d.connect(me).Present {
			t.Fatalf("node %d does not have the session of node %d", to+1, at+1)
		}
		if !left {
			former.want("closed")
		}
		everythingComes(ctx, t, c.Nodes[to], d, "unit", to)
		at = to
	}
	moves(1, false)
	d.Do(command{Do: "disconnect"})
	d.want("closed")
	moves(2, true)
	c.Nodes[2].Kill()
	d.want("closed")
	moves(0, true)
	fresh := newDevice(t, c.Nodes[1])
	clean := me
	clean.Clean = true
	if fresh.connect(clean).Present {
		t.Error("a clean start has a session")
	}
	d.want("closed")
	fresh.Do(command{Do: "drop"})
	fresh.want("closed")
	if newDevice(t, c.Nodes[0]).connect(me).Present {
		t.Error("a session that a clean start on another node has discarded is there")
	}
}

// TestMQTTQueueOutlivesItsMembers: what waits for a member goes to another one when the member's session ends, also by a filter with wildcards.
func TestMQTTQueueOutlivesItsMembers(t *testing.T) {
	blackbox.Long(t)
	onBothStores(t, func(t *testing.T, server *blackbox.Server) {
		publisher := newPublisher(t, server)
		for name, clean := range map[string]bool{"by a clean start": true, "in time": false} {
			var topic string
			var second *hand
			// A session that ended before another member came leaves no queue behind: on a busy machine it gets more time.
			for seconds, inTime := 1, false; !inTime; seconds *= 4 {
				topic = fmt.Sprintf("jobs/%s-%d", strings.ReplaceAll(name, " ", "-"), seconds)
				share := "$share/workers/" + topic + "/#"
				one := command{ID: "one", User: "demo/one", Expiry: seconds}
				if clean {
					one.Expiry = 3600
				}
				first := newDevice(t, server)
				second = newDevice(t, server)
				first.connect(one)
				first.subscribe(share, 1, 1)
				begun := time.Now()
				leave(t, server, first, "one", 0)
				for i := range count {
					publisher.publish(fmt.Sprint(topic, "/", i), "job", 1)
				}
				second.connect(command{ID: "two", User: "demo/two"})
				second.subscribe(share, 1, 1)
				inTime = time.Since(begun) < time.Duration(one.Expiry)*time.Second
				if !inTime { // what came all the same must not wait for anybody
					for _, id := range []string{"one", "two"} {
						newDevice(t, server).connect(command{ID: id, User: "demo/" + id, Clean: true})
					}
				}
				if clean {
					one.Clean = true
					first.connect(one)
				}
			}
			times := make(map[string]int)
			for range count {
				e := second.want("message")
				second.Do(command{Do: "ack", Ref: e.Ref})
				times[e.Topic]++
			}
			for i := range count {
				if n := times[fmt.Sprint(topic, "/", i)]; n != 1 {
					t.Errorf("%s: job %d came %d times", name, i, n)
				}
			}
			leave(t, server, second, "two", 0)
		}
	})
}

// TestDelayedWillIsNotPublishedWhenTheClientIsOnAnotherNode: but that of a client which stays away is.
func TestDelayedWillIsNotPublishedWhenTheClientIsOnAnotherNode(t *testing.T) {
	blackbox.Long(t)
	c := cluster.Start(t, cluster.Options{Serve: []blackbox.Option{blackbox.Args("--mqtt-addr", "127.0.0.1:0")}})
	watcher := newDevice(t, c.Nodes[2])
	watcher.connect(command{ID: "watcher", User: "demo/watcher", Clean: true})
	watcher.subscribe("gone/+", 0, 0)
	for _, id := range []string{"back", "away"} {
		nc, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", mqttAddress(t, c.Nodes[0]))
		if err != nil {
			t.Fatal(err)
		}
		p := &talker{pipeline: &pipeline{t: t, nc: nc}}
		hello := &wire.Connect{
			Version: wire.V5, KeepAlive: 60, ClientID: []byte(id), HasUser: true, User: []byte("demo/" + id), HasWill: true, WillTopic: []byte("gone/" + id), WillOf: []byte(id),
		}
		p.write(wire.AppendConnect(nil, hello, wire.AppendNumber(nil, wire.SessionExpiry, 600), wire.AppendNumber(nil, wire.WillDelay, 1)))
		p.want(wire.CONNACK)
		_ = nc.Close()
		if id == "back" && !newDevice(t, c.Nodes[1]).connect(command{ID: id, User: "demo/" + id}).Present {
			t.Error("the session is not on the other node")
		}
	}
	watcher.message("gone/away", "away") // its will is due last
	newPublisher(t, c.Nodes[0]).publish("gone/end", "end", 1)
	watcher.message("gone/end", "end")
}
