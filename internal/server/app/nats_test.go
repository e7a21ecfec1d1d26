package app_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/internal/server/certs/certstest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// natsClient connects to the NATS listener.
func natsClient(t *testing.T, addr, key string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("nats://"+addr, append(options, nats.Token(key), nats.NoReconnect())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestNATSListener(t *testing.T) {
	cfg := settings(t)
	cfg.NATSAddr = "127.0.0.1:0"
	a := start(t, cfg)
	nc := natsClient(t, a.Addresses().NATS, "dev")
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
	eventually.True(t, "its client is told of the stop", nc.IsClosed)
}

func TestDeletedKeyEndsItsNATSConnection(t *testing.T) {
	cfg := settings(t)
	cfg.NATSAddr = "127.0.0.1:0"
	a := start(t, cfg)
	status, body, _ := ask(t, "POST", "http://"+a.Addresses().HTTP+"/v1/keys", `{"roles":["publish"]}`)
	var k struct{ ID, Key string }
	if err := json.Unmarshal([]byte(body), &k); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	nc := natsClient(t, a.Addresses().NATS, k.Key)
	published := make(chan error, 1)
	go func() {
		for {
			if err := nc.Publish("godwit.demo.t.x", []byte("x")); err != nil {
				published <- err
				return
			}
		}
	}()
	if status, body, _ := ask(t, "DELETE", "http://"+a.Addresses().HTTP+"/v1/keys/"+k.ID, ""); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, body)
	}
	select {
	case <-published: // the connection was closed, or is being closed
	case <-time.After(time.Minute):
		t.Error("it publishes on")
	}
	if _, err := nats.Connect("nats://"+a.Addresses().NATS, nats.Token(k.Key)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("connects again: %v", err)
	}
}

func TestNATSListenerSpeaksTLS(t *testing.T) {
	cfg := settings(t)
	cfg.NATSAddr = "127.0.0.1:0"
	certFile, keyFile, trust := certstest.Issue(t, t.TempDir(), "server")
	cfg.TLSCert, cfg.TLSKey = certFile, keyFile
	a := start(t, cfg)
	nc := natsClient(t, a.Addresses().NATS, "dev", nats.Secure(&tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}))
	if err := nc.Publish("godwit.demo.t.x", nil); err != nil || nc.Flush() != nil {
		t.Error(err)
	}
	if _, err := nats.Connect("nats://"+a.Addresses().NATS, nats.Token("dev")); err == nil {
		t.Error("it takes keys in plain text, or does not check the certificate")
	}
}

func TestExternalNATSGone(t *testing.T) {
	elsewhere := func(port int) *server.Server {
		s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		if !s.ReadyForConnections(10 * time.Second) {
			t.Fatal("NATS did not start")
		}
		return s
	}
	away := elsewhere(-1)
	port := away.Addr().(*net.TCPAddr).Port
	cfg := settings(t)
	cfg.NATS = away.ClientURL()
	a := start(t, cfg)
	topicStatus := func() int {
		status, _, _ := ask(t, "POST", "http://"+a.Addresses().HTTP+"/v1/topics/rides.oslo", "x")
		return status
	}
	eventually.True(t, "topics go over the external NATS", func() bool { return topicStatus() == http.StatusAccepted })
	away.Shutdown()
	away.WaitForShutdown()
	eventually.True(t, "the loss is noticed", func() bool { return topicStatus() == http.StatusServiceUnavailable })
	if status, body, _ := ask(t, "POST", "http://"+a.Addresses().HTTP+"/v1/notifications", `{"to":"r","title":"x"}`); status != http.StatusCreated {
		t.Errorf("a notification: %d %s", status, body)
	}
	if status, body, _ := ask(t, "PUT", "http://"+a.Addresses().HTTP+"/v1/objects/g/o", `{"version":"1"}`); status != http.StatusOK && status != http.StatusCreated {
		t.Errorf("an object: %d %s", status, body)
	}
	if status, _, _ := ask(t, "GET", "http://"+a.Addresses().HTTP+"/readyz", ""); status != http.StatusOK {
		t.Errorf("readiness: %d", status)
	}
	elsewhere(port)
	eventually.True(t, "it comes back by itself", func() bool { return topicStatus() == http.StatusAccepted })
}
