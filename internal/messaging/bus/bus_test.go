package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long any step may take on a busy machine.
const patience = time.Minute

// start starts a bus that ends with the test.
func start(t *testing.T) *bus.Bus {
	t.Helper()
	b, err := bus.Start(t.Context(), bus.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// inbox receives a subscription's messages.
type inbox struct {
	ch   chan topic.Message
	mu   sync.Mutex
	lost int
}

func subscribe(t *testing.T, b *bus.Bus, app, pattern, queue string) (in *inbox, stop func()) {
	t.Helper()
	in = &inbox{ch: make(chan topic.Message, 10_000)}
	stop, err := b.Subscribe(app, pattern, queue, func(m topic.Message) { in.ch <- m }, func(n int) {
		in.mu.Lock()
		in.lost += n
		in.mu.Unlock()
	})
	if err != nil {
		t.Fatal(err)
	}
	return in, stop
}

// next waits for one message.
func (in *inbox) next(t *testing.T) topic.Message {
	t.Helper()
	select {
	case m := <-in.ch:
		return m
	case <-time.After(patience):
		t.Fatal("no message came")
		return topic.Message{}
	}
}

func publish(t *testing.T, b *bus.Bus, app, subject, data string) {
	t.Helper()
	if err := b.Publish(t.Context(), app, topic.Message{Subject: subject, Data: []byte(data)}); err != nil {
		t.Fatal(err)
	}
}

func TestLeavingQueueMemberGetsItsAssignedMessages(t *testing.T) {
	b := start(t)
	const n = 5000
	var got sync.Map
	var all sync.WaitGroup
	all.Add(n)
	take := func(m topic.Message) {
		if _, twice := got.LoadOrStore(string(m.Data), true); twice {
			t.Errorf("%s came twice", m.Data)
			return
		}
		all.Done()
	}
	stays, err := b.Subscribe("a", topic.Request("orders"), "q", take, func(n int) { t.Errorf("%d were lost", n) })
	if err != nil {
		t.Fatal(err)
	}
	defer stays()
	leave := func() {}
	for i := range n {
		publish(t, b, "a", topic.Request("orders"), strconv.Itoa(i))
		if i%10 != 0 {
			continue
		}
		leave()
		if leave, err = b.Subscribe("a", topic.Request("orders"), "q", take, func(int) {}); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("some went to nobody")
	}
}

func TestPublishReachesWhoSubscribedBefore(t *testing.T) {
	b := start(t)
	exact, _ := subscribe(t, b, "a", topic.Topic("rides.oslo"), "")
	star, _ := subscribe(t, b, "a", topic.Topic("rides.*"), "")
	again, _ := subscribe(t, b, "a", topic.Topic("rides.*"), "")
	other, _ := subscribe(t, b, "a", topic.Topic("rides.bergen"), "")
	header := topic.Header{"Set-Cookie": {"a=1", "b=2"}, "traceparent": {"00-x"}}
	if err := b.Publish(t.Context(), "a", topic.Message{Subject: "t.rides.oslo", Header: header, Data: []byte{0, 255}}); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]*inbox{"the topic": exact, "a pattern": star, "the same pattern": again} {
		m := in.next(t)
		if m.Subject != "t.rides.oslo" || string(m.Data) != "\x00\xff" || fmt.Sprint(m.Header) != fmt.Sprint(header) || m.Reply != "" {
			t.Errorf("%s got %+v", name, m)
		}
	}
	publish(t, b, "a", "t.rides.bergen", "")
	other.next(t)
	if n := len(exact.ch) + len(other.ch); n != 0 {
		t.Errorf("%d messages came besides", n)
	}
}

func TestMessagesKeepTheirOrder(t *testing.T) {
	b := start(t)
	in, _ := subscribe(t, b, "a", "t.>", "")
	const n = 5000
	for i := range n {
		publish(t, b, "a", "t.x"+strconv.Itoa(i%7), strconv.Itoa(i))
	}
	for i := range n {
		if m := in.next(t); string(m.Data) != strconv.Itoa(i) {
			t.Fatalf("message %s came as number %d", m.Data, i)
		}
	}
}

func TestUnsubscribedGetsNothing(t *testing.T) {
	b := start(t)
	one, stopOne := subscribe(t, b, "a", "t.x", "")
	two, stopTwo := subscribe(t, b, "a", "t.x", "")
	stopOne()
	stopOne() // may be called again
	publish(t, b, "a", "t.x", "1")
	two.next(t)
	stopTwo()
	three, _ := subscribe(t, b, "a", "t.x", "")
	publish(t, b, "a", "t.x", "2")
	if m := three.next(t); string(m.Data) != "2" || len(one.ch)+len(two.ch) != 0 {
		t.Errorf("got %s, and %d came to those who had left", m.Data, len(one.ch)+len(two.ch))
	}
}

func TestAppsDoNotMeet(t *testing.T) {
	b := start(t)
	a, _ := subscribe(t, b, "a", topic.Topic(">"), "")
	at, _ := subscribe(t, b, "a.t", topic.Topic(">"), "")
	publish(t, b, "a.t", "t.x", "for a.t")
	publish(t, b, "a", "t.t.x", "for a")
	if m := a.next(t); string(m.Data) != "for a" || m.Subject != "t.t.x" {
		t.Errorf("a got %+v", m)
	}
	if m := at.next(t); string(m.Data) != "for a.t" || m.Subject != "t.x" {
		t.Errorf("a.t got %+v", m)
	}
	if len(a.ch)+len(at.ch) != 0 {
		t.Error("an app got what was another's")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	serve(t, b, "a", topic.Request(">"), "")
	if _, err := b.Request(ctx, "a.t", topic.Message{Subject: "r.x"}); !errors.Is(err, topic.ErrNoResponders) {
		t.Errorf("a request in a.t: %v", err)
	}
}

// serve answers requests with their own data and headers.
func serve(t *testing.T, b *bus.Bus, app, pattern, queue string) {
	t.Helper()
	_, err := b.Subscribe(app, pattern, queue, func(m topic.Message) {
		if err := b.Reply(context.Background(), app, m.Reply, topic.Message{Header: m.Header, Data: m.Data}); err != nil {
			t.Errorf("reply: %v", err)
		}
	}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRequestIsAnswered(t *testing.T) {
	b := start(t)
	ask := func(subject string) (topic.Message, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return b.Request(ctx, "a", topic.Message{Subject: subject, Header: topic.Header{"Link": {"<1>", "<2>"}}, Data: []byte("body")})
	}
	if _, err := ask("r.orders.get"); !errors.Is(err, topic.ErrNoResponders) {
		t.Fatalf("nobody serves: %v", err)
	}
	serve(t, b, "a", "r.orders.>", "orders")
	answer, err := ask("r.orders.get")
	if err != nil || string(answer.Data) != "body" || fmt.Sprint(answer.Header) != "map[Link:[<1> <2>]]" {
		t.Fatalf("%+v, %v", answer, err)
	}
}

func TestRequestEndsAtItsDeadline(t *testing.T) {
	b := start(t)
	silent, _ := subscribe(t, b, "a", "r.x", "q")
	late := errors.New("the deadline of this test")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-silent.ch
		cancel(late)
	}()
	if _, err := b.Request(ctx, "a", topic.Message{Subject: "r.x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestQueueSharesMessages(t *testing.T) {
	b := start(t)
	const n, members = 1000, 4
	var all [members]*inbox
	for i := range all {
		all[i], _ = subscribe(t, b, "a", "t.jobs", "workers")
	}
	besides, _ := subscribe(t, b, "a", "t.jobs", "")
	for i := range n {
		publish(t, b, "a", "t.jobs", strconv.Itoa(i))
	}
	seen := make(map[string]bool)
	for range n {
		besides.next(t)
	}
	publish(t, b, "a", "t.jobs", "end")
	besides.next(t)
	for i, in := range all {
		k := len(in.ch)
		if k < n/members*15/100 {
			t.Errorf("member %d got %d of %d", i, k, n)
		}
		for range k {
			seen[string((<-in.ch).Data)] = true
		}
	}
	if len(seen) < n {
		t.Errorf("%d of %d arrived", len(seen), n)
	}
}

func TestRepliesGoToInboxesOnly(t *testing.T) {
	b := start(t)
	in, _ := subscribe(t, b, "a", "t.x", "")
	if err := b.Reply(t.Context(), "a", "godwit.a.t.x", topic.Message{}); err == nil {
		t.Error("an answer may go to a topic")
	}
	if err := b.Publish(t.Context(), "a", topic.Message{Subject: "t.x", Reply: "godwit.a.t.y"}); err != nil {
		t.Fatal(err)
	}
	if m := in.next(t); m.Reply != "" {
		t.Errorf("an answer would go to %s", m.Reply)
	}
}

func TestSlowListenerIsToldWhatItMissed(t *testing.T) {
	b := start(t)
	const n = 20_000
	entered, release, all := make(chan struct{}), make(chan struct{}), make(chan struct{})
	got, lost, told := 0, 0, 0
	count := func(messages, missed int) {
		if got, lost = got+messages, lost+missed; got+lost >= n+1 {
			close(all)
		}
	}
	_, err := b.Subscribe("a", "t.x", "", func(topic.Message) {
		if got == 0 {
			close(entered)
			<-release
		}
		count(1, 0)
	}, func(n int) {
		told++
		count(0, n)
	})
	if err != nil {
		t.Fatal(err)
	}
	request, _ := subscribe(t, b, "a", "r.x", "")
	publish(t, b, "a", "t.x", "first")
	<-entered
	for range n {
		publish(t, b, "a", "t.x", string(make([]byte, 2000)))
	}
	publish(t, b, "a", "r.x", "is not held up")
	request.next(t)
	close(release)
	select {
	case <-all:
	case <-time.After(patience):
		t.Fatal("what is missing was not told")
	}
	if got+lost != n+1 || lost == 0 || told == 0 {
		t.Errorf("%d messages and %d missed in %d gaps, of %d", got, lost, told, n+1)
	}
	t.Logf("%d messages, %d missed in %d gaps", got, lost, told)
}

func TestAppsInUseHaveAConnection(t *testing.T) {
	b := start(t)
	soon, later := time.Now(), time.Now().Add(time.Hour)
	connections := func(want int) {
		t.Helper()
		eventually.True(t, fmt.Sprintf("%d connections", want), func() bool { n, _ := b.Connections(); return n == want })
	}
	connections(0)
	in, stop := subscribe(t, b, "a", "t.x", "")
	publish(t, b, "a", "t.x", "1")
	in.next(t)
	publish(t, b, "b", "t.x", "1")
	connections(2)
	b.CloseIdle(soon)
	connections(2)
	b.CloseIdle(later) // a subscription is a use
	connections(1)
	publish(t, b, "a", "t.x", "2")
	in.next(t)
	stop()
	b.CloseIdle(later)
	connections(0)
	for i := range 20 { // short-lived apps share the existing accounts
		app := "c" + strconv.Itoa(i)
		in, stop := subscribe(t, b, app, "t.>", "")
		publish(t, b, app, "t.x", app)
		if m := in.next(t); string(m.Data) != app || len(in.ch) > 0 {
			t.Errorf("%s got %s", app, m.Data)
		}
		stop()
		b.CloseIdle(later)
		connections(0)
	}
	if _, accounts := b.Connections(); accounts > 4 {
		t.Errorf("%d accounts were made", accounts)
	}
}

func TestUseWhileItCloses(t *testing.T) {
	for range 20 {
		b, err := bus.Start(t.Context(), bus.Config{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for {
					stop, err := b.Subscribe("app"+strconv.Itoa(i), "t.x", "", func(topic.Message) {}, func(int) {})
					if err != nil {
						if !errors.Is(err, topic.ErrUnavailable) {
							t.Errorf("while it closes: %v", err)
						}
						return
					}
					stop()
				}
			})
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
	}
}

func TestAnAppIsAloneWithoutNATSClients(t *testing.T) {
	b := start(t)
	alone := func(want bool, when string) {
		t.Helper()
		if b.Alone("a") != want || !b.Alone("b") {
			t.Errorf("%s: a alone: %v, b alone: %v", when, b.Alone("a"), b.Alone("b"))
		}
	}
	alone(true, "unused")
	subscribe(t, b, "a", "r.>", "q")
	alone(true, "subscribed to")
	c, _, _, left, err := b.Open(bus.Visitor{App: "a"})
	if err != nil {
		t.Fatal(err)
	}
	alone(false, "a NATS client connects")
	_ = c.Close()
	left()
	alone(true, "it has left")
}
