package foreign

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// TestMQTTClients: what clients of MQTT do elsewhere, they do here.
func TestMQTTClients(t *testing.T) {
	blackbox.Long(t)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--mqtt-addr", "127.0.0.1:0"))
	for _, m := range makers() {
		t.Run(m.name, func(t *testing.T) { everything(t, server, mqttAddress(t, server), m) })
	}
}

// TestMQTTOverWebSocket: browsers and what is behind a proxy connect to /mqtt.
func TestMQTTOverWebSocket(t *testing.T) {
	blackbox.Long(t)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--mqtt-addr", "127.0.0.1:0"))
	for _, version := range []string{"4", "5"} {
		everything(t, server, server.HTTP, maker{"mqtt.js over WebSocket " + version, version == "5", func(t *testing.T, addr string) device {
			return startNode(t, "ws://"+addr+"/mqtt", version)
		}})
	}
}

// everything has a client do all that a client of MQTT can do here.
func everything(t *testing.T, server *blackbox.Server, addr string, m maker) {
	t.Helper()
	who := strings.NewReplacer(" ", "-", ".", "-").Replace(m.name)
	start := func() *hand { return &hand{t: t, device: m.make(t, addr)} }
	t.Run("inbox", func(t *testing.T) { inboxComesAgain(t, server, start(), who) })
	t.Run("counts", func(t *testing.T) { countsReachAClient(t, server, start(), who) })
	t.Run("object", func(t *testing.T) { objectIsRetained(t, server, start(), who) })
	t.Run("topic", func(t *testing.T) { topicsAreShared(t, server, []*hand{start(), start()}, who) })
	t.Run("will", func(t *testing.T) { willFollowsALostClient(t, start(), start(), who) })
}

// inboxComesAgain: what was not acknowledged comes again at the next connection, without a new subscription; what was does not.
func inboxComesAgain(t *testing.T, server *blackbox.Server, d *hand, who string) {
	ctx, api := timeout(t), server.API()
	d.t = t
	d.why = func() string { return serverSide(api, numbered(who, 0), who) }
	me := command{ID: who, User: "demo/" + who}
	if d.connect(me).Present {
		t.Error("a new client is told that it has a session")
	}
	d.subscribe("inbox", 1, 1)
	for i := range 2 {
		if err := api.Publish(ctx, map[string]any{"to": who, "id": numbered(who, i), "title": "Blåbær ☕"}); err != nil {
			t.Fatal(err)
		}
	}
	d.Do(command{Do: "ack", Ref: d.note(numbered(who, 0)).Ref})
	blackbox.Eventually(t, "acknowledged", func() error { return api.WantState(ctx, numbered(who, 0), who, "acked") })
	d.note(numbered(who, 1))
	d.Do(command{Do: "drop"})
	d.want("closed")
	if !d.connect(me).Present {
		t.Error("a client that comes back is told that its session is gone")
	}
	d.Do(command{Do: "ack", Ref: d.note(numbered(who, 1)).Ref})
	blackbox.Eventually(t, "acknowledged", func() error { return api.WantState(ctx, numbered(who, 1), who, "acked") })
	d.Do(command{Do: "publish", Topic: "to/" + who, Payload: `{"id":"` + who + `-self","title":"To myself"}`, QoS: 1})
	d.Do(command{Do: "ack", Ref: d.note(who + "-self").Ref}) // mqtt.js takes no answer before
	d.published("to/" + who)
	blackbox.Eventually(t, "acknowledged", func() error { return api.WantState(ctx, who+"-self", who, "acked") })
	d.Do(command{Do: "disconnect"})
}

