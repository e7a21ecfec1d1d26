package campaigns

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/test/blackbox"
)

// chatter is a server with a bot that listens, and one chat, which belongs to ada.
func chatter(t *testing.T) (*world, *botserver.Server) {
	t.Helper()
	telegram := botserver.Start(botserver.Options{Token: botToken})
	t.Cleanup(telegram.Close)
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--allow-private-urls"))
	w := &world{T: t, server: s, api: s.API()}
	w.call(http.MethodPut, "/v1/channels/telegram", map[string]any{"token": botToken, "base_url": telegram.URL, "updates": true}, nil)
	w.call(http.MethodPost, "/v1/endpoints", map[string]any{"channel": "telegram", "recipient": "ada", "address": map[string]any{"chat_id": 7}}, nil)
	return w, telegram
}

// pressed reads the first n events of pressed buttons.
func (w *world) pressed(n int) (list []string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), blackbox.Patience)
	defer cancel()
	if err := w.api.Events(ctx, "pressed", func(e blackbox.Event) bool {
		list = append(list, fmt.Sprint(e.ID, " ", e.To, " ", e.Channel, " ", e.Detail))
		return len(list) < n
	}); err != nil {
		w.Error(err)
	}
	return list
}

func buttons(list ...map[string]any) map[string]any {
	return map[string]any{"buttons": []any{list}}
}

func TestAPressedButtonOfACampaignIsAnEventAndAClick(t *testing.T) {
	t.Parallel()
	w, telegram := chatter(t)
	id := w.start(telegramMessage(buttons(map[string]any{"text": "Yes", "callback": "come.with-me:1234567"}, map[string]any{"text": "No", "callback": "no"}, map[string]any{"text": "Map", "url": "https://x.example/"})))
	w.ended(id, "completed", time.Minute)
	want := []string{
		telegram.Press(1, "Yes", func(data string) string { return data[:len(data)-2] + "99" }), // not a name that was signed
		telegram.Press(1, "No", func(string) string { return "of another program" }),
		telegram.Press(1, "Yes", nil),
	}
	blackbox.Eventually(t, "all queries are answered", func() error { return atLeast(len(telegram.Answered()), len(want)) })
	if got := telegram.Answered(); !slices.Equal(got, want) {
		t.Errorf("answered %v, want %v", got, want)
	}
	if got := w.pressed(1); !slices.Equal(got, []string{id + " ada telegram come.with-me:1234567"}) {
		t.Errorf("events %q", got)
	}
	telegram.Press(1, "Yes", nil) // Telegram may tell a press twice
	blackbox.Eventually(t, "the press is answered again", func() error { return atLeast(len(telegram.Answered()), len(want)+1) })
	var c struct{ Clicked int }
	if w.call(http.MethodGet, "/v1/campaigns/"+id, nil, &c); c.Clicked != 1 {
		t.Errorf("%d clicks", c.Clicked)
	}
	for field, button := range map[string]map[string]any{
		"callback": {"text": "T", "callback": "x", "url": "https://x.example/"}, "ack": {"text": "T", "url": "https://x.example/", "ack": true}, "url": {"text": "T"},
	} {
		if err := w.try(http.MethodPost, "/v1/campaigns", telegramMessage(buttons(button)), nil); err == nil || !strings.Contains(err.Error(), "content.telegram.buttons[0][0]."+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestAPressedButtonAcknowledgesANotification(t *testing.T) {
	t.Parallel()
	w, telegram := chatter(t)
	w.call(http.MethodPut, "/v1/templates/ride", map[string]any{"content": map[string]any{
		"title": "Ride", "telegram": buttons(map[string]any{"text": "Later", "callback": "later"}, map[string]any{"text": "Take it", "callback": "take", "ack": true}),
	}}, nil)
	w.call(http.MethodPost, "/v1/notifications", map[string]any{"id": "ride-1", "to": "ada", "template": "ride", "escalate": []any{map[string]any{"channel": "telegram", "after": "0s"}}}, nil)
	status := func() (status string) {
		var n struct{ Status string }
		w.call(http.MethodGet, "/v1/notifications/ride-1?to=ada", nil, &n)
		return n.Status
	}
	blackbox.Eventually(t, "the message is sent", func() error { return atLeast(len(telegram.Messages()), 1) })
	telegram.Press(1, "Later", nil)
	blackbox.Eventually(t, "the query is answered", func() error { return atLeast(len(telegram.Answered()), 1) })
	if got := status(); got != "stored" {
		t.Errorf("a button that does not acknowledge made it %s", got)
	}
	telegram.Press(1, "Take it", nil)
	blackbox.Eventually(t, "it is acknowledged", func() error {
		if got := status(); got != "acked" {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	if got := w.pressed(2); !slices.Equal(got, []string{"ride-1 ada telegram later", "ride-1 ada telegram take"}) {
		t.Errorf("events %q", got)
	}
	if telegram.Messages()[0].Deleted {
		t.Error("the message was withdrawn from the chat that acknowledged it")
	}
}
