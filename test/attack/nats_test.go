package attack

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/test/blackbox"
)

// natsClient is a connection of the standard library for NATS, with the last error that the server sent.
type natsClient struct {
	*nats.Conn
	t *testing.T
}

func dialNATS(t *testing.T, address string, options ...nats.Option) *natsClient {
	t.Helper()
	nc, err := nats.Connect("nats://"+address, append(options, nats.NoReconnect(), nats.Timeout(blackbox.Patience), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return &natsClient{nc, t}
}

func (c *natsClient) flush() {
	c.t.Helper()
	if err := c.FlushTimeout(blackbox.Patience); err != nil {
		c.t.Fatal(err)
	}
}

// TestSubscriptionsOverNATSReachNothingOfOthers: holders of all kinds of keys and tokens subscribe to every possible subject while others
// request, answer and publish. They receive only what their rights permit, and get an error for the rest.
func TestSubscriptionsOverNATSReachNothingOfOthers(t *testing.T) {
	server := blackbox.New(t, blackbox.Plain(), blackbox.Args("--nats-addr", "127.0.0.1:0"))
	secrets := map[string]string{}
	for _, app := range []string{"shop", "blog"} {
		out, err := server.Manage("app", "create", app, "--data", server.Dir)
		if err != nil {
			t.Fatal(out)
		}
		secrets[app+" admin"] = keyIn(t, out)
	}
	for _, role := range []string{"publish", "read", "worker"} {
		out, err := server.Manage("key", "create", "--role", role, "--app", "shop", "--data", server.Dir)
		if err != nil {
			t.Fatal(out)
		}
		secrets["shop "+role] = keyIn(t, out)
	}
	out, err := server.Manage("token", "--app", "shop", "--recipient", "ann", "--topics", "rides.*", "--data", server.Dir)
	if err != nil {
		t.Fatal(out)
	}
	lines := strings.Fields(out)
	secrets["shop client"] = lines[len(lines)-1]
	if err := server.Launch(); err != nil {
		t.Fatal(err)
	}
	at, err := server.Addresses()
	if err != nil || at.NATS == "" {
		t.Fatalf("%+v, %v", at, err)
	}

	worker := dialNATS(t, at.NATS, nats.Token(secrets["shop worker"]))
	if _, err := worker.Subscribe("godwit.shop.r.orders", func(m *nats.Msg) { _ = m.Respond([]byte("an answer")) }); err != nil {
		t.Fatal(err)
	}
	worker.flush()
	asker := dialNATS(t, at.NATS, nats.Token(secrets["shop publish"]))
	prefix := asker.NewRespInbox()
	prefix = prefix[:strings.LastIndexByte(prefix, '.')]

	patterns := []string{
		">", "*", "*.>", "*.*", "*.*.*", "*.*.*.*", "*.*.*.*.*", "_INBOX.>", "_INBOX.*", "_INBOX.*.*", "_INBOX.*.*.*", prefix + ".>", prefix + ".*", prefix, "_refused.>", "_refused.*.>", "$SYS.>", "_R_.>", "_GR_.>",
		"godwit.>", "godwit.*.>", "godwit.shop.>", "godwit.shop.*.>", "godwit.shop.r.>", "godwit.shop.r.orders", "godwit.shop.t.>", "godwit.shop.t.*", "godwit.shop.t.rides.>", "godwit.shop.t.rides.*", "godwit.shop.t.cars",
		"godwit.blog.>", "_godwit.>",
	}
	type heard struct{ who, pattern, subject, data string }
	got := make(chan heard, 100_000)
	var spies []*natsClient
	for who, secret := range secrets {
		spy := dialNATS(t, at.NATS, nats.Token(secret))
		for _, p := range patterns {
			for _, queue := range []string{"", "spies"} {
				if p == "godwit.shop.r.orders" && who == "shop worker" || queue != "" && strings.HasPrefix(p, "godwit.shop.r.") {
					continue // it has the right, and would take requests from the worker
				}
				if _, err := spy.QueueSubscribe(p, queue, func(m *nats.Msg) { got <- heard{who, p, m.Subject, string(m.Data)} }); err != nil {
					continue // the library refuses it
				}
			}
			spy.flush()
			if err := spy.LastError(); err != nil && !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s is told %v of %s", who, err, p)
			}
		}
		if err := spy.LastError(); err == nil || strings.Contains(err.Error(), `"_refused.r.`) {
			t.Errorf("%s is told %v", who, err)
		}
		spies = append(spies, spy)
	}
	for i := range 5 {
		if m, err := asker.Request("godwit.shop.r.orders", []byte(fmt.Sprint("a request ", i)), blackbox.Patience); err != nil || string(m.Data) != "an answer" {
			t.Fatalf("%+v, %v", m, err)
		}
		for _, subject := range []string{"rides.oslo", "rides.oslo.new", "cars"} {
			if err := asker.Publish("godwit.shop.t."+subject, []byte("a message")); err != nil {
				t.Fatal(err)
			}
		}
	}
	asker.flush()
	for _, spy := range spies {
		spy.flush()
	}
	for len(got) > 0 {
		h := <-got
		may := false
		topic := strings.TrimPrefix(h.subject, "godwit.shop.t.")
		switch h.who {
		case "shop admin":
			may = strings.HasPrefix(h.subject, "godwit.shop.") || strings.HasPrefix(h.subject, "$SRV.")
		case "shop publish", "shop read":
			may = topic != h.subject
		case "shop worker":
			may = strings.HasPrefix(h.subject, "godwit.shop.r.")
		case "shop client":
			may = topic == "rides.oslo"
		}
		if !may || h.data == "an answer" {
			t.Errorf("%s heard %q on %s by %s", h.who, h.data, h.subject, h.pattern)
		}
	}
}
