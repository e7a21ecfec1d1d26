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

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHandledNotificationIsAcknowledgedAndFailedOneIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listen(t, func(_ int, c *scripted) error {
			c.welcome()
			c.notify("good")
			c.notify("bad")
			c.notify("later")
			return nil
		}, func(_ context.Context, n *Notification) error {
			switch n.ID {
			case "bad":
				return errors.New("broken")
			case "later":
				return NackAfter(time.Minute, errors.New("busy"))
			}
			return nil
		})
		synctest.Wait()
		var acked []string
		var nacks []nack
		for len(l.conns[0].seen) > 0 {
			switch f := <-l.conns[0].seen; {
			case f.Ack != nil:
				acked = append(acked, f.Ack.IDs...)
			case f.Nack != nil:
				nacks = append(nacks, *f.Nack)
			}
		}
		if !slices.Equal(acked, []string{"good"}) {
			t.Errorf("acknowledged %v", acked)
		}
		if len(nacks) != 2 || nacks[0].After != 0 || nacks[0].IDs[0] != "bad" || nacks[1].After != wireTime(time.Minute) {
			t.Errorf("nacks %v", nacks)
		}
		l.end()
	})
}

func TestHandlerThatAsksForTheImpossibleGetsWhatCanBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("é", 600)
		asks := map[string]error{
			"past": NackAfter(-time.Hour, errors.New("busy")), "far": NackAfter(1<<62, nil), "long": NackAfter(0, errors.New("x"+long)),
			"half": NackAfter(time.Second, errors.New("\xff")),
		}
		l := listen(t, func(_ int, c *scripted) error {
			c.welcome()
			for id := range asks {
				c.notify(id)
			}
			return nil
		}, func(_ context.Context, n *Notification) error { return asks[n.ID] })
		synctest.Wait()
		want := map[string]nack{
			"past": {After: wireTime(time.Millisecond), Reason: "busy"}, "far": {After: wireTime(24 * time.Hour)},
			"long": {After: wireTime(time.Millisecond), Reason: "x" + long[:998]}, "half": {After: wireTime(time.Second)},
		}
		got := 0
		for c := l.conns[0]; len(c.seen) > 0; {
			f := <-c.seen
			if f.Nack == nil {
				continue
			}
			got++
			if w := want[f.Nack.IDs[0]]; f.Nack.After != w.After || f.Nack.Reason != w.Reason {
				t.Errorf("%s: got %v", f.Nack.IDs[0], f.Nack)
			}
		}
		if got != len(want) {
			t.Errorf("%d were refused, want %d", got, len(want))
		}
		l.end()
	})
}

func TestRedeliveredNotificationIsHandledOnceAndAcknowledgedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled []string
		l := listen(t, func(_ int, c *scripted) error {
			c.welcome()
			c.notify("a")
			return nil
		}, func(_ context.Context, n *Notification) error {
			handled = append(handled, n.ID)
			return nil
		})
		synctest.Wait()
		l.conns[0].acks()
		l.conns[0].notify("a") // the acknowledgement was lost
		collected()
		if got := l.conns[0].acks(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("after the redelivery acknowledged %v", got)
		}
		l.conns[0].end(io.EOF) // redelivered once more, on the next connection
		collected()
		if got := l.conns[1].acks(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("after the reconnect acknowledged %v", got)
		}
		if !slices.Equal(handled, []string{"a"}) {
			t.Errorf("handled %v", handled)
		}
		l.end()
	})
}

// collected waits until collected acknowledgements have been sent.
func collected() {
	time.Sleep(usualAckDelay)
	synctest.Wait()
}

// ackFrames runs do on a session and returns the ids in each acknowledgement frame.
func ackFrames(t *testing.T, handle Handler, do func(c *scripted), opts ...ListenOption) (frames []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := listen(t, func(_ int, c *scripted) error { c.welcome(); return nil }, handle, opts...)
		synctest.Wait()
		do(l.conns[0])
		l.end()
		for c := l.conns[0]; len(c.seen) > 0; {
			if f := <-c.seen; f.Ack != nil {
				frames = append(frames, strings.Join(f.Ack.IDs, " "))
			}
		}
	})
	return frames
}

