package campaign_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
)

func TestACloneHasTheMessageAsItWasSentAndNoTimes(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}, push.Telegram: &provider{}})
	e.endpoints(push.Telegram, 2)
	e.run()
	spec := hello()
	spec.Name, spec.Rate, spec.Expires = "Spring", 50, time.Now().Add(time.Hour)
	spec.Audience.Channels = []push.Channel{push.Telegram}
	id := e.create(spec)
	e.start(id)
	e.untilState(id, campaign.Completed)
	if _, err := e.svc.Correct(t.Context(), app, id, campaign.Correction{Content: campaign.Content{Content: push.Content{Title: "Corrected"}}}); err != nil {
		t.Fatal(err)
	}
	e.untilState(id, campaign.Completed)
	v, err := e.svc.Clone(t.Context(), app, id, "", "", [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	s := v.Spec
	if v.State != campaign.Draft || s.Name != "Copy of Spring" || s.Correction != nil || !s.Expires.IsZero() || s.Content.Title != spec.Content.Title || s.Rate != 50 || v.Total() != 0 {
		t.Errorf("the clone is %s %+v", v.State, s)
	}
	again, err := e.svc.Clone(t.Context(), app, v.ID, "", "", [32]byte{})
	if err != nil || again.Spec.Name != "Copy of Spring" {
		t.Errorf("a clone of the clone is called %q, %v", again.Spec.Name, err)
	}
	long := hello()
	long.Name = strings.Repeat("ä", campaign.MaxName)
	if v, err = e.svc.Clone(t.Context(), app, e.create(long), "", "", [32]byte{}); err != nil || utf8.RuneCountInString(v.Spec.Name) != campaign.MaxName {
		t.Errorf("the clone of a long name: %v", err)
	}
}
