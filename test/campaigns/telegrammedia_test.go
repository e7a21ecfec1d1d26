package campaigns

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/botserver"
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
	if n := telegram.Flooded(); *scale && n > 0 { // where a machine stalls, messages arrive in bursts
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

func TestAFileIsUploadedOnceForAllChats(t *testing.T) {
	t.Parallel()
	w, telegram, ids := bot(t, *several, 3)
	upload := func(kind string, size int) (status int, answer struct {
		OK     bool   `json:"ok"`
		FileID string `json:"file_id"`
		Detail string
	},
	) {
		query := url.Values{"type": {kind}, "name": {"menu.pdf"}, "address": {`{"chat_id":5}`}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server.URL("/v1/channels/telegram/files?"+query.Encode()), bytes.NewReader(make([]byte, size)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer dev")
		r.Close = true // a proxy closes a connection over which it has refused a body that still comes
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, answer
	}
	status, file := upload("document", 3<<20)
	if status != http.StatusOK || !file.OK || file.FileID == "" {
		t.Fatalf("%d %+v", status, file)
	}
	if c := w.ended(w.start(telegramMessage(map[string]any{"document": file.FileID})), "completed", time.Minute); c.Counts["accepted"] != len(ids) {
		t.Errorf("%v", c.Counts)
	}
	uploads := 0
	for _, m := range telegram.Messages() {
		if m.Media != file.FileID {
			t.Errorf("%+v", m)
		}
		if m.Uploaded {
			uploads++
		}
		if m.Uploaded != m.Deleted {
			t.Errorf("of the upload only the file may stay: %+v", m)
		}
	}
	if uploads != 1 {
		t.Errorf("uploaded %d times", uploads)
	}
	if status, _ := upload("photo", 10<<20+1); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a photo above 10 MB: %d", status)
	}
	if status, _ := upload("hologram", 1); status != http.StatusBadRequest {
		t.Errorf("an unknown kind: %d", status)
	}
	telegram.Put(5, botserver.Blocked)
	if status, file := upload("document", 1); status != http.StatusOK || file.OK || !strings.Contains(file.Detail, "blocked") {
		t.Errorf("a chat that blocked the bot: %d %+v", status, file)
	}
}
