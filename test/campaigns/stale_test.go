package campaigns

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/apnsserver"
	"godwit.dev/godwit/internal/sending/sendertest/fcmserver"
	"godwit.dev/godwit/test/blackbox"
)

// staleOf100 is how many of the hundred phones are stale. revokedMost is the most messages that a revoked credential may cost, including
// those under way.
const staleOf100, revokedMost = 5, 20

// hundred sends a campaign over a channel and waits for its end.
func (w *world) hundred(channel, state string) campaign {
	w.Helper()
	return w.ended(w.start(map[string]any{
		"content": map[string]any{"title": "Hi"}, "audience": map[string]any{"channels": []string{channel}},
	}), state, 2*time.Minute)
}

func TestFiveStalePhonesOfAHundredStopNobodyElse(t *testing.T) {
	t.Parallel()
	const n = 100
	for _, row := range []fcmserver.Row{fcmserver.NoProject, fcmserver.Denied} {
		w, provider, _, _ := firebase(t, n, func(i int) fcmserver.Behaviour {
			if i%(n/staleOf100) == 7 {
				return fcmserver.Behaviour{Row: row}
			}
			return fcmserver.Behaviour{}
		})
		w.call(http.MethodPut, "/v1/channels/fcm", map[string]any{"service_account": string(provider.Account()), "base_url": provider.URL}, nil)
		if c := w.hundred("fcm", "completed"); c.Counts["accepted"] != n-staleOf100 || c.Counts["failed"] != staleOf100 {
			t.Errorf("FCM, %s: %v", row, c.Counts)
		}
	}
	for _, b := range []apnsserver.Behaviour{
		{Status: http.StatusBadRequest, Reason: "DeviceTokenNotForTopic"},
		{Status: http.StatusForbidden, Reason: "Forbidden"},
		{Status: http.StatusNotFound, Body: "no"},
	} {
		w, _, _, _ := iphones(t, n, func(i int) apnsserver.Behaviour {
			if i%(n/staleOf100) == 7 {
				return b
			}
			return apnsserver.Accepting
		})
		if c := w.hundred("apns", "completed"); c.Counts["accepted"] != n-staleOf100 || c.Counts["failed"] != staleOf100 {
			t.Errorf("APNs, %+v: %v", b, c.Counts)
		}
	}
}

func TestARevokedCredentialOfPhonesCostsTwentyMessages(t *testing.T) {
	t.Parallel()
	const n = 100
	for _, row := range []fcmserver.Row{fcmserver.Denied, fcmserver.NoProject} {
		w, provider, _, ids := firebase(t, n, func(int) fcmserver.Behaviour { return fcmserver.Behaviour{Row: row} })
		w.call(http.MethodPut, "/v1/channels/fcm", map[string]any{"service_account": string(provider.Account()), "base_url": provider.URL}, nil)
		c := w.hundred("fcm", "paused")
		if got := provider.Counts().Requests; got > revokedMost || c.Counts["failed"] > 0 || c.Detail == "" {
			t.Errorf("FCM, %s: %d messages, %v, %q", row, got, c.Counts, c.Detail)
		}
		for _, id := range ids {
			if w.disabled(id) {
				t.Fatalf("FCM, %s: a phone was given up", row)
			}
		}
	}
	w, apple, devices, _ := iphones(t, n, func(int) apnsserver.Behaviour {
		return apnsserver.Behaviour{Status: http.StatusForbidden, Reason: "Forbidden"}
	})
	c := w.hundred("apns", "paused")
	if got := apple.Requests(); got > revokedMost || c.Counts["failed"] > 0 || w.disabled(devices[0].endpoint) {
		t.Errorf("APNs: %d messages, %v", got, c.Counts)
	}
}

func TestNonsenseInAProvidersPlaceLosesNoPhone(t *testing.T) {
	t.Parallel()
	const n, nonsense = 40, 10
	content := map[string]any{"title": "Hi"}
	w, provider, _, _ := firebase(t, n, func(int) fcmserver.Behaviour { return fcmserver.Behaviour{} })
	w.call(http.MethodPut, "/v1/channels/fcm", map[string]any{"service_account": string(provider.Account()), "base_url": provider.URL}, nil)
	provider.TokenFails(fcmserver.TokenFault{Status: http.StatusUnauthorized, Body: "<html>sign in</html>"})
	id := w.start(map[string]any{"content": content, "audience": map[string]any{"channels": []string{"fcm"}}})
	blackbox.Eventually(t, "FCM's token service was asked", func() error {
		for _, d := range w.report(id) {
			if d.Detail != "" {
				return nil
			}
		}
		return errors.New("no delivery has a detail")
	})
	provider.TokenFails(fcmserver.TokenFault{})
	if c := w.ended(id, "completed", 2*time.Minute); c.Counts["accepted"] != n {
		t.Errorf("FCM: %v", c.Counts)
	}
	for _, b := range []apnsserver.Behaviour{
		{Status: http.StatusOK, Body: "<html>welcome</html>"},
		{Status: http.StatusForbidden, Body: "<html>sign in</html>"},
		{Status: http.StatusGone, Body: "<html>"},
	} {
		w, apple, devices, _ := iphones(t, n, func(int) apnsserver.Behaviour { return apnsserver.Accepting })
		apple.BehaveAll(&b)
		id := w.start(map[string]any{"content": content, "audience": map[string]any{"channels": []string{"apns"}}})
		blackbox.Eventually(t, "several get the nonsense", func() error { return atLeast(apple.Requests(), nonsense) })
		apple.BehaveAll(nil)
		if c := w.ended(id, "completed", 2*time.Minute); c.Counts["accepted"] != n || w.disabled(devices[0].endpoint) {
			t.Errorf("APNs, %+v: %v", b, c.Counts)
		}
	}
}
