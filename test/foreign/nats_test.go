package foreign

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/internal/server/certs/certstest"
	"godwit.dev/godwit/test/blackbox"
)

// TestNATSClientsShareAQueueWithAWebSocket: nats.go, nats-py and a session are members of one queue. Each message goes
// to exactly one of them, and all get their share.
func TestNATSClientsShareAQueueWithAWebSocket(t *testing.T) {
	blackbox.Long(t)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--nats-addr", "127.0.0.1:0"))
	url := "nats://" + natsAddress(t, server)
	ctx := timeout(t)
	const messages, members = 1000, 3
	var mu sync.Mutex
	got := make(map[string][]string) // member → messages
	note := func(member, message string) {
		mu.Lock()
		defer mu.Unlock()
		got[member] = append(got[member], message)
	}

	nc, err := nats.Connect(url, nats.Token("dev"), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	bye := make(chan *nats.Msg, 1)
	if _, err := nc.ChanSubscribe("godwit.demo.t.bye", bye); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.QueueSubscribe("godwit.demo.t.jobs", "workers", func(m *nats.Msg) { note("nats.go", string(m.Data)) }); err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}

	ws, _, err := websocket.Dial(ctx, "ws://"+server.HTTP+"/v1/connect", nil) // none on success
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	for _, f := range []string{`{"hello":{"app":"demo","recipient":"w"}}`, `{"subscribe":{"topics":["jobs"],"queue":"workers"}}`, `{"ping":{}}`} {
		if err := ws.Write(ctx, websocket.MessageText, []byte(f)); err != nil {
			t.Fatal(err)
		}
	}
	joined := make(chan struct{})
	go func() {
		for {
			_, b, err := ws.Read(ctx)
			if err != nil {
				return
			}
			var f struct {
				Pong    *struct{}
				Message *struct{ Data string }
			}
			if json.Unmarshal(b, &f) == nil && f.Pong != nil {
				close(joined)
			} else if f.Message != nil {
				note("WebSocket", f.Message.Data)
			}
		}
	}()
	<-joined

	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- run(ctx, t, func(line string) {
			if line == "ready" {
				close(ready)
				return
			}
			note("nats-py", line)
		}, python(t), "clients/nats_client.py", url, "dev")
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	for i := range messages {
		if err := nc.Publish("godwit.demo.t.jobs", fmt.Appendf(nil, "job %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := nc.Request("godwit.demo.r.py.reverse", []byte("abc"), 20*time.Second)
	if err != nil || string(answer.Data) != "cba" || answer.Header.Get("Godwit-Status") != "201" {
		t.Errorf("Python answered %+v, %v", answer, err)
	}
	blackbox.Eventually(t, "every message", func() error {
		mu.Lock()
		defer mu.Unlock()
		if n := len(got["nats.go"]) + len(got["nats-py"]) + len(got["WebSocket"]); n < messages {
			return fmt.Errorf("%d of %d messages came", n, messages)
		}
		return nil
	})
	if err := nc.Publish("godwit.demo.t.end", nil); err != nil {
		t.Fatal(err)
	}
	if m := <-bye; string(m.Data) != "from Python" {
		t.Errorf("Python said %s", m.Data)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	times := make(map[string]int)
	for member, list := range got {
		t.Logf("%s got %d", member, len(list))
		if len(list) < messages/members*15/100 {
			t.Errorf("%s got only %d of %d", member, len(list), messages)
		}
		for _, m := range list {
			times[m]++
		}
	}
	for i := range messages {
		if n := times[fmt.Sprintf("job %d", i)]; n != 1 {
			t.Errorf("job %d came %d times", i, n)
		}
	}
}

// TestNATSClientsWithACertificateHaveTheRightsOfTheirRecipient: nats.go and nats-py connect with a certificate and no token. They subscribe
// to the topics and serve the subjects that their app gives to certificates, each to those of its own recipient.
func TestNATSClientsWithACertificateHaveTheRightsOfTheirRecipient(t *testing.T) {
	t.Parallel()
	cert, key, trust := certstest.Issue(t, t.TempDir(), "server")
	own, ownKey, _ := certstest.Issue(t, t.TempDir(), "unit", "godwit://shop/region-1/unit-7")
	server := blackbox.New(t, blackbox.Plain(), blackbox.Args("--nats-addr", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", own))
	admin := server.CreateApp(t, "shop")
	if err := server.Spawn(); err != nil {
		t.Fatal(err)
	}
	var address string
	blackbox.Eventually(t, "the server listens", func() error {
		at, err := server.Addresses()
		address = at.NATS
		return err
	})
	pair, err := tls.LoadX509KeyPair(own, ownKey)
	if err != nil {
		t.Fatal(err)
	}
	secure := nats.Secure(&tls.Config{RootCAs: trust, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	if nc, err := nats.Connect("nats://"+address, secure, nats.NoReconnect()); err == nil {
		nc.Close()
		t.Error("a certificate connects to an app that gives certificates nothing")
	}
	if out, err := server.Manage("app", "set", "shop", "--certificate-topic", "units.{sub}.>", "--certificate-serve", "ask.{sub}", "--data", server.Dir); err != nil {
		t.Fatal(out)
	}
	refused := make(chan error, 8)
	var nc *nats.Conn
	blackbox.Eventually(t, "the certificate connects", func() error {
		nc, err = nats.Connect("nats://"+address, secure, nats.NoReconnect(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
		return err
	})
	defer nc.Close()
	for _, subject := range []string{"godwit.shop.t.units.unit-8.>", "godwit.shop.t.units.>", "godwit.shop.r.ask.unit-8", "godwit.other.t.units.unit-7.>"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("a subscription to %s: %v", subject, err)
		}
	}
	news, err := nc.SubscribeSync("godwit.shop.t.units.unit-7.>")
	if err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}
	boss, err := nats.Connect("nats://"+address, nats.Token(admin), nats.Secure(&tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}))
	if err != nil {
		t.Fatal(err)
	}
	defer boss.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- run(timeout(t), t, func(line string) {
			if line == "ready" {
				ended <- nil
			}
		}, python(t), "clients/nats_cert.py", "tls://"+address, own, ownKey)
	}()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := boss.Publish("godwit.shop.t.units.unit-7.config", []byte("v2")); err != nil {
		t.Fatal(err)
	}
	if m, err := news.NextMsg(blackbox.Patience); err != nil || string(m.Data) != "v2" {
		t.Errorf("nats.go got %v, %v", m, err)
	}
	if answer, err := boss.Request("godwit.shop.r.ask.unit-7", []byte("what came?"), blackbox.Patience); err != nil || string(answer.Data) != "v2, refused: 1" {
		t.Errorf("Python answered %v, %v", answer, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// natsAddress returns a server's address for NATS clients.
func natsAddress(t *testing.T, s *blackbox.Server) string {
	t.Helper()
	at, err := s.Addresses()
	if err != nil || at.NATS == "" {
		t.Fatalf("addresses %+v: %v", at, err)
	}
	return at.NATS
}
