package pubsub

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
)

func TestMessageReachesWhoSubscribes(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, other := w.connect(), w.connect(), w.connectAs(session.Client{App: "a", Rights: &session.Rights{Topics: []string{">"}}}, frame.JSON)
		a.subscribe("rides.*", "alerts")
		b.subscribe("rides.oslo")
		other.subscribe(">")
		w.publish("rides.oslo", "rides.bergen", "rides", "rides.oslo.new", "alerts")
		a.want("rides.oslo", "rides.bergen", "alerts")
		b.want("rides.oslo")
		other.want()
	})
}

// TestRowOfMessagesToManyLeavesTogether: the first one waits for those right behind it. On one processor it is certain that they are.
func TestRowOfMessagesToManyLeavesTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	inWorld(t, func(w *world) {
		all := make([]*client, gatherFor)
		for i := range all {
			all[i] = w.connect()
			all[i].subscribe("rides")
		}
		const row = 20
		w.publish(slices.Repeat([]string{"rides"}, row)...)
		for i, c := range all {
			if got := c.take(); len(got) != row || c.rows != 1 {
				t.Errorf("session %d got %d messages in %d rows", i, len(got), c.rows)
			}
		}
	})
}

func TestMessagesGiveWayToWhatIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := New(Config{Bus: &wires{}})
		defer svc.Close()
		var busy bool
		svc.GiveWayTo(func() bool { return busy })
		publish := func() time.Duration {
			begun := time.Now()
			if err := svc.Publish(t.Context(), "app", &Message{Topic: "a"}); err != nil {
				t.Fatal(err)
			}
			return time.Since(begun)
		}
		if took := publish(); took != 0 {
			t.Errorf("while nothing is busy it waits for %s", took)
		}
		busy = true
		if took := publish(); took != givenWay {
			t.Errorf("while something is busy it waits for %s, want %s", took, givenWay)
		}
	})
}

func TestMessageIsEncodedOncePerFormat(t *testing.T) {
	inWorld(t, func(w *world) {
		all := session.Client{App: app, Rights: &session.Rights{Topics: []string{">"}}}
		var clients []*client
		for _, f := range []frame.Format{frame.JSON, frame.JSON, frame.Proto, frame.Proto, frame.SSE} {
			c := w.connectAs(all, f)
			c.subscribe("a")
			clients = append(clients, c)
		}
		w.publish("a")
		synctest.Wait()
		for i, c := range clients {
			if len(c.raw) != 1 {
				t.Fatalf("client %d got %d frames", i, len(c.raw))
			}
		}
		same := func(i, j int) bool { return &clients[i].raw[0][0] == &clients[j].raw[0][0] }
		if !same(0, 1) || !same(2, 3) || same(0, 2) || same(0, 4) {
			t.Error("who reads the same format does not share the encoding")
		}
	})
}

func TestOneSubscriptionOfTheBusForEachPattern(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.connect(), w.connect()
		a.subscribe("rides.*", "rides.*")
		a.subscribe("rides.*")
		b.subscribe("rides.*", "x")
		a.say(frame.KindSubscribe, "q", "rides.*")
		b.say(frame.KindSubscribe, "q", "rides.*")
		want := []string{"demo t.rides.* ", "demo t.rides.* q", "demo t.rides.* q", "demo t.x "}
		if got := w.bus.patterns(); !slices.Equal(got, want) {
			t.Errorf("the bus has %q, want %q", got, want)
		}
		if n := w.svc.Counts().Subscriptions; n != 5 {
			t.Errorf("%d subscriptions are counted, want 5", n)
		}
		a.unsubscribe("rides.*", "never")
		a.unsubscribe("rides.*")
		w.publish("rides.oslo")
		b.part.Closed()
		a.part.Closed()
		if got := w.bus.patterns(); len(got) > 0 || w.svc.Counts().Subscriptions != 0 {
			t.Errorf("when all are gone the bus has %q, %d counted", got, w.svc.Counts().Subscriptions)
		}
		w.publish("rides.oslo")
		a.say(frame.KindSubscribe, "", "x") // what comes after the end
		if got := w.bus.patterns(); len(got) > 0 {
			t.Errorf("a session that is over subscribed to %q", got)
		}
	})
}

func TestAMessageComesOnceHoweverManyPatternsMatch(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect()
		c.subscribe("rides.*", "rides.>", ">", "rides.oslo")
		w.publish("rides.oslo", "rides.oslo.new", "x")
		c.want("rides.oslo", "rides.oslo.new", "x")
		c.unsubscribe("rides.*")
		w.publish("rides.oslo", "rides.oslo.new")
		c.want("rides.oslo", "rides.oslo.new")
		c.say(frame.KindSubscribe, "q", "rides.*")
		w.publish("rides.oslo") // once for the patterns, and once as a member of the queue
		c.want("rides.oslo", "rides.oslo")
	})
}

