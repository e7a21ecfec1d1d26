package apns_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/apns"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
	"godwit.dev/godwit/internal/sending/sendertest/apnsserver"
	"godwit.dev/godwit/internal/testkit/testclock"
)

func TestEachAnswerEndsAsItShould(t *testing.T) {
	since := time.UnixMilli(1_700_000_000_123)
	for _, c := range []struct {
		status  int
		reason  string
		asks    time.Duration
		outcome sendertest.Outcome
		after   time.Duration
		says    string
	}{
		{410, "Unregistered", 0, sendertest.IsGone, 0, "removed from the device"},
		{410, "ExpiredToken", 0, sendertest.IsGone, 0, "removed from the device"},
		{410, "", 0, sendertest.RetryWho, 0, "without a reason"},
		{400, "BadDeviceToken", 0, sendertest.Objects, 0, "apps from Xcode have tokens of the sandbox"},
		{400, "DeviceTokenNotForTopic", 0, sendertest.Objects, 0, topic},
		{400, "BadTopic", 0, sendertest.Config, 0, "BadTopic"},
		{400, "TopicDisallowed", 0, sendertest.Config, 0, "TopicDisallowed"},
		{400, "MissingTopic", 0, sendertest.Config, 0, "MissingTopic"},
		{400, "BadCollapseId", 0, sendertest.Permanent, 0, "BadCollapseId"},
		{400, "IdleTimeout", 0, sendertest.Retry, 0, "IdleTimeout"},
		{403, "InvalidProviderToken", 0, sendertest.Config, 0, "the key, its id, the team or the topic"},
		{403, "Forbidden", 0, sendertest.Objects, 0, "Forbidden"},
		{403, "BadEnvironmentKeyIdInToken", 0, sendertest.Config, 0, "BadEnvironmentKeyIdInToken"},
		{401, "", 0, sendertest.Objects, 0, "401"},
		{404, "BadPath", 0, sendertest.Permanent, 0, "BadPath"},
		{405, "MethodNotAllowed", 0, sendertest.Permanent, 0, "MethodNotAllowed"},
		{413, "PayloadTooLarge", 0, sendertest.Permanent, 0, "too large"},
		{429, "TooManyRequests", 0, sendertest.Retry, time.Minute, "this device"},
		{429, "TooManyRequests", 9 * time.Second, sendertest.Retry, 9 * time.Second, "this device"},
		{429, "TooManyProviderTokenUpdates", 0, sendertest.RetryAll, 0, "keeps its token"},
		{429, "", 9 * time.Second, sendertest.RetryWho, 9 * time.Second, "too many"},
		{500, "InternalServerError", 9 * time.Second, sendertest.Retry, 9 * time.Second, "failed"},
		{503, "ServiceUnavailable", 0, sendertest.RetryAll, 0, "overloaded"},
		{503, "Shutdown", 9 * time.Second, sendertest.RetryAll, 9 * time.Second, "overloaded"},
	} {
		w := start(t)
		device, address := w.Register(apnsserver.Behaviour{Status: c.status, Reason: c.reason, RetryAfter: c.asks, Since: since})
		_, err := w.sender.Send(t.Context(), hello("d", address))
		what := strings.TrimSpace(http.StatusText(c.status) + " " + c.reason)
		if got := sendertest.OutcomeOf(err); got != c.outcome || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), device) {
			t.Errorf("%s ended as %s (%v), want %s and %q", what, got, err, c.outcome, c.says)
		}
		var retry *push.RetryError
		if errors.As(err, &retry) && retry.After != c.after {
			t.Errorf("%s: again after %s, want %s", what, retry.After, c.after)
		}
		var gone *push.GoneError
		if errors.As(err, &gone) && (c.status == 410) != gone.Since.Equal(since) {
			t.Errorf("%s: gone since %s", what, gone.Since)
		}
	}
}

func TestAnswersNotFromAPNsAreRetried(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   sendertest.Outcome
	}{
		{200, "<html>welcome</html>", sendertest.RetryWho},
		{200, "ok", sendertest.RetryWho},
		{302, "<html>", sendertest.RetryWho},
		{401, "<html>", sendertest.RetryWho},
		{403, "<!-- x --><html>", sendertest.RetryWho},
		{404, "<html>", sendertest.RetryWho},
		{410, "<html>", sendertest.RetryWho},
		{422, "<html>", sendertest.RetryWho},
		{404, "no", sendertest.Objects},
	} {
		w := start(t)
		_, address := w.Register(apnsserver.Behaviour{Status: c.status, Body: c.body})
		_, err := w.sender.Send(t.Context(), hello("d", address))
		if got := sendertest.OutcomeOf(err); got != c.want {
			t.Errorf("%d with %q ended as %s (%v), want %s", c.status, c.body, got, err, c.want)
		}
	}
}

