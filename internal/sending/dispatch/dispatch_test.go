package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

func TestAChannelWithoutAPolicyFailsAtStart(t *testing.T) {
	if _, err := New(Config{Channels: []push.Channel{push.Webhook, "pigeon"}}); err == nil || !strings.Contains(err.Error(), "channel pigeon") {
		t.Errorf("a server that can send over a channel without a policy: %v", err)
	}
	d := newDispatcher(t, &service{})
	if _, err := d.Job(Work{App: "demo", Channels: []push.Channel{"pigeon"}, Backlog: newRows(0)}); err == nil || !strings.Contains(err.Error(), "channel pigeon") {
		t.Errorf("work for such a channel: %v", err)
	}
}

func TestOutcomesAreStoredByTheseNumbersAndShownByTheseNames(t *testing.T) {
	want := []string{"pending", "sending", "accepted", "failed", "expired", "suppressed", "unknown", "recalled"}
	for i, name := range want {
		if got := Outcome(i).String(); got != name { // eight of them
			t.Errorf("%d is %s, want %s", i, got, name)
		}
		if o, ok := ParseOutcome(name); ok != (Outcome(i) != Sending) || ok && o != Outcome(i) { // eight of them
			t.Errorf("%s is %d, %t", name, o, ok)
		}
	}
}

func TestEachAnswerHasItsOutcome(t *testing.T) {
	always, once := 1000, 1
	for _, c := range []struct {
		err     error
		times   int // how many attempts end this way; the next one is accepted
		channel push.Channel
		want    Result
		detail  string
		took    time.Duration // at least
	}{
		{nil, 0, push.Webhook, Result{Outcome: Accepted, Attempts: 1}, "", 0},
		{&push.GoneError{Reason: "410 gone"}, always, push.Webhook, Result{Outcome: Refused, Attempts: 1, Disable: "410 gone"}, "410 gone", 0},
		{&push.GoneError{Reason: "410 gone", Since: time.Unix(1e9, 0)}, always, push.Webhook, Result{Outcome: Refused, Attempts: 1, Disable: "410 gone", Since: time.Unix(1e9, 0)}, "410 gone", 0},
		{&push.GoneError{}, always, push.Webhook, Result{Outcome: Refused, Attempts: 1, Disable: "gone"}, "", 0},
		{&push.PermanentError{Reason: "413 too large"}, always, push.Webhook, Result{Outcome: Refused, Attempts: 1}, "413 too large", 0},
		{&push.RetryError{Reason: "503 busy"}, once, push.Webhook, Result{Outcome: Accepted, Attempts: 2}, "", firstRetry},
		{&push.RetryError{After: time.Minute, Reason: "429"}, once, push.Webhook, Result{Outcome: Accepted, Attempts: 2}, "", time.Minute},
		{&push.RetryError{After: time.Minute, Credential: true, Reason: "429"}, once, push.Webhook, Result{Outcome: Accepted, Attempts: 2}, "", time.Minute},
		{&push.RetryError{After: 2 * time.Hour, Reason: "429"}, always, push.Webhook, Result{Outcome: Expired, Attempts: 1}, "no time is left", 0},
		{&push.UnknownError{Reason: "no answer"}, once, push.Webhook, Result{Outcome: Accepted, Attempts: 2, Unsure: true}, "", firstRetry},
		{&push.UnknownError{Reason: "no answer"}, always, push.Webhook, Result{Outcome: Unknown, Attempts: maxUnsure, Unsure: true}, "no answer", 0},
		{&push.UnknownError{Reason: "502"}, once, push.Telegram, Result{Outcome: Unknown, Attempts: 1, Unsure: true}, "502", 0},
		{errors.New("who knows"), once, push.Telegram, Result{Outcome: Unknown, Attempts: 1, Unsure: true}, "who knows", 0},
	} {
		t.Run(fmt.Sprintf("%T, %d times, %s", c.err, c.times, c.channel), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &service{answer: func(_ push.Request, attempt int) error {
					if attempt <= c.times {
						return c.err
					}
					return nil
				}}
				s, begun := newRows(0), time.Now()
				s.add(c.channel, begun)
				if err := s.begin(t, t.Context(), newDispatcher(t, p), Work{Channels: []push.Channel{c.channel}})(); err != nil {
					t.Fatal(err)
				}
				got := s.result(1)
				if got.Outcome != c.want.Outcome || got.Attempts != c.want.Attempts || got.Disable != c.want.Disable || !got.Since.Equal(c.want.Since) || got.Unsure != c.want.Unsure ||
					!strings.Contains(got.Detail, c.detail) {
					t.Errorf("%+v, want %+v, %q", got, c.want, c.detail)
				}
				if took := time.Since(begun); took < c.took || took > 2*c.took+time.Minute {
					t.Errorf("it took %s, want %s or a little more", took, c.took)
				}
			})
		})
	}
}

