package api

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/test/blackbox"
)

// TestCampaignEndsAtTheServersOwnPushService sends a campaign to a browser whose push service is the same server. The origin of the push endpoint is a
// name that nobody can resolve, so the message cannot have gone over the network.
func TestCampaignEndsAtTheServersOwnPushService(t *testing.T) {
	t.Parallel()
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Args("--push-service", "--public-url", "http://push.invalid:8080"))
	w := &world{T: t, server: server, api: server.API()}
	var key struct {
		Public string `json:"public_key"`
	}
	w.api.Call(t, http.MethodGet, "/v1/webpush/key", nil, &key)
	var d blackbox.PushDevice
	if err := d.Connect(t.Context(), server.HTTP); err != nil {
		t.Fatal(err)
	}
	defer d.Cut()
	endpoint, err := d.Subscribe(t.Context(), key.Public)
	if err != nil || !strings.HasPrefix(endpoint, "http://push.invalid:8080/wpush/v2/") {
		t.Fatalf("endpoint %s, %v", endpoint, err)
	}
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	auth := make([]byte, 16)
	_, _ = rand.Read(auth) // never fails
	enc := base64.RawURLEncoding.EncodeToString
	browser := map[string]any{"channel": "webpush", "recipient": "ann", "address": map[string]any{
		"endpoint": endpoint, "keys": map[string]string{"p256dh": enc(private.PublicKey().Bytes()), "auth": enc(auth)},
	}}
	refused, err := w.api.Do(t.Context(), http.MethodPost, "/v1/endpoints", browser)
	if err != nil || refused.Status != http.StatusBadRequest {
		t.Fatalf("without own_service: %v, %v; want 400", refused, err)
	}
	w.call(http.MethodPut, "/v1/channels/webpush", map[string]any{"own_service": true})
	w.call(http.MethodPost, "/v1/endpoints", browser)

	var c struct{ ID string }
	w.api.Call(t, http.MethodPost, "/v1/campaigns", map[string]any{"content": map[string]any{"title": "Tide"}, "audience": map[string]any{"channels": []string{"webpush"}}}, &c)
	w.call(http.MethodPost, "/v1/campaigns/"+c.ID+"/start", nil)
	f, err := d.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	body, err := base64.RawURLEncoding.DecodeString(f.Data)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := pushserver.Decrypt(body, private, auth)
	if err != nil || !strings.Contains(string(plain), `"title":"Tide"`) {
		t.Fatalf("%+v says %s, %v", f, plain, err)
	}
	blackbox.Eventually(t, "the campaign is done", func() error {
		var now struct {
			State  string
			Counts map[string]int
		}
		if err := w.api.Try(t.Context(), http.MethodGet, "/v1/campaigns/"+c.ID, nil, &now); err != nil || now.State != "completed" || now.Counts["accepted"] != 1 {
			return fmt.Errorf("%+v, %w", now, err)
		}
		return nil
	})

	// The subscription ends where the device ends it.
	if _, err := d.Ask(t.Context(), map[string]any{"messageType": "unregister", "channelID": f.ChannelID, "code": 200}); err != nil {
		t.Fatal(err)
	}
	w.call(http.MethodPost, "/v1/notifications", map[string]any{"to": "ann", "title": "Later", "escalate": []map[string]string{{"channel": "webpush", "after": "0s"}}})
	blackbox.Eventually(t, "the endpoint is disabled", func() error {
		var page struct{ Items []struct{ Status string } }
		if err := w.api.Try(t.Context(), http.MethodGet, "/v1/endpoints?recipient=ann", nil, &page); err != nil || len(page.Items) != 1 || page.Items[0].Status != "disabled" {
			return fmt.Errorf("%+v, %w", page, err)
		}
		return nil
	})
}