// objectIsRetained: a subscriber gets an object's state at once, and each later one.
func objectIsRetained(t *testing.T, server *blackbox.Server, d *hand, who string) {
	api := server.API()
	d.t = t
	put := func(state string) {
		api.Call(t, http.MethodPut, "/v1/objects/"+who+"/config", map[string]any{"payload": state}, nil)
	}
	put("on")
	d.connect(command{ID: who + "-o", User: "demo/" + who, Clean: true})
	d.subscribe("o/"+who+"/config", 1, 1)
	if e := d.message("o/"+who+"/config", `"on"`); !e.Retain {
		t.Error("the object's state is no retained message")
	}
	put("off")
	d.message("o/"+who+"/config", `"off"`)
	d.Do(command{Do: "publish", Topic: "o/" + who + "/config", Payload: "dimmed", QoS: 1})
	d.message("o/"+who+"/config", "dimmed")
	d.published("o/" + who + "/config")
	d.Do(command{Do: "disconnect"})
}

// topicsAreShared: two members of a queue get each message once, and another subscription gets all.
func topicsAreShared(t *testing.T, server *blackbox.Server, members []*hand, who string) {
	ctx, api := timeout(t), server.API()
	for i := range members {
		members[i].t = t
		members[i].connect(command{ID: numbered(who, i), User: "demo/" + who, Clean: true})
		members[i].subscribe("$share/workers/"+who+"/jobs/#", 0, 0)
	}
	members[0].subscribe(who+"/news/+", 0, 0)
	members[1].publish(who+"/news/today", "good", 1)
	members[0].message(who+"/news/today", "good")
	if answer, err := api.Do(ctx, http.MethodPost, "/v1/topics/"+who+".news.later", "better"); err != nil || answer.Status != http.StatusAccepted {
		t.Fatalf("%v %v", answer, err)
	}
	members[0].message(who+"/news/later", `"better"`)
	times := make(map[string]int)
	got := make(chan happening)
	for _, m := range members {
		go func() {
			for {
				e, err := m.Next(ctx)
				if err != nil {
					return
				}
				if e.Event == "message" {
					got <- e
				}
			}
		}()
	}
	for i := range count {
		if answer, err := api.Do(ctx, http.MethodPost, fmt.Sprintf("/v1/topics/%s.jobs.%d", who, i), "job"); err != nil || answer.Status != http.StatusAccepted {
			t.Fatalf("%v %v", answer, err)
		}
	}
	for range count {
		select {
		case e := <-got:
			if times[e.Topic]++; times[e.Topic] > 1 {
				t.Errorf("%s came twice", e.Topic)
			}
		case <-ctx.Done():
			t.Fatalf("%d of %d messages came", len(times), count)
		}
	}
}

// willFollowsALostClient: the will of a client whose connection is lost is published; that of one which says goodbye is not.
func willFollowsALostClient(t *testing.T, watcher, lost *hand, who string) {
	watcher.t, lost.t = t, t
	watcher.connect(command{ID: who + "-w", User: "demo/" + who, Clean: true})
	watcher.subscribe(who+"/gone/#", 0, 0)
	polite := command{ID: who + "-l", User: "demo/" + who, Clean: true, Will: who + "/gone/politely", Payload: "must not come"}
	lost.connect(polite)
	lost.Do(command{Do: "disconnect"})
	lost.want("closed")
	// Another client: the goodbye of the first may be read after the next connection of the same client has taken over.
	lost.connect(command{ID: who + "-s", User: "demo/" + who, Clean: true, Will: who + "/gone/suddenly", Payload: "gone"})
	lost.Do(command{Do: "drop"})
	watcher.message(who+"/gone/suddenly", "gone")
}

