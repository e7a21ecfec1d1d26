package campaigns

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

func times(b pushserver.Behaviour, n int) pushserver.Behaviour {
	b.Times = n
	return b
}

// mix lists how subscribers of the mixed campaign behave: each kind, its share in a hundred, and how its deliveries must end.
var mix = []struct {
	name      string
	share     int
	behaviour pushserver.Behaviour
	outcomes  []string
	disabled  bool
	taken     int // the most messages that it may have received
}{
	{"gone", 4, pushserver.Gone, []string{"failed"}, true, 0},
	{"missing", 3, pushserver.Missing, []string{"failed"}, true, 0},
	{"too large", 1, pushserver.Behaviour{Status: http.StatusRequestEntityTooLarge}, []string{"failed"}, false, 0},
	{"failing for a while", 3, times(pushserver.Failing, 2), []string{"accepted"}, false, 1},
	{"failing for ever", 1, pushserver.Failing, []string{"failed"}, false, 0},
	{"overloaded once", 2, times(pushserver.Overloaded, 1), []string{"accepted"}, false, 1},
	{"unavailable once", 1, times(pushserver.Unavailable, 1), []string{"accepted"}, false, 1},
	{"slow", 3, pushserver.Behaviour{Delay: 300 * time.Millisecond}, []string{"accepted"}, false, 1},
	{"broken once", 2, times(pushserver.Broken, 1), []string{"accepted"}, false, 2},
	{"broken for ever", 1, pushserver.Broken, []string{"unknown"}, false, 3},
	{"hung", 1, pushserver.Hung, []string{"unknown"}, false, 3},
}

// kind returns the kind of the i-th subscriber; -1: it accepts.
func kind(i int) int {
	at := i * 37 % 100
	for k := range mix {
		if at < mix[k].share {
			return k
		}
		at -= mix[k].share
	}
	return -1
}

func TestEverySubscriberEndsInOneHonestOutcome(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("what hangs and fails for ever takes a minute to be given up")
	}
	w, provider, subs := pushing(t, *subscribers, pushserver.Options{OneKey: true}, func(i int) pushserver.Behaviour {
		if k := kind(i); k >= 0 {
			return mix[k].behaviour
		}
		return pushserver.Accepting
	}, blackbox.Plain())
	id := w.start(map[string]any{"name": "mixed", "content": map[string]any{"title": "Hi", "body": "There is news"}, "audience": map[string]any{"channels": []string{"webpush"}}})
	c := w.ended(id, "completed", 4*time.Minute+time.Duration(len(subs)/50)*time.Second)
	report := w.report(id)
	if len(report) != len(subs) || c.Total != len(subs) || c.Counts["pending"] != 0 {
		t.Errorf("%d rows and a total of %d for %d subscribers: %v", len(report), c.Total, len(subs), c.Counts)
	}
	counted := map[string]int{}
	for i, s := range subs {
		d := report[s.endpoint]
		counted[d.Outcome]++
		name, want, disabled, most := "accepting", []string{"accepted"}, false, 1
		if k := kind(i); k >= 0 {
			name, want, disabled, most = mix[k].name, mix[k].outcomes, mix[k].disabled, mix[k].taken
		}
		if d.Outcome != want[0] {
			t.Errorf("%s: %s (%s) after %d attempts, want %s", name, d.Outcome, d.Detail, d.Attempts, want[0])
		}
		if d.Outcome != "accepted" && d.Detail == "" {
			t.Errorf("%s: %s, and nobody says why", name, d.Outcome)
		}
		sameTopic(t, name, provider.Received(s.push), most)
		if disabled != w.disabled(s.endpoint) {
			t.Errorf("%s: disabled is %t", name, !disabled)
		}
	}
	for outcome, n := range counted {
		if c.Counts[outcome] != n {
			t.Errorf("%d are counted as %s, %d rows say so", c.Counts[outcome], outcome, n)
		}
	}
	t.Logf("%d subscribers: %v at %s", len(subs), c.Counts, c.Rate)
}

func TestOneStaleSubscriptionStopsNobodyElse(t *testing.T) {
	t.Parallel()
	const stale = 171
	n := thorough.Rounds(300, 1000)
	for _, b := range []pushserver.Behaviour{
		{Status: http.StatusForbidden, Body: "the VAPID credentials do not correspond to the subscription"},
		{Status: http.StatusBadRequest, Body: `{"reason":"VapidPkHashMismatch"}`},
		{Status: http.StatusUnauthorized, Body: `{"errno":109}`},
	} {
		w, provider, subs := pushing(t, n, pushserver.Options{OneKey: true}, func(i int) pushserver.Behaviour {
			if i == stale {
				return b
			}
			return pushserver.Accepting
		}, blackbox.Plain())
		c := w.ended(w.start(map[string]any{"content": map[string]any{"title": "Hi"}, "audience": map[string]any{"channels": []string{"webpush"}}}), "completed", 2*time.Minute)
		if c.Counts["accepted"] != n-1 || c.Counts["failed"] != 1 || w.disabled(subs[stale].endpoint) {
			t.Errorf("%d: %v, disabled %t", b.Status, c.Counts, w.disabled(subs[stale].endpoint))
		}
		if got := provider.AcceptedBy(subs[stale].push); got != 0 {
			t.Errorf("%d: the stale one took %d", b.Status, got)
		}
	}
}

