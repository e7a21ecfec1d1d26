package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/test/blackbox"
)

func TestAnAppIsDeletedWhileItsCampaignIsSent(t *testing.T) {
	const chats, token = 200, "123456:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghi"
	telegram := botserver.Start(botserver.Options{Token: token})
	t.Cleanup(telegram.Close)
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--allow-private-urls", "--erase-within", "1s"))
	api := s.API()
	api.Call(t, http.MethodPut, "/v1/channels/telegram", map[string]any{"token": token, "base_url": telegram.URL}, nil)
	for i := range chats {
		api.Call(t, http.MethodPost, "/v1/endpoints", map[string]any{"channel": "telegram", "address": json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, 1000+i)), "attributes": map[string]any{"name": erasedText}}, nil)
	}
	var news struct{ ID string }
	if err := api.Call(t, http.MethodPost, "/v1/campaigns", map[string]any{
		"content": map[string]any{"title": erasedText}, "audience": map[string]any{"channels": []string{"telegram"}}, "rate": "10/s",
	}, nil).JSON(&news); err != nil {
		t.Fatal(err)
	}
	api.Call(t, http.MethodPost, "/v1/campaigns/"+news.ID+"/start", nil, nil)
	blackbox.Eventually(t, "a part is sent", func() error {
		if len(telegram.Messages()) < 3 {
			return errors.New("nothing is")
		}
		return nil
	})
	if out, err := s.Manage("app", "delete", "demo", "--yes", "--data", s.Dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	blackbox.Eventually(t, "the app is erased", func() error {
		if !strings.Contains(s.Log(), "app erased") {
			return errors.New("it is not yet")
		}
		return nil
	})
	sent := len(telegram.Messages())
	if sent == chats {
		t.Error("the campaign was sent to the end")
	}
	if out, err := s.Manage("app", "create", "demo", "--data", s.Dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	blackbox.Eventually(t, "the new app is served", func() error {
		return s.API().Publish(t.Context(), map[string]any{"id": "new", "to": "ann", "title": "x"})
	})
	var list struct{ Campaigns []any }
	if err := api.Call(t, http.MethodGet, "/v1/campaigns", nil, nil).JSON(&list); err != nil || len(list.Campaigns) > 0 {
		t.Errorf("the new app has campaigns: %+v, %v", list, err)
	}
	nothingIsLeft(t, s)
	if n := len(telegram.Messages()); n != sent {
		t.Errorf("%d messages of the deleted app were sent after it was erased", n-sent)
	}
}
