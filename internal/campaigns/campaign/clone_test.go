package campaign_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/cluster/setting"
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

func TestADraftIsKeptAsFarAsItIsWritten(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	v, err := e.svc.Keep(t.Context(), app, "", campaign.Spec{Name: "Later"}, at, setting.Match{}, "key", [32]byte{1})
	if err != nil || v.State != campaign.Draft || !v.SendAt.Equal(at) || !v.Spec.Unwritten() {
		t.Fatalf("%+v, %v", v, err)
	}
	if again, err := e.svc.Keep(t.Context(), app, "", campaign.Spec{Name: "Later"}, at, setting.Match{}, "key", [32]byte{1}); err != nil || again.ID != v.ID || !again.Duplicate {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := e.svc.Start(t.Context(), app, v.ID, time.Time{}); err == nil {
		t.Error("a campaign that says nothing is started")
	}
	if _, err := e.svc.Keep(t.Context(), app, v.ID, campaign.Spec{Rate: -1}, time.Time{}, setting.Match{}, "", [32]byte{}); err == nil {
		t.Error("a draft has a rate that cannot be")
	}
	if v, err = e.svc.Keep(t.Context(), app, v.ID, hello(), at, setting.Match{}, "", [32]byte{}); err != nil || v.Spec.Unwritten() || v.State != campaign.Draft {
		t.Fatalf("written: %+v, %v", v, err)
	}
	if v, err = e.svc.Start(t.Context(), app, v.ID, time.Time{}); err != nil || v.State != campaign.Scheduled || !v.SendAt.Equal(at) {
		t.Fatalf("started: %+v, %v", v, err)
	}
	if v, err = e.svc.Keep(t.Context(), app, v.ID, hello(), time.Time{}, setting.Match{}, "", [32]byte{}); err != nil || v.State != campaign.Draft || !v.SendAt.IsZero() {
		t.Errorf("back to a draft: %+v, %v", v, err)
	}
	e.start(v.ID)
	if _, err := e.svc.Keep(t.Context(), app, v.ID, hello(), time.Time{}, setting.Match{}, "", [32]byte{}); err == nil {
		t.Error("a campaign that runs becomes a draft")
	}
}