func TestOneMemberOfAQueueGetsEachMessage(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, plain := w.connect(), w.connect(), w.connect()
		a.say(frame.KindSubscribe, "q", "jobs.*")
		b.say(frame.KindSubscribe, "q", "jobs.*")
		plain.subscribe("jobs.*")
		for range 10 {
			w.publish("jobs.x")
		}
		n, m := len(a.take()), len(b.take())
		if n+m != 10 || n == 0 || m == 0 || len(plain.take()) != 10 {
			t.Errorf("the members got %d and %d of 10", n, m)
		}
		a.say(frame.KindUnsubscribe, "q", "jobs.*")
		w.publish("jobs.x")
		a.want()
		b.want("jobs.x")
	})
}

func TestRefusedPatternsAreNamed(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect("rides.*", "users.anna.>")
		c.subscribe("rides.>", "rides.oslo", ">", "users.anna.inbox.*", "rides.*.x")
		c.want("error forbidden topics [rides.> > rides.*.x]")
		w.publish("rides.oslo", "rides.oslo.x", "users.anna.inbox.1")
		c.want("rides.oslo", "users.anna.inbox.1")
		none := w.connectAs(session.Client{App: app}, frame.JSON)
		none.subscribe("rides.oslo")
		none.want("error forbidden topics [rides.oslo]")
		looks := w.connectAs(session.Client{App: app, Rights: &session.Rights{Topics: []string{">"}}, Observer: true}, frame.JSON)
		looks.say(frame.KindSubscribe, "q", "rides.*")
		looks.want("error forbidden topics [rides.*]") // the subscription would take messages away from the workers
		looks.subscribe("rides.*")
		looks.want()
	})
}

func TestNewRightsEndWhatTheyDoNotAllow(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect("a.*", "b")
		c.subscribe("a.*", "a.1", "b")
		c.say(frame.KindSubscribe, "q", "b")
		c.part.Renew(session.Client{App: app, Rights: &session.Rights{Topics: []string{"a.1"}}})
		c.want("error forbidden topics [a.* b b]")
		w.publish("a.1", "a.2", "b")
		c.want("a.1")
		c.subscribe("b")
		c.want("error forbidden topics [b]")
		if got := w.bus.patterns(); !slices.Equal(got, []string{"demo t.a.1 "}) {
			t.Errorf("the bus has %q", got)
		}
	})
}

func TestASessionHasALimitedNumberOfPatterns(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect()
		for i := range frame.MaxPatterns {
			c.subscribe(fmt.Sprint("t", i))
		}
		c.want()
		c.subscribe("t1", "one.more", "t2", "another")
		c.want("error too_many_topics topics [one.more another]")
		for i := range 10_000 {
			c.subscribe(fmt.Sprint("n", i))
		}
		if got := c.take(); len(got) != 10_000 || len(w.bus.patterns()) != frame.MaxPatterns {
			t.Errorf("%d errors, %d subscriptions", len(got), len(w.bus.patterns()))
		}
		w.publish("t255", "n1")
		c.want("t255")
		c.unsubscribe("t0")
		c.subscribe("n1")
		w.publish("n1")
		c.want("n1")
	})
}

func TestAGapIsToldBeforeTheNextMessage(t *testing.T) {
	inWorld(t, func(w *world) {
		slow, quick := w.connect(), w.connect()
		slow.subscribe("a")
		quick.subscribe("a")
		w.publish("a")
		slow.want("a")
		slow.blocked(true)
		w.publish("a", "a", "a")
		slow.want()
		slow.blocked(false)
		w.publish("a")
		slow.want("gap 3", "a")
		if n := len(quick.take()); n != 5 {
			t.Errorf("the other got %d of 5", n)
		}
		if c := w.svc.Counts(); c.Dropped != 3 || c.Sent != 7 || c.Published != 5 {
			t.Errorf("counted %+v", c)
		}
	})
}

func TestAGapIsToldWhenNothingFollows(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect()
		c.subscribe("a")
		c.blocked(true)
		w.publish("a", "a")
		c.part.Drained()
		c.want()
		c.blocked(false)
		c.part.Drained()
		c.want("gap 2")
		c.waits(w.svc.cfg.QueueShare) // the gateway does not report when the waiting bytes have left
		w.publish("a")
		c.want()
		time.Sleep(time.Minute)
		c.want()
		c.waits(0)
		time.Sleep(tellEvery)
		c.want("gap 1")
		time.Sleep(time.Minute)
		c.want()
	})
}

func TestMessagesLostByTheBusAreAGap(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, other := w.connect(), w.connect(), w.connect()
		a.subscribe("a")
		b.subscribe("a")
		other.subscribe("b")
		w.bus.subs[0].lost(7)
		w.publish("a", "b")
		a.want("gap 7", "a")
		b.want("gap 7", "a")
		other.want("b")
	})
}

