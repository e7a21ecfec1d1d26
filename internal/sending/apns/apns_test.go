package apns_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/sending/apns"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
	"godwit.dev/godwit/internal/sending/sendertest/apnsserver"
	"godwit.dev/godwit/internal/testkit/testclock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	keyID  = "ABC123DEFG"
	teamID = "DEF123GHIJ"
	topic  = "org.example.shop"
)

// newKey makes a key in the form in which Apple issues it.
func newKey(t testing.TB) (*ecdsa.PrivateKey, string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return private, p8(t, private)
}

func p8(t testing.TB, private any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// world is a push service, a sender with its credentials, and their clock.
type world struct {
	*apnsserver.Server
	sender *apns.Sender
	clock  *testclock.Clock
	ours   *testclock.Clock // the sender's clock: the same one, unless a test sets it wrong
}

func start(t testing.TB, change ...func(*world, *apns.Config)) *world {
	t.Helper()
	return startWith(t, apnsserver.Options{}, change...)
}

func startWith(t testing.TB, o apnsserver.Options, change ...func(*world, *apns.Config)) *world {
	t.Helper()
	private, text := newKey(t)
	w := &world{clock: testclock.At(time.Now().Truncate(20 * time.Minute).Add(20 * time.Minute))} // the time at which the signer would make another token
	w.ours = w.clock
	o.Public, o.KeyID, o.TeamID, o.Topic, o.Now = &private.PublicKey, keyID, teamID, topic, w.clock.Now
	w.Server = apnsserver.Start(o)
	t.Cleanup(w.Server.Close)
	key, err := apns.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	cfg := apns.Config{Key: key, KeyID: keyID, TeamID: teamID, Topic: topic, BaseURL: w.URL, Targets: urlguard.All, Client: w.Trust(provider.Client(urlguard.All))}
	for _, f := range change {
		f(w, &cfg)
	}
	cfg.Now = w.ours.Now
	if w.sender, err = apns.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.sender.Close() })
	t.Cleanup(func() {
		for _, v := range w.Violations() {
			t.Errorf("the service saw %s", v)
		}
	})
	return w
}

func hello(id string, address json.RawMessage) push.Request {
	return push.Request{ID: id, App: "shop", Address: address, Content: push.Content{Title: "Hi"}}
}

func TestConformance(t *testing.T) {
	behaviours := map[sendertest.Situation]apnsserver.Behaviour{
		sendertest.Accepts: apnsserver.Accepting, sendertest.Gone: apnsserver.Unregistered,
		sendertest.TooMany:    {Status: http.StatusTooManyRequests, Reason: "TooManyProviderTokenUpdates", RetryAfter: 7 * time.Second},
		sendertest.Overloaded: apnsserver.Unavailable, sendertest.Fails: apnsserver.Failing,
		sendertest.Refuses: {Status: http.StatusBadRequest, Reason: "BadExpirationDate"}, sendertest.Denies: {Status: http.StatusForbidden, Reason: "InvalidProviderToken"},
		sendertest.Redirects: {Status: http.StatusTemporaryRedirect}, sendertest.Babbles: {Status: http.StatusBadGateway, Body: "<html>bad gateway</html>"},
		sendertest.Hangs: apnsserver.Hung, sendertest.Breaks: apnsserver.Broken,
	}
	sendertest.Run(t, sendertest.Suite{New: func(t *testing.T) *sendertest.Bed {
		w := start(t)
		device, address := w.Register(apnsserver.Accepting)
		return &sendertest.Bed{
			Sender: w.sender, Scope: "apns:" + topic, Secrets: []string{device, "bearer ", "eyJ"},
			Put: func(situation sendertest.Situation) bool {
				if situation == sendertest.Unreachable {
					w.Close()
					return true
				}
				b, ok := behaviours[situation]
				if b.Body != "" {
					b.Body += device // answers may repeat it
				}
				w.Behave(device, b)
				return ok
			},
			Request: func(id string) push.Request { return hello(id, address) },
			Took:    func() int { return len(w.Received(device)) },
		}
	}})
}

// last returns the only or last message that a device got.
func (w *world) last(t *testing.T, device string) (apnsserver.Message, string) {
	t.Helper()
	got := w.Received(device)
	if len(got) == 0 {
		t.Fatal("no message came")
	}
	m := got[len(got)-1]
	return m, string(m.Payload)
}

