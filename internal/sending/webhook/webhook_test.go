package webhook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
	"godwit.dev/godwit/internal/sending/sendertest/hookserver"
	"godwit.dev/godwit/internal/sending/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, secrets ...string) (*hookserver.Server, *webhook.Sender) {
	t.Helper()
	if len(secrets) == 0 {
		secrets = []string{webhook.NewSecret()}
	}
	server := hookserver.Start(secrets[0])
	t.Cleanup(server.Close)
	client := provider.Client(urlguard.All)
	t.Cleanup(client.CloseIdleConnections)
	parsed, err := webhook.ParseSecrets(secrets)
	if err != nil {
		t.Fatal(err)
	}
	s, err := webhook.New(webhook.NewPoster(client, urlguard.All), parsed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return server, s
}

func request(server *hookserver.Server, id string) push.Request {
	return push.Request{ID: id, App: "shop", Address: json.RawMessage(`{"url":"` + server.URL + `"}`), Content: push.Content{Title: "Hi"}}
}

func TestConformance(t *testing.T) {
	behaviours := map[sendertest.Situation]hookserver.Behaviour{
		sendertest.Accepts: {}, sendertest.Gone: {Status: http.StatusGone}, sendertest.TooMany: {Status: http.StatusTooManyRequests, RetryAfter: 7 * time.Second},
		sendertest.Overloaded: {Status: http.StatusServiceUnavailable}, sendertest.Fails: {Status: http.StatusInternalServerError},
		sendertest.Refuses: {Status: http.StatusBadRequest}, sendertest.Denies: {Status: http.StatusUnauthorized},
		sendertest.Redirects: {Status: http.StatusTemporaryRedirect}, sendertest.Babbles: {Status: http.StatusBadGateway},
		sendertest.Hangs: {Hang: true}, sendertest.Breaks: {Break: true},
	}
	sendertest.Run(t, sendertest.Suite{
		New: func(t *testing.T) *sendertest.Bed {
			secret := webhook.NewSecret()
			server, s := start(t, secret)
			return &sendertest.Bed{
				Sender: s, Scope: strings.TrimSuffix(server.URL, "/hook?key=k3y"), Secrets: []string{"k3y", secret},
				Put: func(situation sendertest.Situation) bool {
					if situation == sendertest.Unreachable {
						server.Close()
						return true
					}
					b, ok := behaviours[situation]
					server.Behave(b)
					return ok
				},
				Request: func(id string) push.Request { return request(server, id) },
				Took:    func() int { return len(server.Took()) },
			}
		},
		// The results of other receivers show whether one receiver alone objects, or its whole host.
		Outcomes: map[sendertest.Situation]sendertest.Outcome{
			sendertest.Denies: sendertest.Objects, sendertest.Redirects: sendertest.Objects, sendertest.TooMany: sendertest.RetryWho, sendertest.Overloaded: sendertest.RetryWho,
		},
	})
}

