package natsgate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/natsgate"
	"godwit.dev/godwit/internal/messaging/topic"
)

func TestRightsToConnect(t *testing.T) {
	w := newWorld(t)
	for name, o := range map[string]nats.Option{
		"a key as token": nats.Token("reader"), "a key as password": nats.UserInfo("a", "reader"),
		"a client's token": nats.Token("none"), "a client's token as password": nats.UserInfo("a", "none"),
	} {
		if nc, err := nats.Connect(w.url, o); err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			nc.Close()
		}
	}
	for name, o := range map[string]nats.Option{
		"nothing": nats.Name("x"), "no key": nats.Token("guess"), "another app's key": nats.UserInfo("a.t", "reader"),
		"a user without a password": nats.UserInfo("a", ""), "another app's client": nats.UserInfo("b", "none"),
	} {
		if nc, err := nats.Connect(w.url, o); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
			nc.Close()
		}
	}
}

// TestRights is the table of a NATS client's rights. The table for all protocols is in test/api.
func TestRights(t *testing.T) {
	w := newWorld(t)
	const sub, pub = "subscribe", "publish"
	for _, c := range []struct {
		who, do, subject string
		may              bool
	}{
		{"stars", sub, "godwit.a.t.rides.oslo", true},
		{"stars", sub, "godwit.a.t.rides.*", true},
		{"stars", sub, "godwit.a.t.rides.>", false}, // the NATS server alone would allow this
		{"stars", sub, "godwit.a.t.rides.oslo.new", false},
		{"stars", sub, "godwit.a.t.*.oslo", false},
		{"stars", sub, "godwit.a.t.>", false},
		{"stars", sub, "godwit.a.t.cars.x.>", true},
		{"stars", sub, "godwit.a.t.cars.x.y.*", true},
		{"stars", sub, "godwit.a.t.cars.*.y", false},
		{"stars", sub, "godwit.a.r.orders.*", true},
		{"stars", sub, "godwit.a.r.orders.>", false},
		{"stars", sub, "godwit.a.*.rides.x", false},
		{"stars", sub, "godwit.*.t.rides.x", false},
		{"stars", sub, "godwit.>", false},
		{"stars", sub, ">", false},
		{"stars", sub, "_INBOX.>", false},
		{"stars", sub, "$SYS.>", false},
		{"stars", sub, "$SRV.PING", true},
		{"stars", pub, "godwit.a.t.rides.oslo", false},
		{"stars", pub, "godwit.a.r.orders.x", false},
		{"stars", pub, "_INBOX.of.somebody", false}, // nobody has asked it
		{"none", sub, "godwit.a.t.rides.oslo", false},
		{"none", sub, "$SRV.PING", false},
		{"publisher", pub, "godwit.a.t.rides.oslo", true},
		{"publisher", pub, "godwit.a.t.rides.*", false},
		{"publisher", pub, "godwit.a.r.orders.x", true},
		{"publisher", pub, "godwit.a.x", false},
		{"publisher", pub, "godwit.b.t.rides", false},
		{"publisher", pub, "rides", false},
		{"publisher", pub, "_INBOX.of.somebody", false},
		{"publisher", sub, "godwit.a.t.>", true},
		{"publisher", sub, "_INBOX.x.*", true},
		{"publisher", sub, "_INBOX.>", false}, // inboxes belong to their connections
		{"publisher", sub, "_INBOX.*", false},
		{"publisher", sub, "_INBOX.*.x", false},
		{"publisher", sub, "*.x.y", false},
		{"admin", sub, "_INBOX.>", false},
		{"publisher", sub, "godwit.a.r.>", false},
		{"reader", sub, "godwit.a.t.>", true},
		{"reader", sub, "godwit.a.r.>", false},
		{"reader", sub, "_INBOX.>", false},
		{"reader", pub, "godwit.a.t.rides", false},
		{"worker", sub, "godwit.a.r.orders.>", true},
		{"worker", sub, "godwit.a.t.rides", false},
		{"worker", pub, "godwit.a.t.rides", false},
		{"admin", sub, ">", true},
		{"admin", pub, "anything", true},
		{"admin", pub, "godwit.a.t.å", false}, // no session could subscribe to it
		{"admin", sub, "_refused.>", false},
	} {
		t.Run(fmt.Sprintf("%s %ss %s", c.who, c.do, c.subject), func(t *testing.T) {
			nc := w.connect(t, nats.Token(c.who))
			switch c.do {
			case pub:
				if err := nc.Publish(c.subject, nil); err != nil {
					t.Fatal(err)
				}
				if got := !nc.refused(t); got != c.may {
					t.Errorf("may: %v", got)
				}
			case sub:
				for _, queue := range []string{"", "q"} {
					if _, err := nc.QueueSubscribe(c.subject, queue, func(*nats.Msg) {}); err != nil {
						t.Fatal(err)
					}
					if got := !nc.refused(t); got != c.may {
						t.Errorf("may, in queue %q: %v", queue, got)
					}
				}
			}
		})
	}
}