func TestMessagesLeaveRoomForTheMailbox(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect()
		c.subscribe("a")
		c.waits(w.svc.cfg.QueueShare - 10)
		w.publish("a")
		c.want()
		c.waits(1)
		w.publish("a")
		c.want("gap 1", "a")
		c.waits(0)
		big := &Message{Topic: "a", Data: make([]byte, topic.MaxData)}
		if err := w.svc.Publish(t.Context(), app, big); err != nil {
			t.Fatal(err)
		}
		c.want("a") // an empty queue accepts one message of any size
	})
}

// TestMessagesBeyondTheQueueAreCounted: a client delays the fan while more messages are published than may wait.
func TestMessagesBeyondTheQueueAreCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect()
		c.subscribe("a", "b")
		const count, size = 200, 32 << 10
		c.mu.Lock() // the fan is within Send
		for i := range count {
			m := &Message{Topic: [2]string{"a", "b"}[i%2], Data: make([]byte, size)}
			if err := w.svc.Publish(t.Context(), app, m); err != nil {
				t.Fatal(err)
			}
		}
		f := w.svc.fan(app)
		f.waiting.mu.Lock()
		waiting := f.waiting.bytes
		f.waiting.mu.Unlock()
		if waiting > maxWaiting {
			t.Errorf("%d bytes wait, want at most %d", waiting, maxWaiting)
		}
		c.mu.Unlock()
		w.publish("a")
		messages, gaps := 0, 0
		for _, got := range c.take() {
			var n int
			if _, err := fmt.Sscanf(got, "gap %d", &n); err == nil {
				gaps += n
			} else {
				messages++
			}
		}
		if messages+gaps != count+1 || gaps == 0 || messages < maxWaiting/(size+2*messageCost) {
			t.Errorf("%d messages and gaps of %d, want %d together", messages, gaps, count+1)
		}
	})
}

func TestBadMessagesAreRefusedByName(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, c := range []struct {
			m     Message
			field string
		}{
			{Message{Topic: ""}, "topic"},
			{Message{Topic: "a..b"}, "topic"},
			{Message{Topic: "a.*"}, "topic"},
			{Message{Topic: "a.>"}, "topic"},
			{Message{Topic: "a\x00"}, "topic"},
			{Message{Topic: "a\r\nPUB x 1"}, "topic"},
			{Message{Topic: strings.Repeat("a.", 16) + "a"}, "topic"},
			{Message{Topic: "a", ContentType: "text/plain\r\nX: y"}, "content_type"},
			{Message{Topic: "a", ContentType: strings.Repeat("x", 129)}, "content_type"},
			{Message{Topic: "a", Data: make([]byte, topic.MaxData+1)}, "data"},
		} {
			var fe *notification.FieldError
			if err := w.svc.Publish(t.Context(), app, &c.m); !errors.As(err, &fe) || fe.Field != c.field {
				t.Errorf("%.40q of %.40q: %v, want %s refused", c.m.Topic, c.m.ContentType, err, c.field)
			}
		}
	})
}

func TestWithoutABusWhoAsksIsTold(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect()
		w.bus.down = true
		c.subscribe("a", "b")
		c.want("error unavailable topics [a b]")
		if err := w.svc.Publish(t.Context(), app, &Message{Topic: "a"}); !errors.Is(err, topic.ErrUnavailable) {
			t.Errorf("publishing gives %v", err)
		}
		w.bus.down = false
		c.subscribe("a")
		w.publish("a")
		c.want("a")
	})
}

// TestEachSessionGetsWhatItsPatternsSay compares random subscriptions with the documented rules.
func TestEachSessionGetsWhatItsPatternsSay(t *testing.T) {
	inWorld(t, func(w *world) {
		r := rand.New(rand.NewPCG(1, 2))
		tokens := []string{"a", "b", "*"}
		pattern := func(wild bool) string {
			var p []string
			for range 1 + r.IntN(3) {
				p = append(p, tokens[r.IntN(len(tokens)-1)])
				if wild && r.IntN(3) == 0 {
					p[len(p)-1] = "*"
				}
			}
			if wild && r.IntN(4) == 0 {
				p[len(p)-1] = ">"
			}
			return strings.Join(p, ".")
		}
		clients := make([]*client, 20)
		has := make([]map[string]bool, len(clients))
		for i := range clients {
			clients[i], has[i] = w.connect(), map[string]bool{}
		}
		for range 2000 {
			i := r.IntN(len(clients))
			switch r.IntN(4) {
			case 0:
				p := pattern(true)
				clients[i].subscribe(p)
				has[i][p] = true
			case 1:
				for p := range has[i] {
					clients[i].unsubscribe(p)
					delete(has[i], p)
					break
				}
			default:
				name := pattern(false)
				w.publish(name)
				for i, c := range clients {
					var want []string
					for p := range has[i] {
						if topic.Match(p, name) {
							want = []string{name}
						}
					}
					if got := c.take(); !slices.Equal(got, want) {
						t.Fatalf("%s: a session of %v got %v, want %v", name, has[i], got, want)
					}
				}
			}
		}
	})
}
