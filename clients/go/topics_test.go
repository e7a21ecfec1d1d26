package godwit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// log records a program's callbacks.
type told struct {
	mu  sync.Mutex
	got []string
}

func (l *told) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, fmt.Sprintf(format, args...))
}

func (l *told) want(t *testing.T, what ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.got, what) {
		t.Errorf("told %q, want %q", l.got, what)
	}
	l.got = nil
}

// asked removes the client's frames about topics so far, and answers its pings.
func (c *scripted) asked() (frames []string) {
	for {
		select {
		case f := <-c.seen:
			switch {
			case f.Subscribe != nil:
				frames = append(frames, strings.TrimSpace(fmt.Sprint("sub ", f.Subscribe.Topics, " ", f.Subscribe.Queue)))
			case f.Unsubscribe != nil:
				frames = append(frames, strings.TrimSpace(fmt.Sprint("unsub ", f.Unsubscribe.Topics, " ", f.Unsubscribe.Queue)))
			case f.Ping != nil:
				c.in <- serverFrame{Pong: &ping{}}
			}
		default:
			return frames
		}
	}
}

func (c *scripted) wantAsked(t *testing.T, what ...string) {
	t.Helper()
	synctest.Wait()
	if got := c.asked(); !slices.Equal(got, what) {
		t.Errorf("the server was asked %q, want %q", got, what)
	}
}

func (c *scripted) say(topic string) {
	c.in <- serverFrame{Message: &message{Message: Message{Topic: topic}}}
}

func welcoming(_ int, c *scripted) error {
	c.welcome()
	return nil
}

func TestTopicsAreSubscribedToAgainAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got told
		topics := NewTopics(func(_ context.Context, m *Message) { got.note("%s", m.Topic) }, OnGap(func(n int) { got.note("gap %d", n) }))
		if err := topics.Subscribe("rides.*", "alerts"); err != nil {
			t.Fatal(err)
		}
		l := listen(t, welcoming, nil, Subscriptions(topics))
		synctest.Wait()
		c := l.conns[0]
		c.wantAsked(t, "sub [rides.* alerts]")
		if err := topics.SubscribeQueue("q", "jobs.>"); err != nil {
			t.Fatal(err)
		}
		_ = topics.Subscribe("alerts") // again
		c.wantAsked(t, "sub [jobs.>] q")
		if err := topics.Active(t.Context()); err != nil {
			t.Error(err)
		}
		c.say("rides.oslo")
		c.in <- serverFrame{Message: &message{gap: 3}}
		c.say("alerts")
		got.want(t, "rides.oslo", "gap 3", "alerts")
		topics.Unsubscribe("alerts", "never")
		c.wantAsked(t, "unsub [alerts]")
		time.Sleep(time.Minute)
		c.end(io.EOF)
		synctest.Wait()
		c = l.conns[1]
		c.wantAsked(t, "sub [rides.*]", "sub [jobs.>] q")
		topics.UnsubscribeQueue("q", "jobs.>")
		c.wantAsked(t, "unsub [jobs.>] q")
		c.say("rides.bergen")
		got.want(t, "rides.bergen")
		l.end()
	})
}

func TestRefusedTopicsAreToldAndDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused *SubscriptionError
		topics := NewTopics(func(context.Context, *Message) {}, OnRefused(func(e *SubscriptionError) { refused = e }))
		_ = topics.Subscribe("a", "b", "c")
		l := listen(t, welcoming, nil, Subscriptions(topics))
		synctest.Wait()
		c := l.conns[0]
		<-c.seen // the hello
		c.in <- serverFrame{Err: &frameError{Code: "forbidden", Field: "topics", Message: "no", Refused: []string{"b"}}}
		c.in <- serverFrame{Err: &frameError{Code: "unavailable", Field: "topics", Message: "later", Refused: []string{"c"}}}
		synctest.Wait()
		if refused == nil || refused.Code != "forbidden" || fmt.Sprint(refused.Topics) != "[b]" {
			t.Errorf("told %v", refused)
		}
		c.wantAsked(t, "sub [a b c]")
		time.Sleep(2 * time.Second) // c is requested again later
		c.wantAsked(t, "sub [c]")
		if err := topics.Active(t.Context()); err != nil {
			t.Error(err)
		}
		l.end()
	})
}

func TestASlowHandlerMissesMessagesAndHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		handled, gaps := 0, 0
		topics := NewTopics(func(context.Context, *Message) { <-free; handled++ }, OnGap(func(n int) { gaps += n }))
		_ = topics.Subscribe("a")
		noted := 0
		l := listen(t, welcoming, func(context.Context, *Notification) error { noted++; return nil }, Subscriptions(topics))
		synctest.Wait()
		c := l.conns[0]
		const count = maxWaitingMessages + 500
		for range count {
			c.say("a")
			synctest.Wait()
		}
		c.notify("ride-1")
		synctest.Wait()
		if noted != 1 {
			t.Error("a notification waits behind messages")
		}
		close(free)
		synctest.Wait()
		if handled+gaps != count || gaps == 0 || handled < maxWaitingMessages {
			t.Errorf("%d handled and %d missed, want %d together", handled, gaps, count)
		}
		l.end()
	})
}

func TestBadPatternsAreRefusedHere(t *testing.T) {
	topics := NewTopics(func(context.Context, *Message) {})
	for _, p := range []string{"", "a..b", ".a", "a.", "a.>.b", "a*", "*x", "a b", "a\n", strings.Repeat("a.", 16) + "a", strings.Repeat("a", 256), "é"} {
		if topics.Subscribe(p) == nil {
			t.Errorf("%q was taken", p)
		}
	}
	for _, p := range []string{"a", ">", "*", "a.*.b", "a.>", "users.anna%2Esmith", strings.Repeat("a.", 15) + "a"} {
		if err := topics.Subscribe(p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
	if topics.SubscribeQueue("a b", "x") == nil || topics.SubscribeQueue("", "x") == nil {
		t.Error("a queue without a name was taken")
	}
}

func TestTopicsServeOneListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topics := NewTopics(func(context.Context, *Message) {})
		l := listen(t, welcoming, nil, Subscriptions(topics))
		synctest.Wait()
		other := listen(t, welcoming, nil, Subscriptions(topics))
		if err := <-other.done; err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("a second Listen returned %v", err)
		}
		other.stop()
		l.end()
		again := listen(t, welcoming, nil, Subscriptions(topics))
		synctest.Wait()
		again.end()
	})
}
