package campaigns

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/fcmserver"
	"godwit.dev/godwit/test/blackbox"
)

// phones is how many devices the campaign over FCM reaches.
const phones = 300

// phoneMix lists how some of them behave, and how their deliveries must end.
var phoneMix = []struct {
	n         int
	behaviour fcmserver.Behaviour
	outcome   string
	disabled  bool
	taken     int // how often it receives the message
}{
	{6, fcmserver.Behaviour{Row: fcmserver.Unregistered}, "failed", true, 0},
	{4, fcmserver.Behaviour{Row: fcmserver.OtherSender}, "failed", true, 0},
	{4, fcmserver.Behaviour{Row: fcmserver.BadToken}, "failed", true, 0},
	{4, fcmserver.Behaviour{Row: fcmserver.Malformed}, "failed", true, 0},
	{3, fcmserver.Behaviour{Row: fcmserver.BadField}, "failed", false, 0},
	{3, fcmserver.Behaviour{Row: fcmserver.Disliked}, "failed", false, 0},
	{2, fcmserver.Behaviour{Row: fcmserver.NoAPNs}, "failed", false, 0}, // few, so that the campaign still sends to the others and completes
	{3, fcmserver.Behaviour{Row: fcmserver.Failing, RetryAfter: time.Second, Times: 1}, "accepted", false, 1},
	{2, fcmserver.Behaviour{Row: fcmserver.Unavailable, RetryAfter: time.Second, Times: 1}, "accepted", false, 1},
	{4, fcmserver.Behaviour{Row: fcmserver.DeviceQuota, RetryAfter: time.Second, Times: 1}, "accepted", false, 1},
	{1, fcmserver.Behaviour{Row: fcmserver.Quota, RetryAfter: time.Second, Times: 1}, "accepted", false, 1},
	{2, fcmserver.Behaviour{Row: fcmserver.Break, Times: 1}, "accepted", false, 2},
	{1, fcmserver.Behaviour{Row: fcmserver.Break}, "unknown", false, 3},
}

// phoneKind returns the kind of the i-th phone; -1: it accepts.
func phoneKind(i int) int {
	for k := range phoneMix {
		if i < phoneMix[k].n {
			return k
		}
		i -= phoneMix[k].n
	}
	return -1
}

// mixed returns the behavior of the i-th phone.
func mixed(i int) (b fcmserver.Behaviour) {
	if k := phoneKind(i); k >= 0 {
		b = phoneMix[k].behaviour
	}
	return b
}

// firebase starts a server beside a stand-in for FCM, with an app of n phones whose behavior behave gives. It returns their tokens and the
// ids of their endpoints.
func firebase(t *testing.T, n int, behave func(i int) fcmserver.Behaviour) (w *world, provider *fcmserver.Server, tokens, ids []string) {
	t.Helper()
	provider = fcmserver.Start(fcmserver.Options{})
	t.Cleanup(provider.Close)
	cert := filepath.Join(t.TempDir(), "fcm.pem")
	if err := os.WriteFile(cert, provider.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens = make([]string, n)
	w, ids = serve(t, 0, n, func(i int) audience.Endpoint {
		var address json.RawMessage
		tokens[i], address = provider.Device(behave(i))
		return audience.Endpoint{Channel: push.FCM, Address: address}
	}, blackbox.Plain(), blackbox.Env("SSL_CERT_FILE="+cert))
	return w, provider, tokens, ids
}

func TestACampaignReachesPhonesAndTakesItBack(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	w, provider, tokens, ids := firebase(t, phones, mixed)
	w.call(http.MethodPut, "/v1/channels/fcm", map[string]any{"service_account": string(provider.Account()), "base_url": provider.URL}, nil)
	var tried struct{ Detail string }
	w.call(http.MethodPost, "/v1/channels/fcm/test", nil, &tried)
	if !strings.Contains(tried.Detail, "project demo-project, as "+fcmserver.Email) {
		t.Errorf("the channel's test says %q", tried.Detail)
	}
	provider.Revoke() // which must cost no message
	id := w.start(map[string]any{
		"content":  map[string]any{"title": "Hi", "body": "There is news", "data": map[string]any{"n": 1}, "fcm": map[string]any{"channel_id": "news", "data_only": false}},
		"audience": map[string]any{"channels": []string{"fcm"}}, "priority": "high",
	})
	c := w.ended(id, "completed", 2*time.Minute)
	report := w.report(id)
	accepted := 0
	for i, token := range tokens {
		d, got := report[ids[i]], provider.Received(token)
		name, want, disabled, taken := "accepting", "accepted", false, 1
		if k := phoneKind(i); k >= 0 {
			m := &phoneMix[k]
			name, want, disabled, taken = string(m.behaviour.Row), m.outcome, m.disabled, m.taken
		}
		if d.Outcome != want || d.Outcome != "accepted" && d.Detail == "" || disabled != w.disabled(ids[i]) {
			t.Errorf("%s: %s (%s), want %s; disabled is %t", name, d.Outcome, d.Detail, want, !disabled)
		}
		if want == "accepted" {
			accepted++
		}
		if len(got) != taken {
			t.Errorf("%s: got it %d times, want %d", name, len(got), taken)
		}
		for _, m := range got {
			n := m.Android.Notification
			if m.Data["godwit_id"] != got[0].Data["godwit_id"] || m.Data["data"] != `{"n":1}` || n == nil || n.Tag != m.Data["godwit_id"] || n.ChannelID != "news" || m.Android.Priority != "HIGH" {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
	if len(report) != phones || c.Counts["accepted"] != accepted {
		t.Errorf("%d rows, %v; want %d accepted", len(report), c.Counts, accepted)
	}
	if n := provider.Counts().Tokens; n != 2 {
		t.Errorf("%d access tokens, want one and after it was revoked another", n)
	}

	w.call(http.MethodPost, "/v1/campaigns/"+id+"/recall", nil, nil)
	if c = w.ended(id, "recalled", time.Minute); c.Counts["recalled"] != accepted {
		t.Errorf("%v; want %d recalled", c.Counts, accepted)
	}
	for i, token := range tokens {
		got := provider.Received(token)
		if report[ids[i]].Outcome == "accepted" && got[len(got)-1].Data["godwit_recall"] != got[0].Data["godwit_id"] {
			t.Errorf("the app was not told: %v", got[len(got)-1].Data)
		}
	}
	w.showsNothing(provider, tokens)
}

// showsNothing checks that nothing written by the server contains a secret.
func (w *world) showsNothing(provider *fcmserver.Server, tokens []string) {
	w.Helper()
	shown := w.server.Log()
	for _, path := range []string{"/metrics", "/v1/channels", "/v1/channels/fcm", "/v1/campaigns"} {
		a, err := w.api.Do(w.Context(), http.MethodGet, path, nil)
		if err != nil || a.Status != http.StatusOK {
			w.Fatal(path, err, a)
		}
		shown += string(a.Body)
	}
	var account map[string]string
	if err := json.Unmarshal(provider.Account(), &account); err != nil {
		w.Fatal(err)
	}
	secrets := append([]string{fcmserver.AccessPrefix, "PRIVATE KEY", strings.Split(account["private_key"], "\n")[1]}, tokens...)
	for _, secret := range secrets {
		if strings.Contains(shown, secret) {
			w.Errorf("%.20s… is shown", secret)
		}
	}
	if !strings.Contains(shown, fcmserver.Email) {
		w.Error("nothing was looked at")
	}
	for _, p := range provider.Problems() {
		w.Errorf("FCM does not take it: %s", p)
	}
}