func TestTopicsMeetNATSClients(t *testing.T) {
	w := newWorld(t)
	got := make(chan topic.Message, 10)
	if _, err := w.bus.Subscribe("a", "t.>", "", func(m topic.Message) { got <- m }, func(int) {}); err != nil {
		t.Fatal(err)
	}
	nc := w.connect(t, nats.Token("publisher"))
	mine, err := nc.SubscribeSync("godwit.a.t.rides.*")
	if err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}
	if err := w.bus.Publish(t.Context(), "a", topic.Message{Subject: "t.rides.oslo", Header: topic.Header{"Traceparent": {"00"}}, Data: []byte("from godwit")}); err != nil {
		t.Fatal(err)
	}
	m, err := mine.NextMsg(patience)
	if err != nil || string(m.Data) != "from godwit" || m.Header.Get("Traceparent") != "00" {
		t.Fatalf("%+v, %v", m, err)
	}
	<-got
	random := strings.Repeat("\r\n\x00SUB x 1\r\n", 1000)
	if err := nc.Publish("godwit.a.t.rides.bergen", []byte(random)); err != nil {
		t.Fatal(err)
	}
	if m := <-got; string(m.Data) != random || m.Subject != "t.rides.bergen" {
		t.Errorf("got %+v", m.Subject)
	}
	for _, subject := range []string{"godwit.a.t.å", "godwit.a.t.a/b", "godwit.a.t." + strings.Repeat("a.", 16) + "a"} {
		if err := nc.Publish(subject, nil); err != nil || !nc.refused(t) {
			t.Errorf("%s: a topic that is none was taken: %v", subject, err)
		}
		nc = w.connect(t, nats.Token("publisher"))
	}
}

