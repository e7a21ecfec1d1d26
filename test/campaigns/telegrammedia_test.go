package campaigns

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// telegramMessage is a campaign whose message has these fields for Telegram.
func telegramMessage(fields map[string]any) map[string]any {
	return map[string]any{"content": map[string]any{"title": "Hi", "telegram": fields}, "audience": map[string]any{"channels": []string{"telegram"}}}
}

func TestAnAlbumCountsEachMessageAndIsTakenBackWhole(t *testing.T) {
	t.Parallel()
	w, telegram, ids := bot(t, *several, 6) // sixty messages, of which Telegram takes thirty a second
	var parts []any
	for range 10 {
		parts = append(parts, map[string]any{"type": "photo", "media": "https://x.example/{{n|1}}.jpg"})
	}
	id := w.start(telegramMessage(map[string]any{"album": parts}))
	if c := w.ended(id, "completed", time.Minute); c.Counts["accepted"] != len(ids) {
		t.Errorf("%v", c.Counts)
	}
	if n := telegram.Flooded(); n > 0 {
		t.Errorf("Telegram objected %d times", n)
	}
	for at, n := range byChat(telegram) {
		if n != 10 {
			t.Errorf("chat %d got %d of 10 messages", at, n)
		}
	}
	w.call(http.MethodPost, "/v1/campaigns/"+id+"/correct", map[string]any{"content": map[string]any{"title": "Mended"}}, nil)
	blackbox.EventuallyWithin(t, time.Minute, "it is corrected", func() error { return atLeast(edited(telegram), len(ids)) })
	w.ended(id, "completed", time.Minute)
	w.call(http.MethodPost, "/v1/campaigns/"+id+"/recall", nil, nil)
	w.ended(id, "recalled", time.Minute)
	for i, m := range telegram.Messages() {
		want := ""
		if i%10 == 0 {
			want = "<b>Mended</b>"
		}
		if !m.Deleted || m.Text != want || m.Media != "photo https://x.example/1.jpg" {
			t.Errorf("message %d: %+v", m.ID, m)
		}
	}
}

func TestAStickerIsAMessageOfItsOwn(t *testing.T) {
	t.Parallel()
	w, telegram, ids := bot(t, *several, 1)
	spec := telegramMessage(map[string]any{"sticker": "CAACAgIAAxkBAAEB"})
	spec["content"].(map[string]any)["title"] = ""
	if c := w.ended(w.start(spec), "completed", time.Minute); c.Counts["accepted"] != len(ids) {
		t.Errorf("%v", c.Counts)
	}
	if m := telegram.Messages(); len(m) != 1 || m[0].Method != "sendSticker" || m[0].Media != "CAACAgIAAxkBAAEB" || m[0].Text != "" {
		t.Errorf("%+v", m)
	}
	spec["audience"] = map[string]any{}
	if err := w.try(http.MethodPost, "/v1/campaigns", spec, nil); err == nil || !strings.Contains(err.Error(), "telegram alone") {
		t.Errorf("nothing but a sticker for all channels: %v", err)
	}
}
