package campaign_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/inbox"
)

// TestReactionsThatWaitInVainAreCounted: while the store does not keep up, reactions in inboxes are lost to campaigns, and a metric says how many.
func TestReactionsThatWaitInVainAreCounted(t *testing.T) {
	s := campaign.New(campaign.Config{Categories: func(string) map[string]preference.Category {
		return map[string]preference.Category{"news": {Inbox: true}}
	}})
	seen := []inbox.Change{{App: app, Recipient: "ann", Seen: []inbox.Ref{{ID: "cc52ad6c-0f49-5a6f-9d9c-2f2e2f4b3a10", Category: "news"}}}}
	const waits, lost = 4096, 3
	for range waits + lost {
		s.Inboxes(seen)
	}
	all := make(chan prometheus.Metric, 64)
	s.Collect(all)
	close(all)
	told := 0.0
	for m := range all {
		var read dto.Metric
		if err := m.Write(&read); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(m.Desc().String(), "inbox_reactions_dropped") {
			told = read.GetCounter().GetValue()
		}
	}
	if told != lost {
		t.Errorf("%v are said to be lost, want %d", told, lost)
	}
}
