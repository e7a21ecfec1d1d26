package webpush_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/pushserver"
	"godwit.dev/godwit/internal/sending/webpush"
)

func TestDefaultsStandWhereAMessageSaysNothing(t *testing.T) {
	server, s := start(t, func(c *webpush.Config) {
		c.Defaults = webpush.Defaults{Title: "The Daily Tide", Icon: "https://example.org/icon.png", URL: "https://example.org/"}
	})
	type said struct{ Title, Body, Icon, URL string }
	long := strings.Repeat("x", 3_850)
	for _, c := range []struct {
		content push.Content
		want    said
	}{
		{push.Content{Body: "High tide"}, said{"The Daily Tide", "High tide", "https://example.org/icon.png", "https://example.org/"}},
		{push.Content{Title: "Storm", Icon: "https://example.org/storm.png", URL: "https://example.org/storm"}, said{"Storm", "", "https://example.org/storm.png", "https://example.org/storm"}},
		{push.Content{Title: "Storm", URL: "https://example.org/storm"}, said{"Storm", "", "https://example.org/icon.png", "https://example.org/storm"}},
		{push.Content{Body: long}, said{Body: long}}, // fits without them alone
	} {
		id, address := server.Subscribe(pushserver.Accepting)
		if _, err := s.Send(t.Context(), push.Request{ID: "m", Address: address, Content: c.content}); err != nil {
			t.Fatal(err)
		}
		got := server.Received(id)[0]
		plain, err := got.Payload()
		if err != nil {
			t.Fatal(err)
		}
		var says said
		if err := json.Unmarshal(plain, &says); err != nil || says != c.want {
			t.Errorf("%.80v says %.200s (%v)", c.content, plain, err)
		}
	}
}

func TestDefaultsAreChecked(t *testing.T) {
	for field, values := range map[string]channel.Values{
		"title": {"title": strings.Repeat("x", 201)}, "icon": {"icon": "javascript:alert(1)"}, "url": {"url": "https:///path"}, "welcome": {"welcome": "no name"},
		"": {"title": "News", "icon": "https://example.org/icon.png", "url": "https://example.org/"},
	} {
		_, err := webpush.Kind{}.Complete(values)
		var wrong *notification.FieldError
		if field == "" && err != nil || field != "" && (!errors.As(err, &wrong) || wrong.Field != field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := (webpush.Kind{}).Complete(channel.Values{"icon": "https://example.org/" + strings.Repeat("x", 500)}); err == nil {
		t.Error("an icon's URL of more than 500 bytes is taken")
	}
}
