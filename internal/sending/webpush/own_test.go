package webpush_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/internal/sending/webpush"
)

// ownService is a push service in this process, which answers as told.
type ownService struct {
	mu     sync.Mutex
	status int
	header map[string]string
	got    []*http.Request
	bodies []string
}

func (s *ownService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got, s.bodies = append(s.got, r), append(s.bodies, string(body))
	for name, value := range s.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, `{"errno":0}`)
}

const ownOrigin = "http://push.internal:8080"

// address is the subscription of a browser at an endpoint.
func address(t *testing.T, endpoint string) json.RawMessage {
	t.Helper()
	server := pushserver.Start(pushserver.Options{})
	t.Cleanup(server.Close)
	_, a := server.Subscribe(pushserver.Accepting)
	var sub map[string]json.RawMessage
	if err := json.Unmarshal(a, &sub); err != nil {
		t.Fatal(err)
	}
	sub["endpoint"], _ = json.Marshal(endpoint)
	a, _ = json.Marshal(sub)
	return a
}

// ownSender is the sender of a channel for public push services and the server's own.
func ownSender(t *testing.T, own *webpush.Own) *webpush.Sender {
	t.Helper()
	s, err := webpush.New(webpush.Config{Key: newKey(t), Subject: "mailto:ops@example.org", Targets: urlguard.Targets{}, Own: own})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestMessagesToTheOwnPushServiceNeedNoNetwork(t *testing.T) {
	own, service := new(webpush.Own), &ownService{status: http.StatusCreated}
	own.Open([]string{"https://push.example.org", ownOrigin}, service)
	s := ownSender(t, own)
	r := push.Request{ID: "m", Address: address(t, ownOrigin+"/wpush/v2/abc"), Content: push.Content{Title: "Hi"}, Urgency: push.UrgencyHigh, ExpiresAt: time.Now().Add(time.Hour)}
	if _, err := s.Send(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	got := service.got[0]
	if got.Method != http.MethodPost || got.URL.Path != "/wpush/v2/abc" || got.Host != "push.internal:8080" || len(service.bodies[0]) < 200 {
		t.Errorf("%s %s of %s with %d bytes", got.Method, got.URL, got.Host, len(service.bodies[0]))
	}
	for name, want := range map[string]string{"Content-Encoding": "aes128gcm", "Urgency": "high", "Authorization": "vapid t=", "Ttl": "3"} {
		if value := got.Header.Get(name); !strings.HasPrefix(value, want) {
			t.Errorf("%s is %.40q, want it to begin with %q", name, value, want)
		}
	}
	if errs := s.Recall(t.Context(), []push.Sent{{Request: r}}); errs[0] != nil || len(service.got) != 2 {
		t.Errorf("recall: %v, %d requests", errs, len(service.got))
	}
	if scope := s.Pace(r.Address).Scope; scope != ownOrigin {
		t.Errorf("paced by %q", scope)
	}
}

func TestAnswersOfTheOwnPushServiceAreJudged(t *testing.T) {
	own, service := new(webpush.Own), &ownService{}
	own.Open([]string{ownOrigin}, service)
	s := ownSender(t, own)
	to := address(t, ownOrigin+"/wpush/v1/abc")
	send := func(status int) error {
		service.status = status
		_, err := s.Send(t.Context(), push.Request{ID: "m", Address: to})
		return err
	}
	if err := send(410); !isKind[*push.GoneError](err) {
		t.Errorf("410: %v, want the subscription gone", err)
	}
	service.header = map[string]string{"Retry-After": "7"}
	err := send(503)
	if r, ok := errors.AsType[*push.RetryError](err); !ok || r.After != 7*time.Second {
		t.Errorf("503: %v, want another try in 7 s", err)
	}
}

func isKind[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }

func TestOtherAddressesStayGuarded(t *testing.T) {
	own, service := new(webpush.Own), &ownService{status: http.StatusCreated}
	own.Open([]string{ownOrigin}, service)
	s := ownSender(t, own)
	for _, endpoint := range []string{
		"http://push.internal:8081/wpush/v2/abc", "https://127.0.0.1/wpush/v2/abc",
		ownOrigin + "/v1/notifications", ownOrigin + "/wpush/../v1/notifications", ownOrigin + "/wpush/v2/abc#", "http://a:b@push.internal:8080/wpush/v2/abc",
	} {
		_, err := s.Send(t.Context(), push.Request{ID: "m", Address: address(t, endpoint)})
		if !isKind[*push.PermanentError](err) || s.Delivers(endpoint) {
			t.Errorf("%s: %v, want it refused", endpoint, err)
		}
	}
	if len(service.got) != 0 {
		t.Errorf("the push service was asked for %s", service.got[0].URL)
	}
	if !s.Delivers(ownOrigin + "/wpush/v2/abc") {
		t.Error("the own endpoint is refused")
	}
}

func TestMessagesWaitUntilTheOwnPushServiceHasStarted(t *testing.T) {
	own := new(webpush.Own)
	s := ownSender(t, own)
	r := push.Request{ID: "m", Address: address(t, ownOrigin+"/wpush/v2/abc")}
	if _, err := s.Send(t.Context(), r); !isKind[*push.RetryError](err) {
		t.Errorf("before the start: %v, want another try", err)
	}
	if s.Advice() != "" {
		t.Errorf("before the start: advice %q", s.Advice())
	}
	own.Settle()
	if _, err := s.Send(t.Context(), r); !isKind[*push.PermanentError](err) {
		t.Errorf("without a push service: %v, want it refused", err)
	}
	if !strings.Contains(s.Advice(), "push_service") {
		t.Errorf("without a push service: advice %q", s.Advice())
	}
	late := new(webpush.Own)
	late.Open([]string{ownOrigin}, &ownService{status: http.StatusCreated})
	late.Settle()
	if _, err := ownSender(t, late).Send(t.Context(), r); err != nil {
		t.Errorf("after the start: %v", err)
	}
}

func TestOwnServiceIsSetOnlyWhereThereIsOne(t *testing.T) {
	off, nameless, on := new(webpush.Own), new(webpush.Own), new(webpush.Own)
	off.Settle()
	nameless.Open(nil, &ownService{})
	on.Open([]string{ownOrigin}, &ownService{})
	for name, c := range map[string]struct {
		own  *webpush.Own
		says string // empty: it can be set
	}{"none": {nil, "push_service"}, "off": {off, "push_service"}, "without an address": {nameless, "public_url"}, "on": {on, ""}, "not known yet": {new(webpush.Own), ""}} {
		_, err := webpush.Kind{Own: c.own}.Complete(channel.Values{webpush.FieldOwn: "true"})
		wrong, _ := errors.AsType[*notification.FieldError](err)
		if c.says == "" && err != nil || c.says != "" && (wrong == nil || wrong.Field != webpush.FieldOwn || !strings.Contains(wrong.Problem, c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (webpush.Kind{Own: off}).Complete(channel.Values{}); err != nil {
		t.Errorf("without the setting: %v", err)
	}
	values := channel.Values{}
	if _, err := (webpush.Kind{Own: on}).Complete(values); err != nil {
		t.Fatal(err)
	}
	for set, delivers := range map[string]bool{"": false, "true": true} {
		values[webpush.FieldOwn] = set
		s, err := webpush.Kind{Own: on}.Open("shop", values)
		if err != nil {
			t.Fatal(err)
		}
		if sender, ok := s.(*webpush.Sender); !ok || sender.Delivers(ownOrigin+"/wpush/v1/x") != delivers {
			t.Errorf("own_service %q: delivers %t", set, !delivers)
		}
	}
}
