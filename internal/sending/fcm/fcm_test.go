package fcm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/fcm"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
	"godwit.dev/godwit/internal/sending/sendertest/fcmserver"
)

const project = "demo-project"

// start starts an FCM server, and a sender with an account on it. A request that Google would not understand fails the test.
func start(t testing.TB, o fcmserver.Options, change ...func(*fcm.Config)) (*fcmserver.Server, *fcm.Sender) {
	t.Helper()
	server := fcmserver.Start(o)
	t.Cleanup(func() {
		server.Close()
		for _, p := range server.Problems() {
			t.Errorf("FCM does not take it: %s", p)
		}
	})
	account, err := fcm.ParseAccount(server.Account(), urlguard.All)
	if err != nil {
		t.Fatal(err)
	}
	cfg := fcm.Config{Account: account, BaseURL: server.URL, Targets: urlguard.All, Client: server.Trust(provider.Client(urlguard.All))}
	for _, f := range change {
		f(&cfg)
	}
	s, err := fcm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return server, s
}

func hi(address json.RawMessage) push.Request {
	return push.Request{ID: "d-1", App: "shop", Address: address, Content: push.Content{Title: "Hi"}}
}

func TestConformance(t *testing.T) {
	behaviours := map[sendertest.Situation]fcmserver.Behaviour{
		sendertest.Accepts: {}, sendertest.Gone: {Row: fcmserver.Unregistered},
		sendertest.TooMany:    {Row: fcmserver.Quota, RetryAfter: 7 * time.Second},
		sendertest.Overloaded: {Row: fcmserver.Unavailable}, sendertest.Fails: {Row: fcmserver.Failing},
		sendertest.Refuses: {Row: fcmserver.BadField}, sendertest.Denies: {Row: fcmserver.Denied},
		sendertest.Redirects: {Row: fcmserver.Redirect}, sendertest.Babbles: {Row: fcmserver.HTML},
		sendertest.Hangs: {Row: fcmserver.Hang}, sendertest.Breaks: {Row: fcmserver.Break},
	}
	sendertest.Run(t, sendertest.Suite{Outcomes: map[sendertest.Situation]sendertest.Outcome{
		sendertest.Overloaded: sendertest.RetryWho, sendertest.Denies: sendertest.Objects,
	}, New: func(t *testing.T) *sendertest.Bed {
		server, s := start(t, fcmserver.Options{})
		token, address := server.Device(fcmserver.Behaviour{})
		var account map[string]string
		if err := json.Unmarshal(server.Account(), &account); err != nil {
			t.Fatal(err)
		}
		key := strings.Split(account["private_key"], "\n")[1]
		return &sendertest.Bed{
			Sender: s, Scope: project, Secrets: []string{token, key, fcmserver.AccessPrefix},
			Put: func(situation sendertest.Situation) bool {
				if situation == sendertest.Unreachable {
					server.Close()
					return true
				}
				b, ok := behaviours[situation]
				server.Behave(token, b)
				return ok
			},
			Request: func(id string) push.Request {
				r := hi(address)
				r.ID = id
				return r
			},
			Took: func() int { return len(server.Received(token)) },
		}
	}})
}

