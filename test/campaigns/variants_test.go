package campaigns

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// TestAKilledServerContinuesBetweenTheStagesOfVariants kills the server while the rest of an audience waits, and after the decision.
func TestAKilledServerContinuesBetweenTheStagesOfVariants(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	alone(t)
	w, telegram, ids := bot(t, 0, *chats)
	yes := map[string]any{"buttons": []any{[]any{map[string]any{"text": "Yes", "callback": "yes"}}}} // whose presses are counted without a public URL
	id := w.start(map[string]any{
		"content":  map[string]any{"title": "A", "telegram": yes},
		"variants": []any{map[string]any{"share": 25}, map[string]any{"share": 25, "content": map[string]any{"title": "B", "telegram": yes}}},
		"audience": map[string]any{"channels": []string{"telegram"}}, "decide_after": "1h",
	})
	type stage struct {
		State     string
		DecidesAt *time.Time `json:"decides_at"`
		Decision  *struct{ Variant string }
		Rest      struct{ Counts map[string]int }
	}
	waiting := func() (now stage) {
		t.Helper()
		blackbox.EventuallyWithin(t, time.Minute, "the rest waits", func() error {
			now = stage{}
			if err := w.try(http.MethodGet, "/v1/campaigns/"+id, nil, &now); err != nil {
				return err
			}
			if now.State != "running" || now.DecidesAt == nil || now.Rest.Counts["pending"] == 0 {
				return fmt.Errorf("%+v", now)
			}
			return nil
		})
		return now
	}
	again := func() {
		t.Helper()
		w.server.Kill()
		if err := w.server.Launch(); err != nil {
			t.Fatal(err)
		}
		w.api = w.server.API()
	}
	before := waiting()
	tried := len(telegram.Messages())
	again()
	if after := waiting(); !after.DecidesAt.Equal(*before.DecidesAt) || after.Decision != nil {
		t.Errorf("after the kill it decides at %s, before at %s", after.DecidesAt, before.DecidesAt)
	}
	if n := len(telegram.Messages()); n != tried {
		t.Errorf("%d messages left while the rest waited", n-tried)
	}
	w.call(http.MethodPost, "/v1/campaigns/"+id+"/decide", map[string]any{"variant": "B"}, nil)
	again()
	c := w.ended(id, "completed", 2*time.Minute)
	report := w.report(id)
	texts := map[int64]string{}
	for _, m := range telegram.Messages() {
		if texts[m.Chat] != "" {
			t.Errorf("chat %d got two messages", m.Chat)
		}
		texts[m.Chat] = m.Text
	}
	for i, ep := range ids {
		switch d := report[ep]; {
		case d.Outcome == "unknown" && c.Counts["unknown"] <= mostParked:
		case d.Outcome != "accepted" || d.Variant == "" || !strings.Contains(texts[chat(i)], d.Variant):
			t.Errorf("chat %d is %s with variant %q, and got %q", chat(i), d.Outcome, d.Variant, texts[chat(i)])
		}
	}
}
