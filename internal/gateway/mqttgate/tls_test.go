package mqttgate_test

import (
	"crypto/tls"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/mqttgate"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/server/certs/certstest"
)

func TestCertificateNamesTheClient(t *testing.T) {
	cert, key, pool := certstest.Issue(t, t.TempDir(), "client", "godwit://demo/region-1/ann")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool, NextProtos: []string{"mqtt"}}
	s := gatetest.Start(t, func(s *gatetest.Server) { mountOn(t, s, conf, func(*mqttgate.Config) {}) })
	over := func(c *wire.Connect, certs ...tls.Certificate) *peer {
		nc, err := tls.Dial("tcp", addrOf(s), &tls.Config{InsecureSkipVerify: true, Certificates: certs})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nc.Close() })
		p := &peer{raw: &raw{nc: nc, v: c.Version}, t: t}
		p.send(wire.AppendConnect(nil, c, nil, nil))
		if err := p.ack.Decode(c.Version, p.want(wire.CONNACK)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := over(&wire.Connect{Version: wire.V5, Clean: true, ClientID: []byte("unit")}, pair)
	if who, _ := p.ack.Properties.UserValue("recipient"); p.ack.Reason != wire.Success || string(who) != "ann" {
		t.Fatalf("answered with %#x %s", byte(p.ack.Reason), p.ack.Properties.Text(wire.ReasonString))
	}
	p.subscribed(1, "inbox")
	s.Send(t, draft("ann", "ride-1"))
	p.note("ride-1")
	tell := func(topic string, want wire.Reason) {
		t.Helper()
		p := over(&wire.Connect{Version: wire.V5, Clean: true}, pair)
		p.publish(wire.Head{QoS: 1, ID: 9, Topic: topic}, `{"title":"Hi"}`)
		p.acked(wire.PUBACK, want)
		_ = p.nc.Close()
	}
	tell("telemetry/ann/heat", wire.NotAuthorized) // a recipient has a mailbox, and nothing else by itself
	if err := s.Access.SetApp(t.Context(), gatetest.App, access.AppChange{CertificatePublish: &[]string{"telemetry.{sub}.>", "to.dispatch"}}); err != nil {
		t.Fatal(err)
	}
	tell("telemetry/ann/heat", wire.Success)
	tell("to/dispatch", wire.Success)
	tell("telemetry/ben/heat", wire.NotAuthorized)
	tell("to/ben", wire.NotAuthorized)
	if p := over(hi(wire.V5, "ben", "unit"), pair); p.ack.Reason != wire.NotAuthorized {
		t.Errorf("the name of another is answered with %#x", byte(p.ack.Reason))
	}
	if p := over(hi(wire.V311, "ben", "")); p.ack.Reason != wire.Success {
		t.Errorf("without a certificate: %#x", byte(p.ack.Reason))
	}
}
