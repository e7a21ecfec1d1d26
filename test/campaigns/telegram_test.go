package campaigns

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/test/blackbox"
)

const botToken = "123456:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghi"

func itoa(n int) string { return strconv.Itoa(n) }

func atLeast(n, goal int) error {
	if n < goal {
		return fmt.Errorf("%d of %d", n, goal)
	}
	return nil
}

// bot starts a server, or several nodes, beside a Bot API that enforces Telegram's limits, with n private chats.
func bot(t *testing.T, nodes, n int) (*world, *botserver.Server, []string) {
	t.Helper()
	telegram := botserver.Start(botserver.Options{Token: botToken, Rate: 30, Every: time.Second})
	t.Cleanup(telegram.Close)
	w, ids := serve(t, nodes, n, func(i int) audience.Endpoint {
		return audience.Endpoint{Channel: push.Telegram, Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, chat(i)))}
	}, blackbox.Plain())
	w.call(http.MethodPut, "/v1/channels/telegram", map[string]any{"token": botToken, "base_url": telegram.URL}, nil)
	return w, telegram, ids
}

func chat(i int) int64 { return int64(1000 + i) }

// byChat counts the messages received by each chat.
func byChat(b *botserver.Server) map[int64]int {
	n := make(map[int64]int)
	for _, m := range b.Messages() {
		n[m.Chat]++
	}
	return n
}

var telegramNews = map[string]any{
	"content": map[string]any{"title": "Hi", "body": "There is news"}, "audience": map[string]any{"channels": []string{"telegram"}},
}

func TestABotReachesItsChatsAtTheRateThatTelegramAllows(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	botReaches(t, *several)
}

func TestABotReachesItsChatsFromThreeNodes(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	if *several > 0 {
		t.Skip("-nodes has all tests do so")
	}
	botReaches(t, 3)
}

func botReaches(t *testing.T, nodes int) {
	t.Helper()
	w, telegram, ids := bot(t, nodes, *chats)
	const blocked, moved = 3, 7 // chats
	const newHome = -100500
	telegram.Put(chat(blocked), botserver.Blocked)
	telegram.Move(chat(moved), newHome)
	id := w.start(telegramNews)
	c := w.ended(id, "completed", 3*time.Minute)
	if c.Counts["accepted"] != len(ids)-1 || c.Counts["failed"] != 1 {
		t.Errorf("%v", c.Counts)
	}
	got := byChat(telegram)
	for i := range ids {
		want, at := 1, chat(i)
		switch i {
		case blocked:
			want = 0
		case moved:
			at = newHome
		}
		if got[at] != want {
			t.Errorf("chat %d got it %d times, want %d", at, got[at], want)
		}
	}
	if !w.disabled(ids[blocked]) {
		t.Error("who has blocked the bot is not disabled")
	}
	var e struct {
		Address struct {
			ChatID int64 `json:"chat_id"`
		}
	}
	if w.call(http.MethodGet, "/v1/endpoints/"+ids[moved], nil, &e); e.Address.ChatID != newHome {
		t.Errorf("who has moved to %d is still at %d", newHome, e.Address.ChatID)
	}
	ms := telegram.Messages()
	took := ms[len(ms)-1].At.Sub(ms[0].At).Seconds()
	rate := float64(len(ms)-1) / took
	if n := telegram.Flooded(); *scale && n > 0 { // where a machine stalls, messages arrive in bursts
		t.Errorf("Telegram objected %d times to %.1f messages a second", n, rate)
	}
	if *scale && rate < 0.95*30 { // a busy machine may be slower
		t.Errorf("%.1f messages a second; want at least 28.5 of 30", rate)
	}
	t.Logf("%d messages at %.2f/s", len(ms), rate)

	w.call(http.MethodPost, "/v1/campaigns/"+id+"/recall", nil, nil)
	c = w.ended(id, "recalled", 3*time.Minute)
	left := 0
	for _, m := range telegram.Messages() {
		if !m.Deleted {
			left++
		}
	}
	if left > 0 || c.Counts["recalled"] != len(ids)-1 || c.NotRecalled != 0 {
		t.Errorf("%d messages are left, %v, %d not recalled", left, c.Counts, c.NotRecalled)
	}
}

