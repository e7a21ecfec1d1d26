package campaign_test

import (
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
)

func TestTheEndOfARunningCampaignKeepsQuietHours(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	e.endpoints(push.Webhook, 100)
	e.run()
	now := time.Now().UTC().Truncate(time.Minute)
	morning := now.Add(10 * time.Hour)
	spec := hello()
	spec.Rate = 0.5 // 200 s for all, and the quiet hours begin within 60
	spec.Quiet = &campaign.QuietHours{From: now.Add(time.Minute).Format("15:04"), To: morning.Format("15:04"), Timezone: "UTC"}
	id := e.create(spec)
	e.start(id)
	v := e.until(id, "known to end", func(v *campaign.View) bool { return !v.ETA.IsZero() })
	if !v.ETA.After(morning) || v.ETA.After(morning.Add(time.Hour)) {
		t.Errorf("it is expected to end at %s, and its quiet hours end at %s", v.ETA, morning)
	}
}
