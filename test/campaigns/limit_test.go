package campaigns

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/test/blackbox"
)

// promo is a campaign of a category.
func promo(title string, more map[string]any) map[string]any {
	spec := map[string]any{
		"content": map[string]any{"title": title, "category": "promo"}, "audience": map[string]any{"channels": []string{"telegram"}},
	}
	for k, v := range more {
		spec[k] = v
	}
	return spec
}

func TestNobodyGetsMoreCampaignsOfACategoryThanItsLimit(t *testing.T) {
	t.Parallel()
	telegram := botserver.Start(botserver.Options{Token: botToken, Rate: 30})
	t.Cleanup(telegram.Close)
	w, _ := serve(t, *several, 9, func(i int) audience.Endpoint { // three persons with two chats each, and three without a name
		e := audience.Endpoint{Channel: push.Telegram, Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, chat(i)))}
		if i < 6 {
			e.Recipient = fmt.Sprintf("person-%d", i/2)
		}
		return e
	}, blackbox.Plain())
	w.call(http.MethodPut, "/v1/channels/telegram", map[string]any{"token": botToken, "base_url": telegram.URL}, nil)
	const reached = 8
	telegram.Put(chat(8), botserver.Blocked) // this one gets nothing, and nothing counts
	w.call(http.MethodPut, "/v1/categories/promo", map[string]any{"campaign_limit": "1/8h", "campaign_beyond": "suppress"}, nil)

	// Two at once: each person gets one of them, over all chats.
	a, b := w.start(promo("A", nil)), w.start(promo("B", nil))
	first, second := w.ended(a, "completed", time.Minute), w.ended(b, "completed", time.Minute)
	if n := first.Counts["accepted"] + second.Counts["accepted"]; n != reached {
		t.Errorf("of two campaigns, %d messages were accepted: %v, %v", n, first.Counts, second.Counts)
	}
	for _, d := range w.report(a) {
		if d.Outcome == "suppressed" && !strings.Contains(d.Detail, "as many campaigns of category promo have reached the person as the app allows: 1/8h") && !strings.Contains(d.Detail, "disabled") {
			t.Errorf("suppressed: %q", d.Detail)
		}
	}
	// A campaign of another category reaches everybody.
	if c := w.ended(w.start(map[string]any{"content": map[string]any{"title": "Alarm"}, "audience": map[string]any{"channels": []string{"telegram"}}}), "completed", time.Minute); c.Counts["accepted"] != reached {
		t.Errorf("of another category: %v", c.Counts)
	}

	// Deferred messages wait for their time, or end when the campaign would be over then.
	w.call(http.MethodPut, "/v1/categories/promo", map[string]any{"campaign_limit": "1/8h"}, nil)
	over := w.ended(w.start(promo("C", map[string]any{"expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})), "completed", time.Minute)
	if over.Counts["suppressed"] != reached {
		t.Errorf("of a campaign that ends within the period: %v", over.Counts)
	}
	later := w.start(promo("D", nil))
	blackbox.EventuallyWithin(t, time.Minute, "all are deferred", func() error {
		n := 0
		for _, d := range w.report(later) {
			if d.Outcome == "pending" && d.Due.After(time.Now().Add(7*time.Hour)) && strings.Contains(d.Detail, "1/8h") {
				n++
			}
		}
		return atLeast(n, reached)
	})
	said, err := w.program().Run("why", later, "--to", "person-1", "--url", w.server.URL(""))
	if err != nil || strings.Count(said, "telegram: will be sent: as many campaigns of category promo") != 2 {
		t.Errorf("why: %s (%v)", said, err)
	}
	if n := len(telegram.Messages()); n != 2*reached {
		t.Errorf("%d messages were sent, want %d", n, 2*reached)
	}
}
