package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

var errNothing = errors.New("nothing came")

// pushedTo waits for a notification's message at a path and returns its content.
func (r *receiver) pushedTo(t *testing.T, note, path string) (p pushed) {
	t.Helper()
	r.wait(t, message, note)
	blackbox.Eventually(t, note+" at "+path, func() error {
		for _, one := range r.log() {
			if one.kind == message && one.note == note && one.to == path {
				p = one.data
				return nil
			}
		}
		return errNothing
	})
	return p
}

// stranger makes a call without a key.
func (w *world) stranger(method, path string, body any) *blackbox.Answer {
	w.Helper()
	a, err := w.server.API("").Do(w.Context(), method, path, body)
	if err != nil {
		w.Fatal(err)
	}
	return a
}

// acknowledge posts tokens without credentials and checks how many copies they settle; -1: the request is refused.
func (w *world) acknowledge(want int, event string, tokens ...string) {
	w.Helper()
	body := map[string]any{"tokens": tokens}
	if event != "" {
		body["event"] = event
	}
	a := w.stranger(http.MethodPost, "/v1/acks", body)
	var got struct{ Acked int }
	switch err := a.JSON(&got); {
	case want < 0 && a.Status != http.StatusUnauthorized:
		w.Fatalf("tokens are taken: %d %s", a.Status, a.Body)
	case want >= 0 && (a.Status != http.StatusOK || err != nil || got.Acked != want):
		w.Fatalf("acknowledged: %d %s, want %d", a.Status, a.Body, want)
	}
}

func (w *world) publishStep(id, to string, step map[string]any) {
	w.Helper()
	step["channel"] = "webhook"
	if step["after"] == nil {
		step["after"] = "22h" // sent immediately to recipients who are offline
	}
	w.call(http.MethodPost, "/v1/notifications", map[string]any{"to": to, "id": id, "title": "T " + id, "escalate": []any{step, map[string]string{"channel": "webhook", "after": "23h"}}})
}

func TestAPushIsAcknowledgedByItsTokenAlone(t *testing.T) {
	t.Parallel()
	w, r := begin(t), receive(t)
	w.reach("rider", r)
	w.call(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "webhook", "recipient": "rider", "address": map[string]string{"url": r.URL + "/second"}})
	w.publishStep("ride", "rider", map[string]any{})
	first, second := r.pushedTo(t, "ride", "rider"), r.pushedTo(t, "ride", "second")
	if n := len(first.Ack); n == 0 || n > 256 || first.Settle != "" || first.Ack == second.Ack || strings.Trim(first.Ack, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") != "" {
		t.Fatalf("tokens %q and %q, settled by %q", first.Ack, second.Ack, first.Settle)
	}
	var c struct{ ID string }
	if err := w.call(http.MethodPost, "/v1/campaigns", map[string]any{"content": map[string]string{"title": "News"}, "audience": map[string]any{"channels": []string{"webhook"}}}).JSON(&c); err != nil {
		t.Fatal(err)
	}
	w.call(http.MethodPost, "/v1/campaigns/"+c.ID+"/start", nil)
	var track string
	blackbox.Eventually(t, "the campaign", func() error {
		for _, one := range r.log() {
			if one.data.Track != "" {
				track = one.data.Track
				return nil
			}
		}
		return errNothing
	})
	l := w.online("rider")
	if f, err := l.Next(t.Context()); err != nil || f.Notification == nil {
		t.Fatalf("the notification: %+v, %v", f, err)
	}
	app, sealed, _ := strings.Cut(first.Ack, "~")
	forged := app + "~" + sealed[:len(sealed)-4] + "AAAA"
	w.acknowledge(-1, "", forged)
	w.acknowledge(-1, "", "other~"+sealed)
	w.acknowledge(-1, "", track) // a campaign's
	if a := w.stranger(http.MethodPost, "/v1/track", map[string]string{"token": first.Ack, "event": "clicked"}); a.Status != http.StatusForbidden {
		t.Errorf("a token to acknowledge with reports for campaigns: %d %s", a.Status, a.Body)
	}
	w.acknowledge(0, "shown", first.Ack) // noted, and no more
	w.acknowledge(1, "clicked", forged, first.Ack, "nonsense")
	if f, err := l.Next(t.Context()); err != nil || f.Recall == nil || !slices.Equal(f.Recall.IDs, []string{"ride"}) {
		t.Fatalf("the session is told %+v, %v", f, err)
	}
	w.acknowledge(0, "clicked", first.Ack)
	w.wantChannels("ride", "rider", "live acked", "webhook clicked", "webhook withdrawn") // and no second step
	if n := len(r.got(withdraw, "ride")); n != 1 {
		t.Errorf("withdrawn %d times; want it at the other device alone", n)
	}
	w.acknowledge(0, "", second.Ack, second.Ack)
	var counts struct{ Shown, Clicked int }
	if err := w.call(http.MethodGet, "/v1/campaigns/"+c.ID, nil).JSON(&counts); err != nil || counts.Shown+counts.Clicked != 0 {
		t.Errorf("the campaign counts %+v, %v", counts, err)
	}
	for body, field := range map[string]string{
		`{"tokens":[]}`: "tokens", `{"tokens":["a"],"ids":["a"]}`: "tokens", `{"tokens":["a"],"event":"read"}`: "event", `{"tokens":"a"}`: "tokens",
		`{"tokens":[` + strings.Repeat(`"a",`, 100) + `"a"]}`: "tokens",
	} {
		if a := w.stranger(http.MethodPost, "/v1/acks", []byte(body)); a.Status != http.StatusBadRequest || a.Problem().Field != field {
			t.Errorf("%.40s: %d %s", body, a.Status, a.Body)
		}
	}
	if log := w.server.Log(); strings.Contains(log, sealed) {
		t.Error("the token is in the log")
	}
}