func TestUnreadableAnswersAreParkedNotRepeated(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	w, telegram, ids := bot(t, *several, 30)
	telegram.Break(botserver.HTML, 4)
	id := w.start(telegramNews)
	c := w.ended(id, "completed", time.Minute)
	if c.Counts["unknown"] != 4 || c.Counts["accepted"] != len(ids)-4 {
		t.Errorf("%v", c.Counts)
	}
	for at, n := range byChat(telegram) {
		if n != 1 {
			t.Errorf("chat %d got it %d times", at, n)
		}
	}
	w.call(http.MethodPost, "/v1/campaigns/"+id+"/recall", nil, nil)
	c = w.ended(id, "recalled", time.Minute)
	if c.Counts["recalled"] != len(ids)-4 || c.Counts["unknown"] != 4 || c.NotRecalled != 4 {
		t.Errorf("after the recall: %v, %d not recalled", c.Counts, c.NotRecalled)
	}
	for _, d := range w.report(id) {
		if d.Outcome == "unknown" && !strings.Contains(d.Recall, "nobody knows") {
			t.Errorf("why an unknown one was not recalled: %q", d.Recall)
		}
	}
}

// mostParked is how many chats one end of a server may park: those that it is sending to. On a machine with nothing else to do they are two
// or three.
var mostParked = push.Telegram.Find().Policy.InFlight

func TestAKilledServerParksAFewChatsDoublesNoneAndCorrectsAll(t *testing.T) {
	t.Parallel()
	alone(t)
	w, telegram, ids := bot(t, 0, *chats)
	id := w.start(telegramNews)
	const times = 4
	for i := range times {
		blackbox.EventuallyWithin(t, time.Minute, "a part is sent", func() error { return atLeast(len(telegram.Messages()), len(ids)*(i+1)/(times+2)) })
		w.server.Kill()
		if err := w.server.Launch(); err != nil {
			t.Fatal(err)
		}
		w.api = w.server.API()
	}
	c := w.ended(id, "completed", 2*time.Minute)
	got := byChat(telegram)
	report := w.report(id)
	for i, ep := range ids {
		switch n, d := got[chat(i)], report[ep]; {
		case n > 1:
			t.Errorf("chat %d got it %d times", chat(i), n)
		case n == 0 && d.Outcome != "unknown":
			t.Errorf("chat %d never got it and is %s", chat(i), d.Outcome)
		}
	}
	if parked := c.Counts["unknown"]; parked > times*mostParked || c.Counts["accepted"]+parked != len(ids) {
		t.Errorf("%d kills parked %d chats: %v", times, parked, c.Counts)
	}
	t.Logf("%d chats, %d kills: %v", len(ids), times, c.Counts)

	w.call(http.MethodPost, "/v1/campaigns/"+id+"/correct", map[string]any{"content": map[string]any{"title": "Mended"}}, nil)
	blackbox.EventuallyWithin(t, time.Minute, "a part is corrected", func() error { return atLeast(edited(telegram), len(ids)/4) })
	w.server.Kill()
	if err := w.server.Launch(); err != nil {
		t.Fatal(err)
	}
	w.api = w.server.API()
	c = w.ended(id, "completed", 2*time.Minute)
	if k := c.Correction; k.Corrected != c.Counts["accepted"] || k.NotCorrected != c.Counts["unknown"] || edited(telegram) != k.Corrected {
		t.Errorf("corrected: %+v of %v, %d were edited", k, c.Counts, edited(telegram))
	}
	for _, m := range telegram.Messages() {
		if m.Edits > 1 || m.Edits == 1 && m.Text != "<b>Mended</b>" {
			t.Errorf("a message was edited to %+v", m)
		}
	}
}

// edited counts the messages that were edited.
func edited(b *botserver.Server) (n int) {
	for _, m := range b.Messages() {
		n += m.Edits
	}
	return n
}
