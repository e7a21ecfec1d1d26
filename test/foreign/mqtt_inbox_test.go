package foreign

import (
	"fmt"
	"net/http"
	"testing"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/test/blackbox"
)

// countsReachAClient: a client of the inbox's counts gets them at its subscription, and after each change.
func countsReachAClient(t *testing.T, server *blackbox.Server, d *hand, who string) {
	api := server.API()
	d.t = t
	who += "-counts"
	keep := func(id string) {
		api.Call(t, http.MethodPost, "/v1/notifications", map[string]any{"to": who, "id": id, "title": "T", "inbox": true}, nil)
	}
	keep("one")
	d.connect(command{ID: who, User: "demo/" + who, Clean: true})
	d.subscribe("inbox/counts", 0, 0)
	d.message("inbox/counts", `{"unseen":1,"unread":1,"changed":[]}`)
	keep("two")
	d.message("inbox/counts", `{"unseen":2,"unread":2,"changed":["two"]}`)
	api.Call(t, http.MethodPost, "/v1/inbox/one?to="+who, map[string]any{"read": true}, nil)
	d.message("inbox/counts", `{"unseen":1,"unread":1,"changed":["one"],"marked":[{"id":"one","seen":true,"read":true}]}`)
	d.Do(command{Do: "disconnect"})
}

// TestMQTTConnectionBeginsWithTheCountsOfTheInbox: the CONNACK of MQTT 5 has them, for a recipient with an inbox.
func TestMQTTConnectionBeginsWithTheCountsOfTheInbox(t *testing.T) {
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--mqtt-addr", "127.0.0.1:0"))
	counts := func(c *talker) string {
		unseen, _ := c.ack.Properties.UserValue("unseen")
		unread, _ := c.ack.Properties.UserValue("unread")
		return fmt.Sprintf("%s %s", unseen, unread)
	}
	if got := counts(greet(t, server, "ann", 0)); got != " " {
		t.Errorf("without an inbox the CONNACK has counts %q", got)
	}
	api := server.API()
	for _, id := range []string{"one", "two", "three"} {
		api.Call(t, http.MethodPost, "/v1/notifications", map[string]any{"to": "ann", "id": id, "title": "T", "inbox": true}, nil)
	}
	api.Call(t, http.MethodPost, "/v1/inbox/seen?to=ann", nil, nil)
	api.Call(t, http.MethodPost, "/v1/inbox/one?to=ann", map[string]any{"read": true}, nil)
	c := greet(t, server, "ann", 60)
	if got := counts(c); got != "0 2" {
		t.Errorf("counts %q, want 0 unseen and 2 unread", got)
	}
	c.write(wire.AppendSubscribe(nil, wire.V5, 7, nil, wire.Filter{Name: []byte("inbox/counts")}))
	for range 2 { // the message may come before the answer to the packet
		p, err := c.next()
		if err != nil || p.Type() != wire.SUBACK && p.Type() != wire.PUBLISH {
			t.Fatalf("got %s, %v", p.Type(), err)
		}
	}
	_ = c.nc.Close()
	c = greet(t, server, "ann", 60)
	if !c.ack.Present {
		t.Fatal("the session is gone")
	}
	c.message(`{"unseen":0,"unread":2,"changed":[]}`) // a subscription that is back is one
}