// The example of the standard's own libraries.
func TestSignatureIsThatOfTheStandard(t *testing.T) {
	secrets, err := webhook.ParseSecrets([]string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
	if err != nil {
		t.Fatal(err)
	}
	got := secrets.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReceiverCanChangeOverToANewSecret(t *testing.T) {
	old, fresh := webhook.NewSecret(), webhook.NewSecret()
	server, s := start(t, old, fresh)
	for _, secret := range []string{old, fresh} {
		server.Secret(secret)
		if _, err := s.Send(t.Context(), request(server, "d")); err != nil {
			t.Errorf("receiver with one of two secrets: %v", err)
		}
	}
	server.Secret(webhook.NewSecret())
	if _, err := s.Send(t.Context(), request(server, "d")); sendertest.OutcomeOf(err) != sendertest.Objects || len(server.Refused()) != 1 {
		t.Errorf("receiver with another secret: %v", err)
	}
}

func TestRefusalsThatAProxyMayGiveAreComparedWithOthers(t *testing.T) {
	const page = "\n<!-- nginx --><html>no</html>"
	for _, c := range []struct {
		status int
		body   string
		want   sendertest.Outcome
		ended  bool
	}{
		{200, page, sendertest.Accepted, false}, // many programs answer so
		{302, "", sendertest.Objects, false},
		{308, page, sendertest.Objects, false},
		{401, `{"error":"no"}`, sendertest.Objects, false},
		{403, page, sendertest.Objects, false},
		{404, "", sendertest.Objects, false},
		{405, "", sendertest.Objects, false},
		{407, "", sendertest.Objects, false},
		{421, "", sendertest.Objects, false},
		{400, page, sendertest.Objects, false},
		{410, page, sendertest.Objects, true},
		{410, "gone", sendertest.IsGone, false},
		{400, "no", sendertest.Permanent, false},
		{413, page, sendertest.Permanent, false},
		{422, "{}", sendertest.Permanent, false},
		{502, page, sendertest.Retry, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/login")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		client := provider.Client(urlguard.All)
		secrets, _ := webhook.ParseSecrets([]string{webhook.NewSecret()})
		s, err := webhook.New(webhook.NewPoster(client, urlguard.All), secrets, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Send(t.Context(), push.Request{ID: "d", Address: json.RawMessage(`{"url":"` + server.URL + `"}`)})
		if got := sendertest.OutcomeOf(err); got != c.want {
			t.Errorf("%d with %q: %s (%v), want %s", c.status, c.body, got, err, c.want)
		}
		if o, ok := errors.AsType[*push.ObjectionError](err); ok && (o.Ended != c.ended || o.Shared != push.Host || o.Scope != server.URL) {
			t.Errorf("%d with %q: %#v", c.status, c.body, o)
		}
		client.CloseIdleConnections()
		server.Close()
	}
}

func TestMessageSaysAllThereIs(t *testing.T) {
	server, s := start(t)
	r := request(server, "d-1")
	r.GodwitID, r.Recipient, r.Endpoint, r.Urgency, r.Collapse, r.Track = "n-1", "ann", "e-1", push.UrgencyHigh, "k", "signed"
	r.AckToken, r.Settle = "ack", "shown"
	r.ExpiresAt = time.Now().Add(time.Hour)
	r.Content.Body, r.Content.Data = "b", json.RawMessage(`{"a":1}`)
	if _, err := s.Send(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if errs := s.Recall(t.Context(), []push.Sent{{Request: r}}); errs[0] != nil {
		t.Fatal(errs)
	}
	took := server.Took()
	var m, recall struct {
		Type string
		Data map[string]any
	}
	if json.Unmarshal([]byte(took[0].Body), &m) != nil || json.Unmarshal([]byte(took[1].Body), &recall) != nil {
		t.Fatal(took)
	}
	delete(m.Data, "expires_at")
	want := map[string]any{
		"id": "d-1", "godwit_id": "n-1", "app": "shop", "recipient": "ann", "endpoint": "e-1", "title": "Hi", "body": "b", "data": map[string]any{"a": 1.0},
		"urgency": "high", "collapse_key": "k", "track": "signed", "godwit_ack": "ack", "godwit_settle": "shown",
	}
	if m.Type != "notification" || fmt.Sprint(m.Data) != fmt.Sprint(want) || took[0].ID != "d-1" {
		t.Errorf("%s %s %v", took[0].ID, m.Type, m.Data)
	}
	if recall.Type != "notification.recall" || recall.Data["id"] != "d-1" || recall.Data["title"] != nil || took[1].ID == took[0].ID {
		t.Errorf("recall %s %+v", took[1].ID, recall)
	}
}

func TestSecretsOfAnotherFormAreRefused(t *testing.T) {
	good := webhook.NewSecret()
	for _, list := range [][]string{{}, {"x"}, {"whsec_"}, {"whsec_AAAA"}, {"whsec_%%%"}, {good[6:]}, {good, good, good, good, good}} {
		if _, err := webhook.ParseSecrets(list); err == nil {
			t.Errorf("%q passes", list)
		}
	}
	if _, err := webhook.ParseSecrets([]string{good, good, good, good}); err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
}

func TestATargetIsOneOfTheAppsOwn(t *testing.T) {
	secret := webhook.NewSecret()
	server := hookserver.Start(secret)
	t.Cleanup(server.Close)
	k := webhook.Kind{Targets: urlguard.All}
	values := channel.Values{webhook.FieldSecrets: secret, "targets": "sms=" + server.URL + " voice=" + server.URL + "/voice"}
	if _, err := k.Complete(values); err != nil {
		t.Fatal(err)
	}
	sender, err := k.Open("shop", values)
	if err != nil {
		t.Fatal(err)
	}
	s := sender.(*webhook.Sender)
	t.Cleanup(func() { _ = s.Close() })
	if !s.Target("sms") || s.Target("mail") || s.Pace(json.RawMessage(`{"target":"sms"}`)).Scope != s.Pace(request(server, "d").Address).Scope {
		t.Error("the targets are not those that were set")
	}
	r := push.Request{ID: "d-1", App: "shop", Recipient: "ann", Address: json.RawMessage(`{"target":"sms"}`), Content: push.Content{Title: "Hi"}}
	if _, err := s.Send(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if took := server.Took(); len(took) != 1 || !strings.Contains(took[0].Body, `"to":"sms"`) {
		t.Errorf("took %+v", took)
	}
	r.Address = json.RawMessage(`{"target":"mail"}`)
	if _, err := s.Send(t.Context(), r); sendertest.OutcomeOf(err) != sendertest.Permanent {
		t.Errorf("a target that is none: %v", err)
	}
	for _, bad := range []string{"sms", "s/ms=https://a.example", "sms=ftp://a.example", "sms=https://a.example sms=https://b.example", "=https://a.example"} {
		_, err := k.Complete(channel.Values{"targets": bad})
		var f *notification.FieldError
		if !errors.As(err, &f) || !strings.HasPrefix(f.Field, "targets[") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