func TestTheHintIsOfTheOtherEnvironment(t *testing.T) {
	w := start(t, func(_ *world, c *apns.Config) { c.Environment = apns.Sandbox })
	_, err := w.sender.Send(t.Context(), hello("d", json.RawMessage(`{"token":"`+strings.Repeat("ab", 32)+`"}`)))
	if err == nil || !strings.Contains(err.Error(), "is sandbox the right environment, and org.example.shop the right topic? apps from TestFlight and the App Store have tokens of production") {
		t.Error(err)
	}
}

func TestCheckAsksForADeviceThatCannotBe(t *testing.T) {
	w := start(t)
	for range 30 { // says nothing of devices
		about, err := w.sender.Check(t.Context())
		if err != nil || !strings.Contains(about, keyID) || !strings.Contains(about, "production") {
			t.Fatal(about, err)
		}
	}
	if w.Accepted() != 0 {
		t.Error("somebody got a message")
	}
	for what, change := range map[string]func(*world, *apns.Config){
		"another key": func(_ *world, c *apns.Config) {
			_, text := newKey(t)
			c.Key, _ = apns.ParseKey(text)
		},
		"another id":    func(_ *world, c *apns.Config) { c.KeyID = "ZZZZZZZZZZ" },
		"another team":  func(_ *world, c *apns.Config) { c.TeamID = "ZZZZZZZZZZ" },
		"another topic": func(_ *world, c *apns.Config) { c.Topic = "org.example.other" },
	} {
		about, err := start(t, change).sender.Check(t.Context())
		if got := sendertest.OutcomeOf(err); got != sendertest.Config {
			t.Errorf("%s: %s, %s (%v)", what, about, got, err)
		}
	}
}

func TestATokenIsKeptForFortyMinutes(t *testing.T) {
	w := start(t)
	_, address := w.Register(apnsserver.Accepting)
	for minute := range 121 {
		w.send(t, hello("d", address))
		if want := minute/40 + 1; w.Tokens() != want {
			t.Fatalf("%d tokens after %d minutes, want %d", w.Tokens(), minute, want)
		}
		w.clock.Advance(time.Minute)
	}
}

func TestRestartedServerKeepsItsToken(t *testing.T) {
	var senders []*apns.Sender
	w := start(t, func(w *world, c *apns.Config) {
		c.Now = w.ours.Now
		for range 3 {
			again, err := apns.New(*c)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = again.Close() })
			senders = append(senders, again)
		}
	})
	_, address := w.Register(apnsserver.Accepting)
	w.send(t, hello("d", address))
	for _, again := range senders {
		w.clock.Advance(6 * time.Minute)
		if _, err := again.Send(t.Context(), hello("d", address)); err != nil {
			t.Error(err)
		}
	}
	if w.Tokens() != 1 {
		t.Errorf("%d tokens within 18 minutes", w.Tokens())
	}
}

func TestATokenThatAPNsFindsTooOldIsRenewedOnce(t *testing.T) {
	// Our clock stands still for longer than APNs accepts a token, and then continues.
	w := start(t, func(w *world, _ *apns.Config) { w.ours = testclock.At(w.clock.Now()) })
	_, address := w.Register(apnsserver.Accepting)
	w.send(t, hello("d", address))
	w.clock.Advance(61 * time.Minute)
	w.ours.Advance(30 * time.Minute)
	w.send(t, hello("d", address))
	if w.Tokens() != 2 {
		t.Errorf("%d tokens", w.Tokens())
	}
	// Our clock is hours behind: every token that we make is too old for APNs.
	w.clock.Advance(3 * time.Hour)
	w.ours.Advance(30 * time.Minute)
	_, err := w.sender.Send(t.Context(), hello("d", address))
	if got := sendertest.OutcomeOf(err); got != sendertest.Config {
		t.Errorf("ended as %s (%v)", got, err)
	}
	w.ours.Advance(5 * time.Minute) // too soon for another one
	_, err = w.sender.Send(t.Context(), hello("d", address))
	if got := sendertest.OutcomeOf(err); got != sendertest.Config || !strings.Contains(err.Error(), "clock") {
		t.Errorf("ended as %s (%v)", got, err)
	}
}