// TestMosquittoClients: mosquitto_sub and mosquitto_pub, in each version.
func TestMosquittoClients(t *testing.T) {
	blackbox.Long(t)
	sub, pub := blackbox.Tool(t, "mosquitto_sub"), blackbox.Tool(t, "mosquitto_pub")
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--mqtt-addr", "127.0.0.1:0"))
	host, port, _ := strings.Cut(mqttAddress(t, server), ":")
	for _, version := range []string{"311", "5"} {
		t.Run(version, func(t *testing.T) {
			ctx, api, who := timeout(t), server.API(), "mosquitto-"+version
			args := func(more ...string) []string {
				return append([]string{"-h", host, "-p", port, "-V", version, "-u", "demo/" + who}, more...)
			}
			publish := func(more ...string) {
				t.Helper()
				if out, err := exec.CommandContext(ctx, pub, args(more...)...).CombinedOutput(); err != nil {
					t.Fatalf("mosquitto_pub: %v %s", err, out)
				}
			}
			var printed []string
			listen := func(want int, begin string, more ...string) (got []string) {
				t.Helper()
				err := run(ctx, t, func(line string) {
					printed = append(printed, line)
					if strings.Contains(line, "Subscribed (mid") && begin != "" {
						publish("-q", "1", "-t", begin, "-m", "hello")
					}
					if _, message, is := strings.Cut(line, "got "); is {
						got = append(got, message)
					}
				}, "stdbuf", append([]string{"-oL", sub}, args(append([]string{"-d", "-F", "got %t %q %r %p", "-C", fmt.Sprint(want)}, more...)...)...)...)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			for i := range 2 {
				if err := api.Publish(ctx, map[string]any{"to": who, "id": numbered(who, i), "title": "Hi"}); err != nil {
					t.Fatal(err)
				}
			}
			got := listen(2, "", "-i", who, "-c", "-q", "1", "-t", "inbox")
			if len(got) != 2 || !strings.HasPrefix(got[0], "inbox 1 0 {") || !strings.Contains(got[1], numbered(who, 1)) {
				t.Errorf("mosquitto_sub prints %q", got)
			}
			blackbox.Eventually(t, "acknowledged", func() error {
				if err := api.WantState(ctx, numbered(who, 1), who, "acked"); err != nil {
					return fmt.Errorf("%w; the client printed %q; the server has %s", err, printed, serverSide(api, numbered(who, 1), who))
				}
				return nil
			})
			publish("-q", "1", "-t", "o/"+who+"/state", "-m", "on", "-r")
			if got := listen(1, "", "-q", "1", "-t", "o/"+who+"/state"); got[0] != "o/"+who+"/state 1 1 on" {
				t.Errorf("mosquitto_sub prints %q", got)
			}
			if got := listen(1, who+"/a/b", "-t", who+"/#"); got[0] != who+"/a/b 0 0 hello" {
				t.Errorf("mosquitto_sub prints %q", got)
			}
			if got := listen(1, who+"/s/b", "-t", "$share/q/"+who+"/s/+"); got[0] != who+"/s/b 0 0 hello" {
				t.Errorf("mosquitto_sub prints %q", got)
			}
			watcher := newDevice(t, server)
			watcher.connect(command{ID: who + "-w", User: "demo/" + who, Clean: true})
			watcher.subscribe(who+"/gone", 0, 0)
			lost, kill := context.WithCancel(ctx)
			err := run(lost, t, func(line string) {
				if strings.Contains(line, "Subscribed (mid") {
					kill()
				}
			}, "stdbuf", append([]string{"-oL", sub}, args("-d", "-t", who+"/x", "--will-topic", who+"/gone", "--will-payload", "gone")...)...)
			if err == nil {
				t.Error("a client that was killed ends well")
			}
			watcher.message(who+"/gone", "gone")
			publish("-q", "1", "-t", "to/"+who, "-m", `{"id":"`+who+`-last","title":"Last"}`)
			if err := api.WantState(ctx, who+"-last", who, "stored"); err != nil {
				t.Error(err)
			}
		})
	}
}

// serverSide says what the server knows of a notification and its recipient, for a test that waits for it in vain.
func serverSide(api *blackbox.API, id, recipient string) string {
	var said []string
	for _, path := range []string{"/v1/notifications/" + id + "?to=" + recipient, "/v1/recipients/" + recipient} {
		answer, err := api.Do(context.Background(), http.MethodGet, path, nil)
		if err != nil {
			return err.Error()
		}
		said = append(said, string(answer.Body))
	}
	return strings.Join(said, "\n")
}
