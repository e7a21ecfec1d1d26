package campaigns

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/apnsserver"
	"godwit.dev/godwit/test/blackbox"
)

// iphones starts a server beside a stand-in for APNs, with n devices whose behavior behave gives, and sets the channel up.
func iphones(t *testing.T, n int, behave func(i int) apnsserver.Behaviour) (w *world, apple *apnsserver.Server, devices []subscriber, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	apple = apnsserver.Start(apnsserver.Options{Public: &private.PublicKey, KeyID: "ABC123DEFG", TeamID: "DEF123GHIJ", Topic: "org.example.shop"})
	t.Cleanup(apple.Close)
	cert := filepath.Join(t.TempDir(), "apple.pem")
	if err := os.WriteFile(cert, apple.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	devices = make([]subscriber, n)
	w, ids := serve(t, 0, n, func(i int) audience.Endpoint {
		var address json.RawMessage
		devices[i].push, address = apple.Register(behave(i))
		return audience.Endpoint{Channel: push.APNs, Address: address}
	}, blackbox.Plain(), blackbox.Env("SSL_CERT_FILE="+cert))
	for i := range devices {
		devices[i].endpoint = ids[i]
	}
	w.call(http.MethodPut, "/v1/channels/apns", map[string]any{
		"private_key": key, "key_id": "ABC123DEFG", "team_id": "DEF123GHIJ", "topic": "org.example.shop", "base_url": apple.URL,
	}, nil)
	return w, apple, devices, key
}

// iphoneSorts lists the kinds of phones: how many of a hundred behave like this, and how their deliveries must end.
var iphoneSorts = []struct {
	name      string
	share     int
	behaviour apnsserver.Behaviour
	outcome   string
	disabled  bool
	taken     int // the most messages that it may have received
}{
	{"unregistered long ago", 5, apnsserver.Unregistered, "failed", false, 0},
	{"unregistered now", 5, apnsserver.Behaviour{Status: http.StatusGone, Reason: "Unregistered", Since: time.Now().Add(time.Hour)}, "failed", true, 0},
	{"of the sandbox", 3, apnsserver.Behaviour{Status: http.StatusBadRequest, Reason: "BadDeviceToken"}, "failed", true, 0},
	{"failing once", 3, apnsserver.Behaviour{Status: http.StatusInternalServerError, Reason: "InternalServerError", Times: 1}, "accepted", false, 1},
	{"busy once", 2, apnsserver.Behaviour{Status: http.StatusTooManyRequests, Reason: "TooManyRequests", RetryAfter: time.Second, Times: 1}, "accepted", false, 1},
	{"not looked at once", 2, apnsserver.Behaviour{GoAway: "IdleTimeout", Times: 1}, "accepted", false, 1},
}

// cut is the kind of phone whose first message ends its connection. All messages under way on it may have arrived then.
const cut = 1

// sortOf returns the kind of the i-th phone; -1: it accepts.
func sortOf(i int) int {
	at := i * 37 % 100
	for k := range iphoneSorts {
		if at < iphoneSorts[k].share {
			return k
		}
		at -= iphoneSorts[k].share
	}
	return -1
}

func TestEveryPhoneEndsInOneHonestOutcomeAndItsMessageIsTakenBack(t *testing.T) {
	t.Parallel()
	w, apple, devices, key := iphones(t, 200, func(i int) apnsserver.Behaviour {
		if k := sortOf(i); k >= 0 {
			return iphoneSorts[k].behaviour
		}
		if i == cut {
			return apnsserver.Behaviour{Break: true, GoAway: "Shutdown", Times: 1}
		}
		return apnsserver.Accepting
	})
	var tried struct {
		OK     bool
		Detail string
	}
	if w.call(http.MethodPost, "/v1/channels/apns/test", nil, &tried); !tried.OK || !strings.Contains(tried.Detail, "ABC123DEFG") {
		t.Errorf("the credentials are good: %+v", tried)
	}
	id := w.start(map[string]any{
		"content":  map[string]any{"title": "Hi {{name|you}}", "body": "There is news", "apns": map[string]any{"sound": "default", "badge": 0, "thread_id": "news"}},
		"audience": map[string]any{"channels": []string{"apns"}}, "priority": "high",
	})
	c := w.ended(id, "completed", 4*time.Minute)
	report := w.report(id)
	accepted, unsure := 0, 0
	for i, d := range devices {
		name, want, disabled, most := "accepting", "accepted", false, 1
		if k := sortOf(i); k >= 0 {
			name, want, disabled, most = iphoneSorts[k].name, iphoneSorts[k].outcome, iphoneSorts[k].disabled, iphoneSorts[k].taken
		}
		got := report[d.endpoint]
		if got.Outcome != want {
			t.Errorf("%s: %s (%s) after %d attempts, want %s", name, got.Outcome, got.Detail, got.Attempts, want)
		}
		if want == "accepted" {
			accepted++
		}
		if got.Unsure {
			unsure++
			most++
		}
		if disabled != w.disabled(d.endpoint) {
			t.Errorf("%s: disabled is %t", name, !disabled)
		}
		sameNames(t, name, apple.Received(d.push), most)
	}
	if c.Counts["accepted"] != accepted || c.Total != len(devices) {
		t.Errorf("%d accepted and a total of %d: %v", accepted, c.Total, c.Counts)
	}
	if !report[devices[cut].endpoint].Unsure || unsure == len(devices) {
		t.Errorf("%d are said to be unsure", unsure)
	}
	for _, v := range apple.Violations() {
		t.Errorf("the service saw %s", v)
	}

	w.call(http.MethodPost, "/v1/campaigns/"+id+"/recall", nil, nil)
	w.ended(id, "recalled", 2*time.Minute)
	for i, d := range devices {
		if sortOf(i) >= 0 {
			continue
		}
		ms := apple.Received(d.push)
		first, last := ms[0], ms[len(ms)-1]
		var sent struct {
			ID string `json:"godwit_id"`
		}
		if err := json.Unmarshal(first.Payload, &sent); err != nil || sent.ID == "" || sent.ID != first.ID {
			t.Fatalf("%s: apns-id %s, %v", first.Payload, first.ID, err)
		}
		if want := fmt.Sprintf(`{"aps":{"content-available":1},"godwit_recall":[%q]}`, sent.ID); len(ms) < 2 || len(ms) > 3 || string(last.Payload) != want || last.PushType != "background" || last.Priority != "5" {
			t.Errorf("%d messages, the last is %s as %s with priority %s; want %s", len(ms), last.Payload, last.PushType, last.Priority, want)
		}
		if first.Priority != "10" || !strings.Contains(string(first.Payload), `"alert":{"title":"Hi you","body":"There is news"},"sound":"default","badge":0,"thread-id":"news"`) {
			t.Errorf("the first was %s with priority %s", first.Payload, first.Priority)
		}
	}
	w.shows(apple, devices, key)
}

// sameNames fails unless one phone's messages replace each other and are at most most.
func sameNames(t *testing.T, name string, got []apnsserver.Message, most int) {
	t.Helper()
	if len(got) > most {
		t.Errorf("%s: got it %d times, at most %d are right", name, len(got), most)
	}
	for _, m := range got {
		if m.ID != got[0].ID || m.Collapse != got[0].Collapse || m.Collapse == "" {
			t.Errorf("%s: %s and %s: the second does not replace the first", name, got[0].Collapse, m.Collapse)
		}
	}
}

// shows fails if the log or the metrics contain a device's name, the key or a token made with it.
func (w *world) shows(apple *apnsserver.Server, devices []subscriber, key string) {
	w.Helper()
	secrets := []string{strings.Split(key, "\n")[1]}
	for _, d := range devices {
		secrets = append(secrets, d.push)
	}
	for _, m := range apple.Received(devices[1].push) {
		secrets = append(secrets, strings.TrimPrefix(m.Authorization, "bearer "))
	}
	a, err := w.api.Do(w.Context(), http.MethodGet, "/metrics", nil)
	if err != nil {
		w.Fatal(err)
	}
	for _, shown := range []string{w.server.Log(), string(a.Body)} {
		for _, s := range secrets {
			if strings.Contains(shown, s) {
				w.Errorf("%.10s… is shown", s)
			}
		}
	}
}

func TestPhonesOfWrongEnvironmentStopCampaignAndAreKept(t *testing.T) {
	t.Parallel()
	w, _, devices, _ := iphones(t, 60, func(int) apnsserver.Behaviour {
		return apnsserver.Behaviour{Status: http.StatusBadRequest, Reason: "BadDeviceToken"}
	})
	id := w.start(map[string]any{"content": map[string]any{"title": "Hi"}, "audience": map[string]any{"channels": []string{"apns"}}})
	c := w.ended(id, "paused", 2*time.Minute)
	if !strings.Contains(c.Detail, "is production the right environment") {
		t.Errorf("it was paused: %s", c.Detail)
	}
	lost := 0
	for _, d := range devices {
		if w.disabled(d.endpoint) {
			lost++
		}
	}
	if lost > 0 || c.Counts["pending"] != len(devices) {
		t.Errorf("%d were disabled: %v", lost, c.Counts)
	}
}