// TestEachAnswerMeansWhatFCMSaysItMeans tests the table of answers, row by row.
func TestEachAnswerMeansWhatFCMSaysItMeans(t *testing.T) {
	const atLeast, atMost = 10 * time.Second, 15 * time.Second
	for _, c := range []struct {
		b        fcmserver.Behaviour
		want     sendertest.Outcome
		scope    string
		from, to time.Duration // to wait
		requests int
	}{
		{b: fcmserver.Behaviour{}, want: sendertest.Accepted, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.Unregistered}, want: sendertest.IsGone, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.OtherSender}, want: sendertest.IsGone, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.NoProject}, want: sendertest.Objects, scope: project, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.BadField}, want: sendertest.Permanent, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.BadToken}, want: sendertest.IsGone, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.Malformed}, want: sendertest.IsGone, requests: 2},
		{b: fcmserver.Behaviour{Row: fcmserver.Disliked}, want: sendertest.Permanent, requests: 2},
		{b: fcmserver.Behaviour{Row: fcmserver.Unauthenticated}, want: sendertest.Objects, scope: project, requests: 2},
		{b: fcmserver.Behaviour{Row: fcmserver.NoAPNs}, want: sendertest.Objects, scope: project + "/apns", requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.NoWebPush}, want: sendertest.Objects, scope: project + "/webpush", requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.Denied}, want: sendertest.Objects, scope: project, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.Quota}, want: sendertest.RetryAll, scope: project, from: time.Minute, to: time.Minute, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.Quota, RetryAfter: 9 * time.Second}, want: sendertest.RetryAll, scope: project, from: 9 * time.Second, to: 9 * time.Second, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.DeviceQuota}, want: sendertest.Retry, from: time.Minute, to: time.Minute, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.DeviceQuota, RetryAfter: 9 * time.Second}, want: sendertest.Retry, from: 9 * time.Second, to: 9 * time.Second, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.TopicQuota}, want: sendertest.Retry, from: time.Minute, to: time.Minute, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.Failing}, want: sendertest.Retry, from: atLeast, to: atMost, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.Failing, RetryAfter: 3 * time.Second}, want: sendertest.Retry, from: 3 * time.Second, to: 3 * time.Second, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.Unavailable}, want: sendertest.RetryWho, scope: project, from: atLeast, to: atMost, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.Unavailable, RetryAfter: 90 * time.Second}, want: sendertest.RetryWho, scope: project, from: 90 * time.Second, to: 90 * time.Second, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.HTML}, want: sendertest.Retry, from: atLeast, to: atMost, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.TooLarge}, want: sendertest.Permanent, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.Redirect}, want: sendertest.RetryWho, scope: project, from: atLeast, to: atMost, requests: 1},
		{b: fcmserver.Behaviour{Row: fcmserver.Garbage}, want: sendertest.RetryWho, scope: project, from: atLeast, to: atMost, requests: 1},
	} {
		t.Run(fmt.Sprint(c.b.Row, c.b.RetryAfter), func(t *testing.T) {
			server, s := start(t, fcmserver.Options{})
			_, address := server.Device(c.b)
			_, err := s.Send(t.Context(), hi(address))
			if got := sendertest.OutcomeOf(err); got != c.want {
				t.Errorf("ended as %s (%v), want %s", got, err, c.want)
			}
			scope, after := "", time.Duration(0)
			var retry *push.RetryError
			var objection *push.ObjectionError
			switch {
			case errors.As(err, &retry):
				scope, after = retry.Scope, retry.After
			case errors.As(err, &objection):
				scope = objection.Scope
			}
			if scope != c.scope || after < c.from || after > c.to {
				t.Errorf("scope %q waits %s; want %q, from %s to %s", scope, after, c.scope, c.from, c.to)
			}
			if n := server.Counts().Requests; n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
		})
	}
}

func TestATokenIsAskedAboutOnceADay(t *testing.T) {
	now := time.Now()
	server, s := start(t, fcmserver.Options{}, func(c *fcm.Config) { c.Now = func() time.Time { return now } })
	token, address := server.Device(fcmserver.Behaviour{Row: fcmserver.Disliked})
	send := func(want sendertest.Outcome) {
		t.Helper()
		r := hi(address)
		r.ExpiresAt = now.Add(time.Hour)
		_, err := s.Send(t.Context(), r)
		if got := sendertest.OutcomeOf(err); got != want {
			t.Errorf("ended as %s (%v), want %s", got, err, want)
		}
	}
	for range 3 {
		send(sendertest.Permanent)
	}
	if c := server.Counts(); c.Requests != 4 || c.Validated != 1 {
		t.Errorf("%+v: want three messages and one question", c)
	}
	server.Behave(token, fcmserver.Behaviour{Row: fcmserver.Malformed})
	send(sendertest.Permanent) // it was asked about today
	now = now.Add(24 * time.Hour)
	send(sendertest.IsGone)
	if n := len(server.Received(token)); n != 0 {
		t.Errorf("questions showed the device %d messages", n)
	}
}

// TestAQuestionWithoutAnAnswerIsNotSpent: if the check gets no answer, it is repeated with the next attempt of the message.
func TestAQuestionWithoutAnAnswerIsNotSpent(t *testing.T) {
	server, s := start(t, fcmserver.Options{})
	token, address := server.Device(fcmserver.Behaviour{})
	for _, c := range []struct {
		question fcmserver.Row
		want     sendertest.Outcome
	}{
		{fcmserver.Unavailable, sendertest.RetryWho},
		{fcmserver.Quota, sendertest.RetryAll},
		{fcmserver.Denied, sendertest.Objects},
		{fcmserver.Break, sendertest.Retry}, // the message itself was refused: it may be sent again
		{fcmserver.Unregistered, sendertest.IsGone},
	} {
		server.Behave(token, fcmserver.Behaviour{Row: fcmserver.Malformed, Question: c.question})
		_, err := s.Send(t.Context(), hi(address))
		if got := sendertest.OutcomeOf(err); got != c.want {
			t.Errorf("a question answered by %s: ended as %s (%v), want %s", c.question, got, err, c.want)
		}
	}
}