func TestAMessageThatFailsAloneIsGivenUpSoonerThanInTrouble(t *testing.T) {
	for _, trouble := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := &service{answer: func(r push.Request, _ int) error {
				if trouble || r.ID == "1" {
					return &push.RetryError{Reason: "500"}
				}
				return nil
			}}
			s := newRows(2)
			s.life = 100 * time.Hour
			s.all[2].next = time.Now().Add(time.Second) // after the first attempt for the other row
			s.send(t, newDispatcher(t, p))
			want := maxTries
			if trouble {
				want = maxTriesInTrouble
			}
			if got := s.result(1); got.Outcome != Refused || got.Attempts != want {
				t.Errorf("trouble %t: %+v, want %d attempts", trouble, got, want)
			}
		})
	}
}

func TestPossiblyArrivedMessageNeverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &service{answer: func(r push.Request, attempt int) error {
			if attempt == 1 {
				return &push.UnknownError{Reason: "no answer"}
			}
			return &push.PermanentError{Reason: "403"}
		}}
		s := newRows(3)
		s.all[2].Unsure, s.all[2].Left = true, true
		s.all[3].Unsure, s.all[3].First = true, time.Now().Add(-2*s.life)
		s.send(t, newDispatcher(t, p))
		for n := range int64(3) {
			if got := s.result(n + 1); got.Outcome != Unknown || !strings.Contains(got.Detail, "may have arrived") {
				t.Errorf("%d is %+v", n+1, got)
			}
		}
	})
}

func TestHeldDeliveriesAreNotClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &service{}
		s := newRows(4)
		s.all[1].Left = true
		s.all[2].Disabled = "blocked"
		s.all[3].First = time.Now().Add(-s.life)
		dawn := time.Now().Add(30 * time.Minute)
		s.from = func(now time.Time) time.Time {
			if now.Before(dawn) {
				return dawn
			}
			return now
		}
		s.send(t, newDispatcher(t, p))
		for n, want := range []Outcome{Suppressed, Suppressed, Expired, Accepted} {
			if got := s.result(int64(n + 1)); got.Outcome != want {
				t.Errorf("%d is %s (%s), want %s", n+1, got.Outcome, got.Detail, want)
			}
		}
		if len(p.asked) != 1 || p.asked[0].Before(dawn) {
			t.Errorf("asked for at %s; quiet until %s", p.asked, dawn)
		}
	})
}

func TestARefusedCredentialHoldsItsScopeUntilSomebodyHasLooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := true
		p := &service{pace: push.Pace{Scope: "bot", Rate: 30}, takes: 10 * time.Millisecond}
		p.answer = func(push.Request, int) error {
			if refuse {
				return &push.ConfigError{Scope: "bot", Reason: "401 Unauthorized"}
			}
			return nil
		}
		d := newDispatcher(t, p)
		s := newRows(50)
		ended := s.begin(t, t.Context(), d, Work{})
		if err := ended(); err != nil {
			t.Fatal(err)
		}
		if why := s.job.Refusal(); why != "401 Unauthorized" {
			t.Errorf("held for %q", why)
		}
		if n := len(p.asked); n > 3 {
			t.Errorf("%d requests with a credential that is refused", n)
		}
		if n := refused(t, d); n != 1 {
			t.Errorf("metrics know %v refused credentials", n)
		}
		for _, r := range s.all {
			if !r.held || r.result.Outcome != Pending || r.result.Attempts != 0 {
				t.Fatalf("%+v", r.result)
			}
			r.held = false
		}
		refuse = false
		asked := len(p.asked)
		s.send(t, d)
		if len(p.asked) != asked {
			t.Error("it was tried again before anybody had looked")
		}
		for _, r := range s.all {
			r.held = false
		}
		d.Unblock("demo")
		s.send(t, d)
		if n := s.count(Accepted); n != 50 {
			t.Errorf("%d accepted", n)
		}
		if n := refused(t, d); n != 0 {
			t.Errorf("metrics still know %v refused credentials", n)
		}
	})
}