// sameTopic fails unless one subscriber's messages replace each other and are at most most.
func sameTopic(t *testing.T, name string, got []pushserver.Message, most int) {
	t.Helper()
	if len(got) > most {
		t.Errorf("%s: got it %d times, at most %d are right", name, len(got), most)
	}
	for _, m := range got {
		if m.Topic == "" || m.Topic != got[0].Topic {
			t.Errorf("%s: topics %q and %q: the second does not replace the first", name, got[0].Topic, m.Topic)
		}
	}
}

// kills is how often the server is killed during a campaign.
var kills = thorough.Rounds(5, 10)

func TestNobodyIsLostOrDoubledWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	alone(t)
	blackbox.Long(t)
	w, provider, subs := pushing(t, *subscribers, pushserver.Options{OneKey: true}, func(int) pushserver.Behaviour {
		return pushserver.Behaviour{Delay: 50 * time.Millisecond} // so that each kill strikes some on their way
	}, blackbox.Plain())
	rate := *killedRate
	if rate == 0 {
		rate = max(len(subs)/6, 60)
	}
	id := w.start(map[string]any{"content": map[string]any{"title": "Hi"}, "audience": map[string]any{"channels": []string{"webpush"}}, "rate": itoa(rate) + "/s"})
	patience := time.Minute + time.Duration(len(subs)/rate)*time.Second
	for i := range kills {
		// After each start a part of the campaign must be sent before the next kill.
		goal := len(subs) * (i + 1) / (kills + 2)
		blackbox.EventuallyWithin(t, patience, "a part is sent", func() error { return atLeast(provider.Accepted(), goal) })
		w.server.Kill()
		if err := w.server.Launch(); err != nil {
			t.Fatal(err)
		}
		w.api = w.server.API()
	}
	c := w.ended(id, "completed", patience)
	report := w.report(id)
	if len(report) != len(subs) || c.Counts["accepted"] != len(subs) {
		t.Errorf("%d rows for %d subscribers: %v", len(report), len(subs), c.Counts)
	}
	doubled, unsure := 0, 0
	for _, s := range subs {
		d, got := report[s.endpoint], provider.Received(s.push)
		if d.Unsure {
			unsure++
		}
		switch {
		case len(got) == 0:
			t.Errorf("%s never got it and is %s", s.endpoint, d.Outcome)
		case len(got) > 1:
			doubled++
			if !d.Unsure {
				t.Errorf("%s got it %d times although its outcome was known", s.endpoint, len(got))
			}
		}
		sameTopic(t, s.endpoint, got, kills+1)
	}
	if unsure == 0 {
		t.Error("no kill struck a message on its way: the test proves nothing")
	}
	t.Logf("%d subscribers at %d/s, %d kills: %d were unsure, %d of them got it again under the same topic", len(subs), rate, kills, unsure, doubled)
}

func TestSubscriberIsWelcomedOnce(t *testing.T) {
	t.Parallel()
	w, provider, _ := pushing(t, 1, pushserver.Options{}, func(int) pushserver.Behaviour { return pushserver.Accepting }, blackbox.Plain())
	w.call(http.MethodPut, "/v1/templates/hello", map[string]any{"content": map[string]any{"title": "Welcome, {{name|reader}}"}}, nil)
	w.call(http.MethodPut, "/v1/channels/webpush", map[string]any{"welcome": "hello", "icon": "https://example.org/icon.png"}, nil)
	id, address := provider.Subscribe(pushserver.Accepting)
	for range 2 { // the second renews the first
		w.call(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "webpush", "address": address}, nil)
	}
	other, another := provider.Subscribe(pushserver.Accepting)
	w.call(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "webpush", "address": another}, nil)
	for _, to := range []string{id, other} {
		err := blackbox.Poll(t.Context(), time.Minute, func() error {
			if got := provider.Received(to); len(got) != 1 {
				return fmt.Errorf("%d greetings, want one", len(got))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		got := provider.Received(to)[0]
		plain, err := got.Payload()
		if err != nil || !strings.Contains(string(plain), `"title":"Welcome, reader"`) || !strings.Contains(string(plain), "https://example.org/icon.png") {
			t.Errorf("it says %s (%v)", plain, err)
		}
	}
}