func TestAccessTokens(t *testing.T) {
	now := time.Now()
	server, s := start(t, fcmserver.Options{}, func(c *fcm.Config) { c.Now = func() time.Time { return now } })
	_, address := server.Device(fcmserver.Behaviour{})
	send := func() {
		r := hi(address)
		r.ExpiresAt = now.Add(time.Hour)
		if _, err := s.Send(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	given := func(want int, when string) {
		t.Helper()
		if n := server.Counts().Tokens; n != want {
			t.Errorf("%d tokens %s, want %d", n, when, want)
		}
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(send)
	}
	wg.Wait()
	given(1, "for 50 messages at once")
	now = now.Add(54 * time.Minute)
	send()
	given(1, "54 minutes later")
	server.Revoke()
	send()
	given(2, "after they were revoked")
	if n := server.Counts().Accepted; n != 52 {
		t.Errorf("%d messages accepted, want 52: a revoked token costs none", n)
	}
	now = now.Add(55*time.Minute + time.Second)
	send()                            // with the old token, while a new one is fetched
	if err := s.Close(); err != nil { // waits for it
		t.Error(err)
	}
	given(3, "five minutes before its end")
	now = now.Add(2 * time.Hour)
	send()
	given(4, "after its end")
}

func TestAnswersOfTheTokenService(t *testing.T) {
	for _, c := range []struct {
		fault fcmserver.TokenFault
		want  sendertest.Outcome
		after time.Duration
		says  string
	}{
		{fcmserver.TokenFault{Status: 400, Body: `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`}, sendertest.Config, 0, "Invalid JWT Signature."},
		{fcmserver.TokenFault{Status: 401, Body: `{"error":"invalid_client"}`}, sendertest.Config, 0, "invalid_client"},
		{fcmserver.TokenFault{Status: 401, Body: "<html>no</html>"}, sendertest.RetryAll, 0, "401"},
		{fcmserver.TokenFault{Status: 403, Body: `{"error":{"code":403}}`}, sendertest.RetryAll, 0, "403"},
		{fcmserver.TokenFault{Status: 404, Body: "no"}, sendertest.RetryAll, 0, "404"},
		{fcmserver.TokenFault{Status: 503, RetryAfter: 8 * time.Second}, sendertest.RetryAll, 8 * time.Second, "503"},
		{fcmserver.TokenFault{Status: 429}, sendertest.RetryAll, 0, "429"},
		{fcmserver.TokenFault{Status: 200, Body: "<html>hi</html>"}, sendertest.RetryAll, 0, "without a token"},
		{fcmserver.TokenFault{Status: 200, Body: `{}`}, sendertest.RetryAll, 0, "without a token"},
		{fcmserver.TokenFault{Status: 302}, sendertest.RetryAll, 0, "302"},
	} {
		server, s := start(t, fcmserver.Options{})
		server.TokenFails(c.fault)
		_, address := server.Device(fcmserver.Behaviour{})
		_, err := s.Send(t.Context(), hi(address))
		if got := sendertest.OutcomeOf(err); got != c.want || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %s (%v), want %s with %q", c.fault, got, err, c.want, c.says)
		}
		var retry *push.RetryError
		if errors.As(err, &retry) && (retry.After != c.after || retry.Scope != project) {
			t.Errorf("%+v: %s waits %s", c.fault, retry.Scope, retry.After)
		}
		server.TokenFails(fcmserver.TokenFault{})
		if _, err := s.Send(t.Context(), hi(address)); err != nil {
			t.Errorf("after %+v: %v", c.fault, err)
		}
	}
}

func TestPrivateAddressesAreNotAskedForTokens(t *testing.T) {
	server := fcmserver.Start(fcmserver.Options{})
	defer server.Close()
	account, err := fcm.ParseAccount(server.Account(), urlguard.All) // as if the name resolved to a private address only later
	if err != nil {
		t.Fatal(err)
	}
	s, err := fcm.New(fcm.Config{Account: account, Client: server.Trust(provider.Client(urlguard.Targets{}))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Send(t.Context(), hi(json.RawMessage(`{"token":"x"}`)))
	if sendertest.OutcomeOf(err) != sendertest.Config || !strings.Contains(err.Error(), "not public") || server.Counts().Tokens != 0 {
		t.Error(err)
	}
}

func TestCheckAsksWithoutSending(t *testing.T) {
	server, s := start(t, fcmserver.Options{})
	about, err := s.Check(t.Context())
	if c := server.Counts(); err != nil || about != "project "+project+", as "+fcmserver.Email || c.Validated != 1 || c.Accepted != 0 {
		t.Errorf("%q, %v, %+v", about, err, c)
	}
	server.BehaveAll(&fcmserver.Behaviour{Row: fcmserver.Denied})
	var config *push.ConfigError
	if _, err := s.Check(t.Context()); !errors.As(err, &config) {
		t.Error(err)
	}
}

func TestAServerWithoutHTTP2IsSentToAsWell(t *testing.T) {
	server, s := start(t, fcmserver.Options{HTTP1: true}, func(c *fcm.Config) { c.BaseURL += "/" })
	token, address := server.Device(fcmserver.Behaviour{})
	receipt, err := s.Send(t.Context(), hi(address))
	if err != nil || !strings.HasPrefix(receipt.ExternalID, "projects/"+project+"/messages/") || server.Received(token)[0].Proto != 1 {
		t.Error(receipt, err)
	}
}
