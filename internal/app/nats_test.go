package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestNATSListener(t *testing.T) {
	cfg := settings(t)
	cfg.NATSAddr = "127.0.0.1:0"
	a := start(t, cfg)
	nc, err := nats.Connect("nats://"+a.Addresses().NATS, nats.Token("dev"), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("godwit.demo.t.>")
	if err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}
	if status, body, _ := ask(t, "POST", "http://"+a.Addresses().HTTP+"/v1/topics/rides.oslo", "hello"); status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	m, err := sub.NextMsg(10 * time.Second)
	if err != nil || m.Subject != "godwit.demo.t.rides.oslo" || string(m.Data) != "hello" {
		t.Errorf("%+v, %v", m, err)
	}
	_, metrics, _ := ask(t, "GET", "http://"+a.Addresses().HTTP+"/metrics", "")
	for _, want := range []string{"godwit_nats_connections 1", "godwit_bus_connections 1", "godwit_bus_up 1"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	stop(t, a)
	for end := time.Now().Add(10 * time.Second); !nc.IsClosed(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("its client is connected after the stop")
		}
	}
}
