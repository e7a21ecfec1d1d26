package campaigns

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/sendertest/botserver"
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

// TestAnotherNodeSendsTheRestOnceTheOwnerIsKilled kills the node that waits for the decision.
func TestAnotherNodeSendsTheRestOnceTheOwnerIsKilled(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	telegram := botserver.Start(botserver.Options{Token: botToken})
	t.Cleanup(telegram.Close)
	c := startNodes(t, 2)
	ids := c.chats(40)
	yes := map[string]any{"buttons": []any{[]any{map[string]any{"text": "Yes", "callback": "yes"}}}}
	w := &world{T: t, server: c.servers["n0"], api: c.servers["n0"].API(), nodes: []*blackbox.Server{}}
	w.call(http.MethodPut, "/v1/channels/telegram", map[string]any{"token": botToken, "base_url": telegram.URL}, nil)
	id := w.start(map[string]any{
		"content":  map[string]any{"title": "A", "telegram": yes},
		"variants": []any{map[string]any{"share": 25}, map[string]any{"share": 25, "content": map[string]any{"title": "B", "telegram": yes}}},
		"audience": map[string]any{"channels": []string{"telegram"}}, "decide_after": "1h",
	})
	blackbox.EventuallyWithin(t, time.Minute, "the rest waits", func() error {
		var now struct {
			DecidesAt *time.Time `json:"decides_at"`
		}
		if err := w.try(http.MethodGet, "/v1/campaigns/"+id, nil, &now); err != nil || now.DecidesAt == nil {
			return fmt.Errorf("it decides at %v, %w", now.DecidesAt, err)
		}
		return nil
	})
	owner := c.owner("")
	c.servers[owner].Kill()
	other := map[string]string{"n0": "n1", "n1": "n0"}[owner]
	w = &world{T: t, server: c.servers[other], api: c.servers[other].API()}
	w.call(http.MethodPost, "/v1/campaigns/"+id+"/decide", map[string]any{"variant": "B"}, nil)
	if done := w.ended(id, "completed", 2*time.Minute); done.Counts["accepted"] != len(ids) {
		t.Errorf("%v of %d", done.Counts, len(ids))
	}
	for at, n := range byChat(telegram) {
		if n != 1 {
			t.Errorf("chat %d got %d messages", at, n)
		}
	}
}