func TestLoneAckLeavesAtOnceAndFollowersShareAFrame(t *testing.T) {
	handle := func(_ context.Context, n *Notification) error {
		if n.ID == "bad" {
			return errors.New("broken")
		}
		return nil
	}
	each := func(ids ...string) func(c *scripted) {
		return func(c *scripted) {
			for _, id := range ids {
				c.notify(id)
				synctest.Wait()
			}
		}
	}
	for name, tt := range map[string]struct {
		do   func(c *scripted)
		opts []ListenOption
		want []string
	}{
		"one after the other": {do: func(c *scripted) {
			for _, id := range []string{"a", "b", "c"} {
				c.notify(id)
				time.Sleep(usualAckDelay)
			}
		}, want: []string{"a", "b", "c"}},
		"a burst": {do: func(c *scripted) {
			each("a", "b", "c")(c)
			collected()
			each("d", "e")(c)
			time.Sleep(2 * usualAckDelay)
			each("f")(c)
		}, want: []string{"a", "b c", "d e", "f"}},
		"until the end":         {do: each("a", "b", "c"), want: []string{"a", "b c"}},
		"the server waits":      {do: each("a", "b", "c", "d", "e"), opts: []ListenOption{Window(4)}, want: []string{"a", "b c", "d e"}},
		"something else leaves": {do: each("a", "b", "c", "bad", "d", "e"), want: []string{"a", "b c", "d e"}},
		"none is to wait":       {do: each("a", "b", "c"), opts: []ListenOption{AckDelay(0)}, want: []string{"a", "b", "c"}},
		"longer": {do: func(c *scripted) {
			each("a", "b")(c)
			time.Sleep(time.Second - 1)
			each("c")(c)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			each("d")(c)
		}, opts: []ListenOption{AckDelay(time.Second)}, want: []string{"a", "b c", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ackFrames(t, handle, tt.do, tt.opts...); !slices.Equal(got, tt.want) {
				t.Errorf("acknowledged %q, want %q", got, tt.want)
			}
		})
	}
	c, _ := New("http://example.org", WithToken("t"))
	for _, d := range []time.Duration{-1, time.Second + 1} {
		if err := c.Listen(t.Context(), "r", nil, AckDelay(d)); err == nil || !strings.Contains(err.Error(), "ack delay") {
			t.Errorf("Listen with a delay of %s returned %v", d, err)
		}
	}
}

func TestFirstRetryIsImmediateAndLaterOnesBackOffWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		l := listen(t, func(int, *scripted) error {
			at = append(at, time.Since(start))
			return errors.New("connection refused")
		}, nil)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if at[0] != 0 || at[1] != 0 {
			t.Errorf("first tries at %v, want both at once", at[:2])
		}
		for i := 2; i < len(at); i++ {
			bound := min(time.Second<<min(i-2, 20), 5*time.Minute)
			if wait := at[i] - at[i-1]; wait > bound {
				t.Errorf("try %d came %s after the one before, more than %s", i+1, wait, bound)
			}
		}
		if n := len(at); n < 24*60/5 || n > 24*60 {
			t.Errorf("%d tries in a day", n)
		}
		l.end()
	})
}

func TestGoodbyeIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listen(t, func(n int, c *scripted) error {
			c.welcome()
			if n == 1 {
				c.in <- serverFrame{Goodbye: &goodbye{Reason: "shutdown", RetryAfter: time.Minute}}
				c.end(io.EOF)
			}
			return nil
		}, nil)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if n := l.dials(); n != 1 {
			t.Errorf("%d connections before the time the server gave", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := l.dials(); n != 2 {
			t.Errorf("%d connections after it", n)
		}
		l.end()
	})
}

func TestRefusalEndsListen(t *testing.T) {
	for _, reason := range []string{"unauthenticated", "forbidden", "unknown_app", "replaced", "erased"} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := listen(t, func(_ int, c *scripted) error {
					c.in <- serverFrame{Goodbye: &goodbye{Reason: reason}}
					c.end(io.EOF)
					return nil
				}, nil)
				var refused *RefusedError
				if err := <-l.done; !errors.As(err, &refused) || refused.Reason != reason {
					t.Errorf("Listen returned %v", err)
				}
				l.stop()
			})
		})
	}
}

func TestBadHelloEndsListenWithTheServersWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listen(t, func(_ int, c *scripted) error {
			c.in <- serverFrame{Err: &frameError{Code: "bad_field", Message: "recipient is too long", Field: "recipient"}}
			return nil
		}, nil)
		if err := <-l.done; err == nil || !strings.Contains(err.Error(), "recipient is too long") {
			t.Errorf("Listen returned %v", err)
		}
		l.stop()
	})
}

func TestExpiredTokenIsReplacedAndTheSameOneIsNotTriedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := []string{"old", "new", "new", "new"}
		source := func(context.Context) (Token, error) {
			v := tokens[0]
			tokens = tokens[1:]
			return Token{Value: v}, nil
		}
		var hellos []string
		c, _ := New("http://example.org", WithTokenSource(source))
		l := newListener(c, "r", nil, listenOptions{concurrency: 1})
		s := &script{play: func(_ int, c *scripted) error {
			c.in <- serverFrame{Goodbye: &goodbye{Reason: "token_expired"}}
			c.end(io.EOF)
			return nil
		}}
		l.dial = s.dial
		err := l.run(t.Context())
		for _, c := range s.conns {
			hellos = append(hellos, (<-c.seen).Hello.Token)
		}
		if !slices.Equal(hellos, []string{"old", "new"}) {
			t.Errorf("said hello with %v", hellos)
		}
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Reason != "token_expired" {
			t.Errorf("Listen returned %v", err)
		}
	})
}

func TestTokenIsRenewedBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		source := func(context.Context) (Token, error) {
			made++
			return Token{Value: fmt.Sprint("token-", made), Expires: time.Now().Add(100 * time.Second)}, nil
		}
		c, _ := New("http://example.org", WithTokenSource(source))
		l := newListener(c, "r", nil, listenOptions{concurrency: 1})
		s := &script{play: func(_ int, c *scripted) error { c.welcome(); return nil }}
		l.dial = s.dial
		ctx, cancel := context.WithTimeout(t.Context(), 95*time.Second)
		defer cancel()
		start := time.Now()
		renewed := time.Duration(0)
		done := make(chan error, 1)
		go func() { done <- l.run(ctx) }()
		synctest.Wait()
		<-s.conns[0].seen // the first hello
		for f := range s.conns[0].seen {
			if f.Ping != nil {
				s.conns[0].in <- serverFrame{}
				continue
			}
			if f.Hello == nil || f.Hello.Token != "token-2" {
				t.Errorf("sent %+v", f)
			}
			renewed = time.Since(start)
			break
		}
		if renewed != 90*time.Second {
			t.Errorf("renewed after %s", renewed)
		}
		<-done
		if n := s.dials(); n != 1 {
			t.Errorf("%d connections, want the one", n)
		}
	})
}

func TestSilentServerIsPingedThenLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why []string
		l := listen(t, func(_ int, c *scripted) error { c.welcome(); return nil }, nil,
			OnDisconnect(func(err error, _ time.Duration) { why = append(why, err.Error()) }))
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if n := l.dials(); n != 2 {
			t.Errorf("%d connections after two silent heartbeats", n)
		}
		if len(why) != 1 || !strings.Contains(why[0], "silent") {
			t.Errorf("it ended because of %q", why)
		}
		<-l.conns[0].seen
		if f := <-l.conns[0].seen; f.Ping == nil {
			t.Errorf("before it left it sent %+v, want a ping", f)
		}
		l.end()
	})
}

func TestRecallCancelsTheHandlerAndSkipsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled, recalled []string
		var cause error
		l := listen(t, func(_ int, c *scripted) error {
			c.welcome()
			c.notify("running")
			c.notify("waiting")
			return nil
		}, func(ctx context.Context, n *Notification) error {
			handled = append(handled, n.ID)
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}, OnRecall(func(ids []string) { recalled = append(recalled, ids...) }))
		synctest.Wait()
		l.conns[0].in <- serverFrame{Recall: []string{"waiting", "running", "unknown"}}
		synctest.Wait()
		if !slices.Equal(handled, []string{"running"}) || !errors.Is(cause, ErrRecalled) {
			t.Errorf("handled %v, context ended by %v", handled, cause)
		}
		if !slices.Equal(recalled, []string{"waiting", "running", "unknown"}) {
			t.Errorf("told of %v", recalled)
		}
		<-l.conns[0].seen
		if len(l.conns[0].seen) > 0 {
			t.Errorf("sent %+v for recalled notifications", <-l.conns[0].seen)
		}
		l.end()
	})
}

func TestAcknowledgementOfTheLastHandlerIsFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listen(t, func(_ int, c *scripted) error {
			c.welcome()
			c.notify("a")
			return nil
		}, func(ctx context.Context, _ *Notification) error {
			<-ctx.Done() // the handler finishes its work although Listen is ending
			return nil
		})
		synctest.Wait()
		l.end()
		if got := l.conns[0].acks(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("acknowledged %v", got)
		}
	})
}

func TestConcurrencyBoundsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		l := listen(t, func(_ int, c *scripted) error {
			c.welcome()
			for i := range 10 {
				c.notify(fmt.Sprint(i))
			}
			return nil
		}, func(context.Context, *Notification) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}, Concurrency(3))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := l.conns[0].acks(); len(got) != 10 || most != 3 {
			t.Errorf("%d acknowledged, %d at once", len(got), most)
		}
		l.end()
	})
}

func TestWorseThanAnyWindowIsDroppedNotQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := listen(t, func(_ int, c *scripted) error {
			c.welcome()
			return nil
		}, func(context.Context, *Notification) error { <-release; return nil })
		synctest.Wait()
		for i := range 3 * maxWindow {
			l.conns[0].notify(fmt.Sprint(i))
			if i%50 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		close(release)
		collected()
		if got := len(l.conns[0].acks()); got != maxWindow+1 {
			t.Errorf("%d were kept, want one running and %d waiting", got, maxWindow)
		}
		l.end()
	})
}

func TestIDSetForgetsTheOldestOnly(t *testing.T) {
	s := newIDSet(3)
	for _, id := range []string{"a", "b", "c", "a", "d"} {
		s.add(id)
	}
	for id, want := range map[string]bool{"a": false, "b": true, "c": true, "d": true} {
		if s.contains(id) != want {
			t.Errorf("contains %s is %t", id, !want)
		}
	}
	if len(s.has) != 3 {
		t.Errorf("remembers %d", len(s.has))
	}
}