func TestMicroServiceAnswersAndIsListed(t *testing.T) {
	w := newWorld(t)
	worker := w.connect(t, nats.Token("worker"))
	svc, err := micro.AddService(worker.Conn, micro.Config{Name: "orders", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Stop()
	err = svc.AddEndpoint("all", micro.HandlerFunc(func(r micro.Request) {
		if strings.HasSuffix(r.Subject(), ".bad") {
			_ = r.Error("409", "sold out", []byte("no"))
			return
		}
		_ = r.Respond(append([]byte("done "), r.Data()...), micro.WithHeaders(micro.Headers{"Link": {"1", "2"}}))
	}), micro.WithEndpointSubject("godwit.a.r.orders.>"), micro.WithEndpointQueueGroup("orders"))
	if err != nil || worker.Flush() != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := w.bus.Request(ctx, "a", topic.Message{Subject: "r.orders.get", Data: []byte("it")})
	if err != nil || string(answer.Data) != "done it" || len(answer.Header["Link"]) != 2 {
		t.Errorf("%+v, %v", answer, err)
	}
	if answer, err = w.bus.Request(ctx, "a", topic.Message{Subject: "r.orders.bad"}); err != nil || answer.Header.Get("Nats-Service-Error-Code") != "409" {
		t.Errorf("%+v, %v", answer, err)
	}
	asker := w.connect(t, nats.Token("publisher"))
	m, err := asker.Request("$SRV.INFO", nil, patience)
	if err != nil || !strings.Contains(string(m.Data), `"subject":"godwit.a.r.orders.\u003e"`) {
		t.Errorf("discovery: %+v, %v", m, err)
	}
	if m, err = asker.Request("godwit.a.r.orders.get", []byte("x"), patience); err != nil || string(m.Data) != "done x" {
		t.Errorf("a native request: %+v, %v", m, err)
	}
	if _, err := asker.Request("godwit.a.r.nobody", nil, patience); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("nobody serves: %v", err)
	}
}

func TestAppsDoNotSeeEachOther(t *testing.T) {
	w := newWorld(t)
	a, at := w.connect(t, nats.Token("admin")), w.connect(t, nats.Token("admin.t"))
	var all []*nats.Subscription
	for _, nc := range []*client{a, at} {
		for _, subject := range []string{">", "_INBOX.>"} {
			s, err := nc.SubscribeSync(subject)
			if err != nil || nc.Flush() != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
	}
	other := w.connect(t, nats.Token("both.t"))
	if _, err := other.Subscribe("godwit.a%2Et.r.x", func(m *nats.Msg) { _ = m.Respond([]byte("secret of a.t")) }); err != nil || other.Flush() != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := w.bus.Request(ctx, "a.t", topic.Message{Subject: "r.x", Data: []byte("secret of a.t")}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Request("godwit.a%2Et.r.x", []byte("secret of a.t"), patience); err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct{ app, subject string }{{"a.t", "t.x"}, {"a", "t.t.x"}, {"a", "t.x"}} {
		if err := w.bus.Publish(ctx, m.app, topic.Message{Subject: m.subject, Data: []byte("secret of " + m.app)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, app := range []string{"a", "a.t"} { // the same connection carried the earlier messages, so this one arrives after them
		if err := w.bus.Publish(ctx, app, topic.Message{Subject: "t.end"}); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range all {
		want, wrong := "secret of a", "secret of a.t"
		if i >= 2 {
			want, wrong = wrong, want
		}
		seen := 0
		for {
			if left, _, err := s.Pending(); err != nil || left == 0 && i%2 == 1 { // the connection has ended by now
				break
			}
			m, err := s.NextMsgWithContext(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(m.Subject, ".t.end") {
				break
			}
			if seen++; string(m.Data) == wrong {
				t.Errorf("%s of the other app saw %s on %s", s.Subject, m.Data, m.Subject)
			}
		}
		if seen == 0 && i%2 == 0 {
			t.Errorf("%d: %s saw nothing of its own: %s", i, s.Subject, want)
		}
	}
}

func TestRevokedIsClosed(t *testing.T) {
	w := newWorld(t)
	ended := w.connect(t, nats.Token("publisher"))
	narrowed := w.connect(t, nats.Token("stars"))
	stays := w.connect(t, nats.Token("reader"))
	w.people.change(func() {
		delete(w.people.keys, "publisher")
		w.people.clients["stars"] = access.Client{App: "a", Recipient: "r", Topics: []string{"rides.oslo"}}
	})
	for what, c := range map[string]*client{"a key that was deleted": ended, "a client with fewer rights": narrowed} {
		select {
		case <-c.closed:
		case <-time.After(patience):
			t.Errorf("%s stays connected", what)
		}
	}
	if err := stays.FlushTimeout(patience); err != nil {
		t.Errorf("one whose key is as it was: %v", err)
	}
}

func TestTokenEndsTheConnectionWithIt(t *testing.T) {
	w := newWorld(t)
	var closed chan struct{}
	for left := 100 * time.Millisecond; ; left *= 2 {
		w.people.change(func() {
			w.people.clients["short"] = access.Client{App: "a", Recipient: "r", Expires: time.Now().Add(left)}
		})
		end := make(chan struct{})
		nc, err := nats.Connect(w.url, nats.Token("short"), nats.NoReconnect(), nats.Timeout(patience), nats.ClosedHandler(func(*nats.Conn) { close(end) }))
		closed = end
		if err == nil {
			defer nc.Close()
			break
		}
		if left > patience { // the token may expire, with any error, before the connection is established
			t.Fatal(err)
		}
	}
	select {
	case <-closed:
	case <-time.After(patience):
		t.Error("it stays connected")
	}
}

func TestConnectionsAreCounted(t *testing.T) {
	var mu sync.Mutex
	open, left := 0, make(chan struct{}, 10)
	w := newWorld(t, func(cfg *natsgate.Config) {
		cfg.Admit = func(netip.Addr) (func(), bool) {
			mu.Lock()
			defer mu.Unlock()
			if open == 2 {
				return nil, false
			}
			open++
			return func() { mu.Lock(); open--; mu.Unlock(); left <- struct{}{} }, true
		}
	})
	one, _ := w.connect(t, nats.Token("reader")), w.connect(t, nats.Token("reader"))
	if nc, err := nats.Connect(w.url, nats.Token("reader")); err == nil {
		nc.Close()
		t.Fatal("a third connection was let in")
	}
	one.Close()
	<-left
	w.connect(t, nats.Token("reader"))
}

func TestOtherProtocolsAreClosed(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct{ hello, then, want string }{
		"another protocol":        {"GET / HTTP/1.1\r\n\r\n", "", "Authorization Violation"},
		"no JSON":                 {"CONNECT {\r\n", "", "Authorization Violation"},
		"a line without end":      {"CONNECT " + strings.Repeat("x", 40_000), "", ""},
		"unknown operation":       {"", "MAGIC\r\n", "Unknown Protocol Operation"},
		"line feed alone":         {"", "PING\n", "Unknown Protocol Operation"},
		"carriage return within":  {"", "SUB a\rSUB 1\r\n", "Unknown Protocol Operation"},
		"long line":               {"", "SUB " + strings.Repeat("a", 5000) + " 1\r\n", "Unknown Protocol Operation"},
		"size that is none":       {"", "PUB godwit.a.t.x -1\r\n", "Unknown Protocol Operation"},
		"size too large":          {"", "PUB godwit.a.t.x 99999999\r\n", "Maximum Payload Violation"},
		"operation of a server":   {"", "MSG godwit.a.t.x 1 0\r\n\r\n", "Unknown Protocol Operation"},
		"second CONNECT":          {"", "CONNECT {}\r\n", "Unknown Protocol Operation"},
		"message that goes on":    {"", "PUB godwit.a.t.x 2\r\nabcde\r\n", ""},
		"headers beyond the size": {"", "HPUB godwit.a.t.x 20 10\r\nNATS/1.0\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			nc, err := net.Dial("tcp", strings.TrimPrefix(w.url, "nats://"))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if c.hello == "" {
				c.hello = `CONNECT {"auth_token":"publisher","verbose":false}` + "\r\n"
			}
			if _, err := fmt.Fprint(nc, c.hello+c.then); err != nil {
				t.Fatal(err)
			}
			if err := nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			said := readAll(nc)
			if !strings.Contains(said, c.want) || strings.Contains(said, "timeout") {
				t.Errorf("the server said %q", said)
			}
		})
	}
}

// readAll reads until the other side closes, and reports if it does not.
func readAll(nc net.Conn) string {
	var all strings.Builder
	b := make([]byte, 4096)
	for {
		n, err := nc.Read(b)
		all.Write(b[:n])
		if errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(interface{ Timeout() bool })) && strings.Contains(err.Error(), "timeout") {
			return all.String() + " timeout"
		}
		if err != nil {
			return all.String()
		}
	}
}

// TestWhatAClientPublishesBeforeItHangsUpIsTaken: although by then the bus has messages for it, which it takes no more.
func TestWhatAClientPublishesBeforeItHangsUpIsTaken(t *testing.T) {
	const count = 300
	w := newWorld(t)
	got := make(chan topic.Message, count)
	if _, err := w.bus.Subscribe("a", "t.last", "", func(m topic.Message) { got <- m }, func(int) {}); err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", strings.TrimPrefix(w.url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(nc).ReadString('\n'); err != nil { // INFO
		t.Fatal(err)
	}
	all := `CONNECT {"auth_token":"publisher"}` + "\r\nSUB godwit.a.t.last 1\r\n" + strings.Repeat("PUB godwit.a.t.last 1\r\nx\r\n", count)
	if _, err := io.WriteString(nc, all); err != nil {
		t.Fatal(err)
	}
	if err := nc.(*net.TCPConn).SetLinger(0); err != nil { // as a process that dies
		t.Fatal(err)
	}
	_ = nc.Close()
	for range count {
		<-got
	}
}