func TestStepReportsFateOfItsMessages(t *testing.T) {
	t.Parallel()
	w, r := begin(t), receive(t)
	w.call(http.MethodPut, "/v1/channels/webhook", map[string]any{"targets": []string{"sms=" + r.URL + "/sms"}})
	w.reach("rider", r)
	w.publishStep("text", "nobody", map[string]any{"to": "sms"})
	text := r.pushedTo(t, "text", "sms")
	if text.To != "sms" || text.Recipient != "nobody" || text.Title != "T text" || text.Endpoint != "" || text.Ack == "" {
		t.Errorf("the target gets %+v", text)
	}
	w.publishStep("seen", "rider", map[string]any{"settle": "shown"})
	seen := r.pushedTo(t, "seen", "rider")
	if seen.Settle != "shown" {
		t.Errorf("the message is settled by %q", seen.Settle)
	}
	w.publishStep("kept", "rider", map[string]any{"withdraw": false})
	kept := r.pushedTo(t, "kept", "rider")
	w.publishStep("taken", "rider", map[string]any{})
	r.wait(t, message, "taken")
	for note, to := range map[string]string{"text": "nobody", "seen": "rider", "kept": "rider", "taken": "rider"} {
		w.wantChannels(note, to, "live stored", "webhook accepted", "webhook waiting")
	}
	w.server.Kill() // tokens outlive it
	if err := w.server.Launch(); err != nil {
		t.Fatal(err)
	}
	w.acknowledge(1, "shown", seen.Ack)
	w.acknowledge(0, "shown", kept.Ack)
	w.acknowledge(1, "dismissed", text.Ack)
	l := w.online("rider")
	w.ack(l, "kept", "rider")
	w.ack(l, "taken", "rider")
	r.wait(t, withdraw, "taken")
	w.wantChannels("taken", "rider", "live acked", "webhook withdrawn")
	w.wantChannels("seen", "rider", "live acked", "webhook shown")
	w.wantChannels("kept", "rider", "live acked", "webhook shown")
	w.wantChannels("text", "nobody", "live acked", "webhook shown")
	for _, note := range []string{"seen", "kept", "text"} {
		if n := len(r.got(withdraw, note)); n != 0 {
			t.Errorf("%s was withdrawn", note)
		}
	}
	a, err := w.api.Do(t.Context(), http.MethodPost, "/v1/notifications", []byte(`{"to":"a","title":"T","escalate":[{"channel":"webhook","to":"voice"}]}`))
	if err != nil || a.Status != http.StatusBadRequest || a.Problem().Field != "escalate[0].to" {
		t.Errorf("a target that is none: %d %s, %v", a.Status, a.Body, err)
	}
}
