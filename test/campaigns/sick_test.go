package campaigns

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// One of sickEvery subscribers is sick.
const sickEvery = 100

// TestSickSubscriptionsDelayNobodyElse sends to 1,500 subscribers. For 15 of these the push service always answers "unavailable, retry in
// five seconds".
func TestSickSubscriptionsDelayNobodyElse(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the sick are tried for half a minute")
	}
	isSick := func(i int) bool { return i%sickEvery == sickEvery/2 }
	w, provider, subs := pushing(t, thorough.Rounds(500, 1500), pushserver.Options{OneKey: true}, func(i int) pushserver.Behaviour {
		if isSick(i) {
			return pushserver.Behaviour{Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second}
		}
		return pushserver.Accepting
	}, blackbox.Plain())
	sick := len(subs) / sickEvery
	healthy := len(subs) - sick
	spec := map[string]any{"content": map[string]any{"title": "Hi"}, "audience": map[string]any{"channels": []string{"webpush"}}, "ttl": "30s"}

	begun := time.Now()
	first := w.start(spec)
	w.settled(first, healthy, sick)
	t.Logf("%d healthy subscribers have the first campaign after %s", healthy, time.Since(begun).Round(10*time.Millisecond))

	begun = time.Now()
	second := w.start(spec)
	w.settled(second, healthy, sick)
	t.Logf("and the second after %s", time.Since(begun).Round(10*time.Millisecond))

	for _, id := range []string{first, second} {
		c := w.ended(id, "completed", 2*time.Minute)
		if c.Counts["accepted"] != healthy || c.Counts["expired"]+c.Counts["failed"] != sick {
			t.Errorf("it ended with %v, want %d accepted and %d given up", c.Counts, healthy, sick)
		}
		report := w.report(id)
		for i, s := range subs {
			if d := report[s.endpoint]; isSick(i) && (d.Outcome == "accepted" || d.Detail == "" || d.Attempts > 6) {
				t.Errorf("sick, asking for 5 s: %s (%s) after %d attempts in 30 s", d.Outcome, d.Detail, d.Attempts)
			}
		}
		t.Logf("ended after %s: %v", c.FinishedAt.Sub(c.StartedAt).Round(time.Second), c.Counts)
	}
	for i, s := range subs {
		if got := provider.AcceptedBy(s.push); !isSick(i) && got != 2 {
			t.Errorf("subscriber %d got %d messages of two campaigns", i, got)
		}
	}
}

// settled waits until all healthy subscribers of a campaign have the message, and checks that its sick ones are waiting then.
func (w *world) settled(id string, healthy, sick int) {
	w.Helper()
	var c campaign
	blackbox.EventuallyWithin(w, time.Minute, "all healthy subscribers have it", func() error {
		if w.call(http.MethodGet, "/v1/campaigns/"+id, nil, &c); c.Counts["accepted"] < healthy {
			return fmt.Errorf("it is %s: %v", c.State, c.Counts)
		}
		return nil
	})
	if c.Counts["pending"] != sick {
		w.Errorf("all healthy subscribers have it, and of %d sick ones %d wait: %v", sick, c.Counts["pending"], c.Counts)
	}
}

// TestUnannouncedCapIsFoundAndKept sends through a push service that accepts 200 messages a second and does not announce that limit.
func TestUnannouncedCapIsFoundAndKept(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes as long as the cap makes it")
	}
	const most = 200
	w, provider, subs := pushing(t, *capped, pushserver.Options{OneKey: true, Cap: most}, func(int) pushserver.Behaviour { return pushserver.Accepting }, blackbox.Plain())
	id := w.start(map[string]any{"content": map[string]any{"title": "Hi"}, "audience": map[string]any{"channels": []string{"webpush"}}})
	// When half of the subscribers have the message, the cap was found long ago. The last subscribers wait for their second attempt and use
	// little of the cap.
	half := w.reached(provider, len(subs)/2)
	late := w.reached(provider, len(subs)*19/20)
	c := w.ended(id, "completed", 10*time.Minute)
	if c.Counts["accepted"] != len(subs) {
		t.Errorf("it ended with %v", c.Counts)
	}
	requests, accepted := late.requests-half.requests, late.accepted-half.accepted
	objections := requests - accepted
	t.Logf("of %d messages, %d objections before half were sent; after that %.1f %% of the cap are used and %.2f %% objected to",
		len(subs), half.requests-half.accepted, float64(accepted)/most/late.at.Sub(half.at).Seconds()*100, float64(objections)/float64(requests)*100)
	allowed := requests / 2 // where a machine stalls, messages arrive in bursts
	if *scale {
		allowed = requests / 20
	}
	if objections > allowed {
		t.Errorf("%d of %d messages are objected to once the cap is found, at most %d are right", objections, requests, allowed)
	}
}

// reached is when a push service had accepted a number of messages, and how many requests it had got by then.
type reached struct {
	at                 time.Time
	requests, accepted int
}

func (w *world) reached(provider *pushserver.Server, goal int) (r reached) {
	w.Helper()
	blackbox.EventuallyWithin(w, 10*time.Minute, "a part is sent", func() error {
		r = reached{time.Now(), provider.Requests(), provider.Accepted()}
		return atLeast(r.accepted, goal)
	})
	return r
}