func (w *world) send(t *testing.T, r push.Request) push.Receipt {
	t.Helper()
	receipt, err := w.sender.Send(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

func TestADeviceGetsWhatTheGuideSays(t *testing.T) {
	w := start(t)
	device, address := w.Register(apnsserver.Accepting)
	zero, three := 0, 3
	for _, c := range []struct {
		content push.Content
		want    string
	}{
		{push.Content{Title: "<Hi> & bye", Body: "b"}, `{"aps":{"alert":{"title":"<Hi> & bye","body":"b"},"mutable-content":1},"godwit_id":"n-1","godwit_track":"signed","godwit_ack":"ack","godwit_settle":"shown"}`},
		{
			push.Content{
				Title: "T", URL: "https://u", Category: "ride", Data: json.RawMessage(`{"a":1}`), Image: "https://i",
				APNs: push.APNsContent{Sound: "default", Badge: &three, ThreadID: "rides", InterruptionLevel: "time-sensitive"},
			},
			`{"aps":{"alert":{"title":"T"},"sound":"default","badge":3,"thread-id":"rides","interruption-level":"time-sensitive","category":"ride","mutable-content":1},` +
				`"godwit_id":"n-1","godwit_track":"signed","godwit_ack":"ack","godwit_settle":"shown","url":"https://u","image":"https://i","data":{"a":1}}`,
		},
		{push.Content{APNs: push.APNsContent{Badge: &zero}}, `{"aps":{"badge":0,"mutable-content":1},"godwit_id":"n-1","godwit_track":"signed","godwit_ack":"ack","godwit_settle":"shown"}`},
		{
			push.Content{Title: "T", Data: json.RawMessage(`[]`), APNs: push.APNsContent{Background: true, Sound: "default"}},
			`{"aps":{"content-available":1},"godwit_id":"n-1","godwit_track":"signed","godwit_ack":"ack","godwit_settle":"shown","title":"T","data":[]}`,
		},
	} {
		w.send(t, push.Request{ID: "d-1", GodwitID: "n-1", Address: address, Track: "signed", AckToken: "ack", Settle: "shown", Content: c.content})
		m, payload := w.last(t, device)
		if payload != c.want {
			t.Errorf("payload\n%s, want\n%s", payload, c.want)
		}
		if want := map[bool]string{false: "alert", true: "background"}[c.content.APNs.Background]; m.PushType != want {
			t.Errorf("push type %s, want %s", m.PushType, want)
		}
	}
}

func TestHeadersSayHowSoonAndHowLong(t *testing.T) {
	w := start(t)
	device, address := w.Register(apnsserver.Accepting)
	now := w.clock.Now()
	const uuid = "123e4567-e89b-52d3-a456-426614174000"
	for _, c := range []struct {
		urgency  push.Urgency
		until    time.Time
		id       string
		priority string
		left     time.Duration
	}{
		{push.UrgencyHigh, now.Add(time.Hour), uuid, "10", time.Hour},
		{push.UrgencyNormal, time.Time{}, "d-1", "5", 24 * time.Hour},
		{push.UrgencyLow, now.Add(1000 * time.Hour), "d-2", "1", 720 * time.Hour},
		{"", now.Add(time.Hour), "d-3", "5", time.Hour},
	} {
		r := hello(c.id, address)
		r.Urgency, r.ExpiresAt = c.urgency, c.until
		receipt := w.send(t, r)
		m, _ := w.last(t, device)
		if want := fmt.Sprint(now.Add(c.left).Unix()); m.Priority != c.priority || m.Expiration != want || m.Topic != topic {
			t.Errorf("%s: priority %s, expiration %s, topic %s; want %s and %s", c.urgency, m.Priority, m.Expiration, m.Topic, c.priority, want)
		}
		if m.ID != receipt.ExternalID || (c.id == uuid) != (m.ID == uuid) || !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(m.ID) {
			t.Errorf("apns-id %s of %s, receipt %s", m.ID, c.id, receipt.ExternalID)
		}
	}
}

func TestASecondAttemptHasTheSameNamesAndAKeyReplaces(t *testing.T) {
	w := start(t)
	device, address := w.Register(apnsserver.Accepting)
	names := func(id, collapse string) string {
		r := hello(id, address)
		r.Collapse = collapse
		w.send(t, r)
		m, _ := w.last(t, device)
		if len(m.Collapse) > 64 || collapse != "" && strings.Contains(m.Collapse, collapse) {
			t.Errorf("apns-collapse-id %s", m.Collapse)
		}
		return m.ID + " " + m.Collapse
	}
	long := strings.Repeat("ride-", 60)
	first := names("d-1", "")
	if again := names("d-1", ""); again != first {
		t.Error("a second attempt has other names: the device shows both")
	}
	if first == names("d-2", "") {
		t.Error("two messages have the same names")
	}
	a, b := strings.Fields(names("d-1", long)), strings.Fields(names("d-2", long))
	if a[1] != b[1] || a[0] == b[0] {
		t.Errorf("messages of one key are %s and %s", a, b)
	}
}

func TestARecallWakesTheAppAndReplacesWhatStillWaits(t *testing.T) {
	w := start(t)
	device, address := w.Register(apnsserver.Accepting)
	r := hello("d-1", address)
	r.GodwitID, r.Urgency, r.ExpiresAt = "n-1", push.UrgencyHigh, w.clock.Now().Add(time.Hour)
	w.send(t, r)
	sent, _ := w.last(t, device)
	if errs := w.sender.Recall(t.Context(), []push.Sent{{Request: r}}); len(errs) != 1 || errs[0] != nil {
		t.Fatal(errs)
	}
	m, payload := w.last(t, device)
	if payload != `{"aps":{"content-available":1},"godwit_recall":["n-1"]}` || m.PushType != "background" || m.Priority != "5" {
		t.Errorf("%s as %s with priority %s", payload, m.PushType, m.Priority)
	}
	if m.Collapse != sent.Collapse || m.ID == sent.ID || m.Expiration != sent.Expiration {
		t.Errorf("sent %+v, recalled %+v", sent, m)
	}
	r.Collapse = "rides"
	w.send(t, r)
	later, _ := w.last(t, device)
	w.sender.Recall(t.Context(), []push.Sent{{Request: r}})
	if m, _ = w.last(t, device); m.Collapse == later.Collapse {
		t.Error("the recall replaces what came later under the same key")
	}
	w.clock.Advance(2 * time.Hour)
	var permanent *push.PermanentError
	if errs := w.sender.Recall(t.Context(), []push.Sent{{Request: r}}); !errors.As(errs[0], &permanent) || len(w.Received(device)) != 4 {
		t.Errorf("recalled after it had expired: %v", errs)
	}
}

func TestInvalidMessageIsNotSentToAPNs(t *testing.T) {
	w := start(t)
	device, address := w.Register(apnsserver.Accepting)
	fits := hello("d", address)
	fits.Content.Body = strings.Repeat("x", 4096-len(`{"aps":{"alert":{"title":"Hi","body":""}},"godwit_id":"d"}`))
	w.send(t, fits)
	large := fits
	large.Content.Body += "x"
	empty := push.Request{ID: "d", Address: address}
	level := hello("d", address)
	level.Content.APNs.InterruptionLevel = "loud"
	for what, r := range map[string]push.Request{
		"4097 bytes": large, "an empty message": empty, "a level that does not exist": level,
		"no token": hello("d", json.RawMessage(`{"token":""}`)), "a path": hello("d", json.RawMessage(`{"token":"aa/../bb"}`)),
		"a long token": hello("d", json.RawMessage(`{"token":"`+strings.Repeat("a", 257)+`"}`)),
	} {
		_, err := w.sender.Send(t.Context(), r)
		if got := sendertest.OutcomeOf(err); got != sendertest.Permanent {
			t.Errorf("%s ended as %s (%v)", what, got, err)
		}
	}
	if n := w.Requests(); n != 1 || len(w.Received(device)) != 1 {
		t.Errorf("%d messages came", n)
	}
}

func TestTheNumberOnTheIconIsSaidAndZeroTakesItAway(t *testing.T) {
	w := start(t)
	device, address := w.Register(apnsserver.Accepting)
	for want, r := range map[string]func(r *push.Request){
		`{"aps":{"alert":{"title":"Hi"}},"godwit_id":"d-1"}`:           func(*push.Request) {},
		`{"aps":{"alert":{"title":"Hi"},"badge":0},"godwit_id":"d-1"}`: func(r *push.Request) { r.Badge = new(int) },
		`{"aps":{"alert":{"title":"Hi"},"badge":7},"godwit_id":"d-1"}`: func(r *push.Request) { seven := 7; r.Badge, r.Content.APNs.Badge = new(int), &seven },
		`{"aps":{"content-available":1},"godwit_id":"d-1","title":"Hi"}`: func(r *push.Request) {
			r.Badge, r.Content.APNs.Background = new(int), true // Apple takes no number in the background
		},
		`{"aps":{"badge":0,"content-available":1},"godwit_badge":0}`: func(r *push.Request) {
			r.Badge, r.BadgeOnly, r.Content, r.Urgency = new(int), true, push.Content{}, push.UrgencyHigh
		},
	} {
		m := hello("d-1", address)
		r(&m)
		w.send(t, m)
		sent, payload := w.last(t, device)
		if payload != want || m.BadgeOnly && (sent.PushType != "alert" || sent.Priority != "5") {
			t.Errorf("%s as %s with priority %s, want %s", payload, sent.PushType, sent.Priority, want)
		}
	}
}