// refused returns the number of refused credentials of all channels in the metrics.
func refused(t *testing.T, d *Dispatcher) (n float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(d)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "godwit_push_refused_credentials" {
			for _, m := range f.GetMetric() {
				n += m.GetGauge().GetValue()
			}
		}
	}
	return n
}

func TestNoMoreAreClaimedThanMayBecomeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRows(300)
		s.broken = 3 // places become free only when outcomes are stored
		s.send(t, newDispatcher(t, &service{takes: time.Second}))
		p := policyOf(push.Webhook)
		if s.claimed > p.InFlight {
			t.Errorf("%d were claimed and not written back, at most %d may be", s.claimed, p.InFlight)
		}
		for _, group := range s.claims {
			if len(group) > p.Group {
				t.Errorf("%d were claimed at once, at most %d may be", len(group), p.Group)
			}
		}
		if n := s.count(Accepted); n != 300 {
			t.Errorf("%d accepted", n)
		}
	})
}

func TestUnclaimedDeliveryIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &service{}
		s := newRows(30)
		s.claim = func(d *Delivery) bool { return d.Row%3 == 0 }
		s.send(t, newDispatcher(t, p))
		if n := s.count(Accepted); n != 10 || len(p.asked) != 10 {
			t.Errorf("%d accepted, %d asked for; want 10", n, len(p.asked))
		}
	})
}

func TestAFormerOwnerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &service{takes: time.Second}
		s := newRows(500)
		ended := s.begin(t, t.Context(), newDispatcher(t, p), Work{})
		time.Sleep(500 * time.Millisecond)
		s.mu.Lock()
		s.stale = true
		s.mu.Unlock()
		if err := ended(); !errors.Is(err, ErrStale) {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestAStopWaitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRows(500)
		ctx, stop := context.WithCancel(t.Context())
		ended := s.begin(t, ctx, newDispatcher(t, &service{takes: time.Second}), Work{})
		time.Sleep(500 * time.Millisecond)
		stop()
		if err := ended(); err != nil {
			t.Error(err)
		}
		if n := s.count(Sending); n > 0 || s.count(Accepted) == 0 {
			t.Errorf("%d are being sent after the end, %d were accepted", n, s.count(Accepted))
		}
	})
}

func TestAChannelThatCannotSendEndsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := newRows(1).begin(t, t.Context(), newDispatcher(t, none{}), Work{})()
		var unable *ChannelError
		if !errors.As(err, &unable) || unable.Channel != push.Webhook {
			t.Errorf("it ended with %v", err)
		}
	})
}

// Another node has set the channel up a moment ago.
func TestAChannelIsReadAnewBeforeTheJobEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := &late{Senders: none{}}
		reload := func(context.Context) error { known.Senders = &service{}; return nil }
		d, err := New(Config{Senders: known, Channels: push.Channels(), Reload: reload})
		if err != nil {
			t.Fatal(err)
		}
		s := newRows(1)
		s.send(t, d)
		if n := s.count(Accepted); n != 1 {
			t.Errorf("%d were accepted, want 1", n)
		}
	})
}

// Whether the channel is set up is unknown then.
func TestSettingsThatCannotBeReadAreNoChannelThatCannotSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("the store is away")
		d, err := New(Config{Senders: none{}, Channels: push.Channels(), Reload: func(context.Context) error { return away }})
		if err != nil {
			t.Fatal(err)
		}
		err = newRows(1).begin(t, t.Context(), d, Work{})()
		var unable *ChannelError
		if !errors.Is(err, away) || errors.As(err, &unable) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// late has the senders that it was given last.
type late struct{ Senders }

// none has no senders, like an app that has set nothing up.
type none struct{}

func (none) Sender(context.Context, string, push.Channel) (push.Sender, error) {
	return nil, errors.New("it is not set up")
}

func TestWorkHasARateOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &service{}
		s, begun := newRows(101), time.Now()
		if err := s.begin(t, t.Context(), newDispatcher(t, p), Work{Rate: 10})(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("101 at 10 a second took %s", took)
		}
	})
}

func TestRecallIsTriedAgainWhileThatHelps(t *testing.T) {
	for _, c := range []struct {
		err    error
		times  int
		tries  int
		failed string
	}{
		{nil, 0, 1, ""},
		{&push.RetryError{Reason: "500"}, 2, 3, ""},
		{&push.UnknownError{Reason: "no answer"}, 2, 3, ""},
		{&push.RetryError{Credential: true, Scope: "bot", After: time.Minute, Reason: "429"}, 9, changeTries, "429"},
		{&push.PermanentError{Reason: "48 hours"}, 9, 1, "48 hours"},
		{&push.GoneError{Reason: "gone"}, 9, 1, "gone"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &service{pace: push.Pace{Scope: "bot", Rate: 30}, recall: func(_ push.Sent, attempt int) error {
				if attempt <= c.times {
					return c.err
				}
				return nil
			}}
			sent := push.Sent{Request: push.Request{ID: "1", App: "demo"}}
			failed, err := newDispatcher(t, p).Recall(t.Context(), t.Context(), p, push.Telegram, sent)
			if err != nil || len(p.asked) != c.tries || (failed != nil) != (c.failed != "") || failed != nil && !strings.Contains(failed.Error(), c.failed) {
				t.Errorf("%v: %d tries, %v, %v; want %d, %q", c.err, len(p.asked), failed, err, c.tries, c.failed)
			}
		})
	}
}

func TestRecallsKeepToTheRateOfTheirScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &service{pace: push.Pace{Scope: "bot", Rate: 30}, recall: func(push.Sent, int) error { return nil }}
		d, begun := newDispatcher(t, p), time.Now()
		var ends []chan error
		for range 60 {
			end := make(chan error, 1)
			ends = append(ends, end)
			go func() {
				_, err := d.Recall(t.Context(), t.Context(), p, push.Telegram, push.Sent{Request: push.Request{ID: "1", App: "demo"}})
				end <- err
			}()
		}
		for _, end := range ends {
			if err := <-end; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begun); took < 1900*time.Millisecond || !slices.IsSortedFunc(p.asked, time.Time.Compare) {
			t.Errorf("60 recalls at 30 a second took %s", took)
		}
	})
}

func TestDeliveriesTakenOverElsewhereAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &service{pace: push.Pace{Scope: "bot", Rate: 10}}
		s := newRows(50)
		lost := time.Now().Add(time.Second)
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		if err := s.begin(t, ctx, newDispatcher(t, p), Work{Held: func() bool { return time.Now().Before(lost) }})(); err != nil {
			t.Fatal(err)
		}
		for _, at := range p.asked {
			if !at.Before(lost) {
				t.Errorf("one left %s after that", at.Sub(lost))
			}
		}
		// The others are pending, since they were certainly not sent.
		if n := s.count(Accepted); n == 0 || n != p.total() || s.count(Pending) != 50-n {
			t.Errorf("%d of %d requests were accepted, %d are pending", n, p.total(), s.count(Pending))
		}
	})
}

func TestALimitOfOneDeviceHoldsWhateverElseIsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &service{pace: push.Pace{Scope: "project"}, answer: func(r push.Request, attempt int) error {
			if r.ID == "1" && attempt == 1 {
				return &push.RetryError{After: time.Minute, Reason: "429 for this device"}
			}
			return nil
		}}
		s, begun := newRows(3), time.Now()
		device := audience.NewID(begun)
		s.all[1].EndpointID, s.all[2].EndpointID = device, device
		s.all[2].next, s.all[3].next = begun.Add(time.Second), begun.Add(2*time.Second)
		s.send(t, newDispatcher(t, p))
		if n := s.count(Accepted); n != 3 {
			t.Fatalf("%d accepted", n)
		}
		// The first request, two seconds later the other device's, and after a minute both of the first device's.
		if len(p.asked) != 4 || p.asked[1].Sub(begun) > 10*time.Second || p.asked[2].Sub(begun) < time.Minute {
			t.Errorf("asked at %s from %s", p.asked, begun)
		}
	})
}
