package godwit_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/server/config"
)

func TestManyTokensGoInRequestsThatTheServerTakes(t *testing.T) {
	var bodies []map[string]any
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		bodies = append(bodies, body)
		_, _ = io.WriteString(w, `{"acked":7}`)
	}))
	t.Cleanup(s.Close)
	c, err := godwit.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.AckTokens(t.Context(), "", make([]string, 101)...); err != nil || n != 14 || len(bodies) != 2 {
		t.Fatalf("%d acked in %d requests, %v", n, len(bodies), err)
	}
	if all, one := bodies[0]["tokens"].([]any), bodies[1]["tokens"].([]any); len(all) != 100 || len(one) != 1 || bodies[1]["event"] != nil {
		t.Errorf("%d and %d tokens, event %v", len(all), len(one), bodies[1]["event"])
	}
}

func TestAPushIsAcknowledgedByItsTokenAlone(t *testing.T) {
	pushed := make(chan map[string]any, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct{ Data map[string]any }
		if json.NewDecoder(r.Body).Decode(&e) == nil && e.Data["godwit_ack"] != nil {
			pushed <- e.Data
		}
	}))
	t.Cleanup(hook.Close)
	s := run(t, func(c *config.Config) { c.AllowPrivateURLs = true })
	c := client(t, s)
	if err := c.Call(t.Context(), godwit.Call{Method: http.MethodPut, Path: "/v1/channels/webhook", Body: struct{}{}}, nil); err != nil {
		t.Fatal(err)
	}
	address, _ := json.Marshal(map[string]string{"url": hook.URL})
	if _, err := c.RegisterEndpoint(t.Context(), godwit.NewEndpoint{Channel: "webhook", Recipient: "ann", Address: address}); err != nil {
		t.Fatal(err)
	}
	steps := []godwit.Step{{Channel: "live"}, {Channel: "webhook", After: time.Hour, Settle: "shown", Keep: true}}
	r, err := c.Publish(t.Context(), godwit.Publication{To: "ann", Title: "New ride", Escalate: steps}) // ann is offline, so the step starts at once
	if err != nil {
		t.Fatal(err)
	}
	data := <-pushed
	if data["godwit_id"] != r.ID || data["godwit_settle"] != "shown" {
		t.Errorf("pushed %v", data)
	}
	token, _ := data["godwit_ack"].(string)

	stranger, err := godwit.New(s.url()) // no key, no token
	if err != nil {
		t.Fatal(err)
	}
	var refused *godwit.Error
	if _, err := stranger.AckTokens(t.Context(), godwit.AckClicked, token+"x"); !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
		t.Errorf("a forged token: %v", err)
	}
	for i, want := range []int{1, 0} {
		if n, err := stranger.AckTokens(t.Context(), godwit.AckClicked, token, "forged"); err != nil || n != want {
			t.Errorf("time %d: %d acked, %v", i+1, n, err)
		}
	}
	if st, err := c.Status(t.Context(), r.ID, "ann"); err != nil || st.Status != "acked" {
		t.Errorf("status %+v, %v", st, err)
	}
}
