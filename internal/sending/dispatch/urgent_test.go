package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// TestUrgentWorkDoesNotWaitForOthersTurns: many campaigns saturate a bot, each waiting for a slot of its own.
func TestUrgentWorkDoesNotWaitForOthersTurns(t *testing.T) {
	for _, urgent := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const bulk, each, messages = 20, 100, 40
			p := &service{pace: push.Pace{Scope: "bot", Rate: 30}, takes: 40 * time.Millisecond}
			d := newDispatcher(t, p)
			chats := []push.Channel{push.Telegram}
			var ends []func() error
			for range bulk {
				s := newRows(0)
				for range each {
					s.add(push.Telegram, time.Now())
				}
				ends = append(ends, s.begin(t, t.Context(), d, Work{Channels: chats}))
			}
			first := newRows(0)
			first.open = true
			ends = append(ends, first.begin(t, t.Context(), d, Work{Channels: chats, Urgent: urgent}))
			begun := time.Now()
			for i := range messages {
				time.Sleep(time.Second + time.Duration(i)*7*time.Millisecond)
				first.add(push.Telegram, time.Now())
				first.job.Kick()
			}
			first.end()
			for _, ended := range ends {
				if err := ended(); err != nil {
					t.Fatal(err)
				}
			}
			var worst time.Duration
			for _, r := range first.all {
				worst = max(worst, r.took)
			}
			gap := time.Second / 30
			if urgent && worst > 3*gap {
				t.Errorf("an urgent message waited for %s, %.1f gaps", worst, float64(worst)/float64(gap))
			}
			if !urgent && worst < 10*gap {
				t.Errorf("one that is not urgent waited for %s at most: nothing stood in its way, so this test shows nothing", worst)
			}
			if most := p.most(); most > 30 {
				t.Errorf("%d messages within a second, of 30 that the provider lets through", most)
			}
			n := bulk*each + messages
			if rate := float64(n) / time.Since(begun).Seconds(); rate < 27 {
				t.Errorf("%.1f messages a second of 30: turns were lost", rate)
			}
		})
	}
}

// TestUrgentWorkKeepsToTheRateOfItsScope: urgent work alone exceeds the provider's rate.
func TestUrgentWorkKeepsToTheRateOfItsScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &service{pace: push.Pace{Scope: "bot", Rate: 30}, takes: 40 * time.Millisecond}
		d := newDispatcher(t, p)
		bulk := newRows(300)
		ended := bulk.begin(t, t.Context(), d, Work{})
		urgent := newRows(300)
		begun := time.Now()
		if err := urgent.begin(t, t.Context(), d, Work{Urgent: true})(); err != nil {
			t.Fatal(err)
		}
		// The urgent work alone would take 10.3 s at 29.1 messages a second.
		if took := time.Since(begun); took > 11*time.Second {
			t.Errorf("300 urgent messages took %s beside others", took)
		}
		if err := ended(); err != nil {
			t.Fatal(err)
		}
		if most := p.most(); most > 30 {
			t.Errorf("%d messages within a second, of 30 that the provider lets through", most)
		}
		if n := bulk.count(Accepted) + urgent.count(Accepted); n != 600 {
			t.Errorf("%d accepted", n)
		}
	})
}

func TestUrgentWorkWaitsWhileAProviderWantsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rest := time.Now().Add(time.Minute)
		p := &service{pace: push.Pace{Scope: "bot", Rate: 30}, takes: 40 * time.Millisecond}
		p.answer = func(push.Request, int) error {
			if left := time.Until(rest); left > 0 {
				return &push.RetryError{After: left, Credential: true, Scope: "bot", Reason: "429"}
			}
			return nil
		}
		d := newDispatcher(t, p)
		bulk, urgent := newRows(50), newRows(0)
		urgent.open = true
		ended := bulk.begin(t, t.Context(), d, Work{})
		other := urgent.begin(t, t.Context(), d, Work{Urgent: true})
		time.Sleep(10 * time.Second)
		before := p.total()
		urgent.add(push.Webhook, time.Now())
		urgent.end()
		if err := other(); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(rest); late < 0 || late > 500*time.Millisecond {
			t.Errorf("it was over %s after the rest", late)
		}
		if err := ended(); err != nil {
			t.Fatal(err)
		}
		if before > 10 {
			t.Errorf("%d messages before all rested", before)
		}
	})
}