func TestManyWhoseTokenIsTooOldRenewItOnce(t *testing.T) {
	w := start(t, func(w *world, _ *apns.Config) { w.ours = testclock.At(w.clock.Now()) })
	_, address := w.Register(apnsserver.Accepting)
	w.send(t, hello("d", address))
	w.clock.Advance(61 * time.Minute)
	w.ours.Advance(30 * time.Minute)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := w.sender.Send(t.Context(), hello("d", address)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if w.Tokens() != 2 {
		t.Errorf("%d tokens", w.Tokens())
	}
}

func TestATokenIsKeptWhenAPNsGetsTooMany(t *testing.T) {
	w := start(t)
	device, address := w.Register(apnsserver.Accepting)
	w.send(t, hello("d", address))
	w.clock.Advance(39 * time.Minute)
	w.Behave(device, apnsserver.Behaviour{Status: http.StatusTooManyRequests, Reason: "TooManyProviderTokenUpdates", Times: 1})
	if _, err := w.sender.Send(t.Context(), hello("d", address)); sendertest.OutcomeOf(err) != sendertest.RetryAll {
		t.Fatal(err)
	}
	for range 15 {
		w.send(t, hello("d", address))
		w.clock.Advance(time.Minute)
	}
	if w.Tokens() != 1 {
		t.Errorf("%d tokens, of which APNs had said that they are too many", w.Tokens())
	}
	w.clock.Advance(2 * time.Minute) // the token would soon be too old
	if w.send(t, hello("d", address)); w.Tokens() != 2 {
		t.Errorf("%d tokens", w.Tokens())
	}
}

func TestAClockThatIsSetBackMakesANewToken(t *testing.T) {
	w := start(t, func(w *world, _ *apns.Config) { w.ours = testclock.At(w.clock.Now().Add(24 * time.Hour)) })
	_, address := w.Register(apnsserver.Accepting)
	if _, err := w.sender.Send(t.Context(), hello("d", address)); sendertest.OutcomeOf(err) != sendertest.Config {
		t.Errorf("a token of tomorrow: %v", err)
	}
	w.ours.Advance(-24 * time.Hour)
	w.send(t, hello("d", address))
}

func TestOneMessageAtATimeUntilTheTokenIsAccepted(t *testing.T) {
	w := start(t)
	_, address := w.Register(apnsserver.Accepting)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if _, err := w.sender.Send(t.Context(), hello("d", address)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait() // start fails if more requests arrive at once than APNs allows
	if w.Accepted() != 200 || w.Tokens() != 1 {
		t.Errorf("%d accepted, %d tokens", w.Accepted(), w.Tokens())
	}
}

func TestThereAreFewConnections(t *testing.T) {
	w := startWith(t, apnsserver.Options{Streams: 1})
	device, address := w.Register(apnsserver.Hung)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() { _, _ = w.sender.Send(ctx, hello("d", address)) })
	}
	for len(w.Received(device)) < 4 { // each message on a connection of its own
		time.Sleep(time.Millisecond)
	}
	cancel()
	wg.Wait()
	if err := w.sender.Close(); err != nil || w.Connections() != 4 {
		t.Errorf("%d connections, %v", w.Connections(), err)
	}
}

func TestAConnectionThatIsEndedLosesNothing(t *testing.T) {
	w := start(t)
	device, address := w.Register(apnsserver.Accepting)
	w.send(t, hello("d", address))
	w.GoAway("Shutdown")
	w.send(t, hello("d", address))
	w.Behave(device, apnsserver.Behaviour{GoAway: "IdleTimeout", Times: 1})
	w.send(t, hello("d", address))
	if n := w.Accepted(); n != 3 {
		t.Errorf("%d of 3 accepted", n)
	}
}

func TestWhyAConnectionIsEndedIsToldAndCounts(t *testing.T) {
	for _, c := range []struct {
		behaviour apnsserver.Behaviour
		outcome   sendertest.Outcome
		says      string
	}{
		{apnsserver.Behaviour{GoAway: "Shutdown", Break: true}, sendertest.Unknown, "Shutdown"},
		{apnsserver.Behaviour{GoAway: "InvalidProviderToken", Break: true}, sendertest.Unknown, "InvalidProviderToken"}, // it may have gone out
		{apnsserver.Behaviour{GoAway: "Shutdown"}, sendertest.RetryAll, "Shutdown"},
		{apnsserver.Behaviour{GoAway: "InvalidProviderToken"}, sendertest.Config, "ended the connection InvalidProviderToken"},
		{apnsserver.Behaviour{GoAway: "BadCertificateEnvironment"}, sendertest.Config, "BadCertificateEnvironment"},
	} {
		w := start(t)
		device, address := w.Register(c.behaviour)
		_, err := w.sender.Send(t.Context(), hello("d", address))
		if got := sendertest.OutcomeOf(err); got != c.outcome || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), device) {
			t.Errorf("%+v ended as %s (%v), want %s", c.behaviour, got, err, c.outcome)
		}
	}
}
