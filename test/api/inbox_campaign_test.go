package api

import (
	"fmt"
	"net/http"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

func TestCampaignCountsWhatInboxesReport(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.call(http.MethodPut, "/v1/categories/news", map[string]any{"inbox": true})
	people := []string{"ann", "bob", "cid"}
	var c struct{ ID string }
	body := map[string]any{
		"content":  map[string]any{"title": "Sale", "category": "news"},
		"audience": map[string]any{"channels": []string{"live"}, "recipients": people},
	}
	if err := w.call(http.MethodPost, "/v1/campaigns", body).JSON(&c); err != nil {
		t.Fatal(err)
	}
	w.call(http.MethodPost, "/v1/campaigns/"+c.ID+"/start", nil)
	items := map[string]string{}
	blackbox.Eventually(t, "the message is in all inboxes", func() error {
		for _, who := range people {
			var p inboxPage
			if err := w.call(http.MethodGet, "/v1/inbox?to="+who, nil).JSON(&p); err != nil || len(p.Items) != 1 {
				return fmt.Errorf("inbox of %s: %+v, %w", who, p, err)
			}
			items[who] = p.Items[0].ID
		}
		return nil
	})
	w.call(http.MethodPost, "/v1/notifications", map[string]any{"to": "cid", "id": "123e4567-e89b-52d3-a456-426614174000", "title": "Mine", "category": "news"})
	for _, who := range []string{"ann", "bob"} {
		w.call(http.MethodPost, "/v1/inbox/seen?to="+who, nil)
	}
	w.call(http.MethodPost, "/v1/inbox/"+items["ann"]+"?to=ann", map[string]any{"read": true})
	w.call(http.MethodPost, "/v1/inbox/read?to=bob", nil)
	w.call(http.MethodPost, "/v1/inbox/123e4567-e89b-52d3-a456-426614174000?to=cid", map[string]any{"read": true})
	counted := func(shown, clicked int) func() error {
		return func() error {
			var c2 struct{ Shown, Clicked int }
			if err := w.call(http.MethodGet, "/v1/campaigns/"+c.ID, nil).JSON(&c2); err != nil || c2.Shown != shown || c2.Clicked != clicked {
				return fmt.Errorf("%+v, %w; want %d and %d", c2, err, shown, clicked)
			}
			return nil
		}
	}
	blackbox.Eventually(t, "what was seen and opened is counted", counted(2, 1))
	w.call(http.MethodPost, "/v1/inbox/"+items["cid"]+"?to=cid", map[string]any{"read": true})
	blackbox.Eventually(t, "the third is counted, and nothing else", counted(3, 2))
}
