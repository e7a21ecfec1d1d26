package natsgate_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/natsgate"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/server/certs/certstest"
)

// TestNobodyReadsAnothersAnswers: clients with different rights subscribe to every pattern that could match an inbox while another client
// makes requests.
func TestNobodyReadsAnothersAnswers(t *testing.T) {
	w := newWorld(t)
	worker := w.connect(t, nats.Token("both"))
	if _, err := worker.Subscribe("godwit.a.r.orders", func(m *nats.Msg) { _ = m.Respond([]byte("secret")) }); err != nil || worker.Flush() != nil {
		t.Fatal(err)
	}
	asker := w.connect(t, nats.Token("publisher"))
	if _, err := asker.Request("godwit.a.r.orders", nil, patience); err != nil {
		t.Fatal(err)
	}
	inbox := asker.NewRespInbox() // its own begins alike
	prefix, _, _ := strings.Cut(strings.TrimPrefix(inbox, "_INBOX."), ".")
	heard := make(chan *nats.Msg, 100)
	var spies []*client
	for _, who := range []string{"publisher", "admin", "both"} {
		for _, pattern := range []string{"_INBOX.>", "_INBOX.*", "_INBOX.*.*", "_INBOX." + prefix + ".>", "_INBOX." + prefix + ".*", "_INBOX.*." + prefix + ".>", ">", "*.*.*.*", "*.>"} {
			spy := w.connect(t, nats.Token(who))
			if _, err := spy.ChanSubscribe(pattern, heard); err != nil || spy.Flush() != nil {
				t.Fatal(err)
			}
			spies = append(spies, spy)
		}
	}
	for range 3 {
		m, err := asker.Request("godwit.a.r.orders", nil, patience)
		if err != nil || string(m.Data) != "secret" || !strings.HasPrefix(m.Subject, "_INBOX."+prefix+".") {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	for _, spy := range spies {
		if err := spy.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for len(heard) > 0 { // what the server sent before is in it
		if m := <-heard; string(m.Data) == "secret" {
			t.Errorf("an answer was heard on %s", m.Subject)
		}
	}
}

// TestRequestsWorkAsLibrariesMakeThem covers one inbox for all requests, one inbox each, several answers, and requests of a connection to
// itself.
func TestRequestsWorkAsLibrariesMakeThem(t *testing.T) {
	w := newWorld(t)
	for name, options := range map[string][]nats.Option{
		"one inbox for all": nil, "an inbox each": {nats.UseOldRequestStyle()}, "a prefix of one's own": {nats.CustomInboxPrefix("_INBOX.mine")},
	} {
		t.Run(name, func(t *testing.T) {
			nc := w.connect(t, append(options, nats.Token("both"))...)
			for range 2 {
				if _, err := nc.Subscribe("godwit.a.r.both", func(m *nats.Msg) { _ = m.Respond([]byte("done")) }); err != nil || nc.Flush() != nil {
					t.Fatal(err)
				}
			}
			if m, err := nc.Request("godwit.a.r.both", nil, patience); err != nil || string(m.Data) != "done" {
				t.Errorf("%+v, %v", m, err)
			}
			inbox := nc.NewInbox()
			answers, err := nc.SubscribeSync(inbox)
			if err != nil || nc.PublishRequest("godwit.a.r.both", inbox, nil) != nil {
				t.Fatal(err)
			}
			for range 2 {
				if m, err := answers.NextMsg(patience); err != nil || m.Subject != inbox {
					t.Errorf("%+v, %v", m, err)
				}
			}
		})
	}
}

// TestRefusedCallsFailAtOnce: the library finds the subscription to which an error belongs.
func TestRefusedCallsFailAtOnce(t *testing.T) {
	w := newWorld(t)
	nc := w.connect(t, nats.Token("stars"), nats.PermissionErrOnSubscribe(true))
	for _, queue := range []string{"", "q"} {
		s, err := nc.QueueSubscribeSync("godwit.a.t.other", queue)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.NextMsg(patience); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("in queue %q: %v", queue, err)
		}
	}
}

func TestSubscriptionsAreLimitedAsThoseOfSessions(t *testing.T) {
	w := newWorld(t)
	for who, subject := range map[string]string{"stars": "godwit.a.t.cars.x.%d", "admin": "godwit.a.t.n%d", "worker": "godwit.a.r.n%d"} {
		nc := w.connect(t, nats.Token(who))
		var one *nats.Subscription
		for i := range 256 {
			var err error
			if one, err = nc.SubscribeSync(fmt.Sprintf(subject, i)); err != nil {
				t.Fatal(err)
			}
		}
		if nc.refused(t) {
			t.Fatalf("%s may not have 256", who)
		}
		if _, err := nc.SubscribeSync(fmt.Sprintf(subject, 256)); err != nil || !nc.refused(t) {
			t.Errorf("%s has one more than a session: %v", who, err)
		}
		if err := nc.LastError(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf(subject, 256)) || !strings.Contains(err.Error(), "256 topics") {
			t.Errorf("%s is told %v", who, err)
		}
		if err := one.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		again := w.connect(t, nats.Token(who))
		if _, err := again.SubscribeSync(fmt.Sprintf(subject, 0)); err != nil || again.refused(t) {
			t.Errorf("%s on another connection: %v", who, err)
		}
	}
}

// TestMessagesOfTopicsHaveTheSizeThatSessionsTake: messages too large for sessions are refused, whoever publishes them.
func TestMessagesOfTopicsHaveTheSizeThatSessionsTake(t *testing.T) {
	w := newWorld(t)
	got := make(chan int, 100)
	if _, err := w.bus.Subscribe("a", "t.>", "", func(m topic.Message) { got <- len(m.Data) }, func(int) {}); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"admin", "publisher"} {
		for _, c := range []struct {
			data, header int
			may          bool
		}{{topic.MaxData, 0, true}, {topic.MaxData + 1, 0, false}, {topic.MaxData, 1000, true}, {topic.MaxData + 1, 1000, false}, {10, topic.MaxHeader + 1, false}} {
			nc := w.connect(t, nats.Token(who))
			heard, err := nc.SubscribeSync("godwit.a.t.>")
			if err != nil {
				t.Fatal(err)
			}
			m := &nats.Msg{Subject: "godwit.a.t.x", Data: make([]byte, c.data)}
			if c.header > 0 {
				m.Header = nats.Header{"X": {strings.Repeat("x", c.header)}}
			}
			if err := nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
			if err := nc.Publish("godwit.a.t.end", nil); err != nil {
				t.Fatal(err)
			}
			if refused := nc.refused(t); refused == c.may {
				t.Errorf("%s publishes %d bytes with %d of headers: refused %v", who, c.data, c.header, refused)
			}
			want := []int{0}
			if c.may {
				want = []int{c.data, 0}
			}
			for _, n := range want {
				if m, err := heard.NextMsg(patience); err != nil || len(m.Data) != n {
					t.Errorf("a NATS client got %v, %v; want %d bytes", m, err, n)
				}
				if size := <-got; size != n {
					t.Errorf("a session got %d bytes, want %d", size, n)
				}
			}
		}
	}
}

func TestKeysPublishAsMuchAsOverHTTP(t *testing.T) {
	taken := make(chan string, 10)
	w := newWorld(t, func(cfg *natsgate.Config) {
		cfg.PublishLimit = func(key string, _ int) time.Duration {
			taken <- key
			if len(taken) > 1 {
				return time.Second
			}
			return 0
		}
	})
	nc := w.connect(t, nats.Token("publisher"))
	if err := nc.Publish("godwit.a.t.x", nil); err != nil || nc.refused(t) {
		t.Errorf("the first: %v", err)
	}
	if err := nc.Publish("godwit.a.t.x", nil); err != nil || !nc.refused(t) {
		t.Errorf("one beyond the limit: %v", err)
	}
	if err := nc.LastError(); err == nil || !strings.Contains(err.Error(), "limit_publish") {
		t.Errorf("it is told %v", err)
	}
	close(taken)
	if key := <-taken; key != "1" {
		t.Errorf("the budget of key %q", key)
	}
}

func TestHellosAreLimited(t *testing.T) {
	var hellos atomic.Int64
	w := newWorld(t, func(cfg *natsgate.Config) {
		cfg.Hello = func(netip.Addr) bool { return hellos.Add(1) <= 1 }
	})
	w.connect(t, nats.Token("reader"))
	if nc, err := nats.Connect(w.url, nats.Token("reader")); err == nil || !strings.Contains(err.Error(), nats.MAX_CONNECTIONS_ERR) {
		t.Errorf("one too many: %v", err)
		nc.Close()
	}
}

// TestCertificateAloneIsRefusedWithTheReason: a certificate names a recipient, which by itself gives no right to topics. With a key or
// token as well, or where the app gives its certificates topics, the client is accepted.
func TestCertificateAloneIsRefusedWithTheReason(t *testing.T) {
	cert, key, pool := certstest.Issue(t, t.TempDir(), "client", "godwit://a/g/r")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(cfg *natsgate.Config) {
		cfg.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool}
	})
	secure := nats.Secure(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
	if nc, err := nats.Connect(w.url, secure); err == nil || !strings.Contains(err.Error(), "connect with a key or a token as well") {
		t.Errorf("a certificate alone: %v", err)
		nc.Close()
	}
	for _, secret := range []string{"reader", "stars"} {
		w.connect(t, secure, nats.Token(secret))
	}
	w.people.change(func() {
		w.people.clients["godwit://a/g/r"] = access.Client{App: "a", Recipient: "r", Topics: []string{"units.r.*"}}
	})
	alone := w.connect(t, secure)
	for _, c := range []struct {
		subject string
		refused bool
	}{{"godwit.a.t.units.r.*", false}, {"godwit.a.t.units.>", true}} {
		if _, err := alone.SubscribeSync(c.subject); err != nil || alone.refused(t) != c.refused {
			t.Errorf("a subscription to %s: %v; want refused: %t", c.subject, err, c.refused)
		}
	}
	w.people.change(func() { w.people.clients["godwit://a/g/r"] = access.Client{App: "a", Recipient: "r"} })
	<-alone.closed
}
