package campaign_test

import (
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestEachZoneGetsACampaignAtItsOwnTime(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	zones := []string{"Pacific/Kiritimati", "Europe/Oslo", "America/New_York", "", "Mars/Olympus"}
	ids := e.endpoints(push.Webhook, len(zones), func(i int, ep *audience.Endpoint) {
		if zones[i] != "Mars/Olympus" { // the check of endpoints refuses it
			ep.Timezone = zones[i]
		}
	})
	// It has just passed in Kiritimati, and is hours ahead elsewhere.
	wall := time.Now().UTC().Add(14*time.Hour - time.Minute).Truncate(time.Minute)
	spec := hello()
	spec.Local = &campaign.LocalTime{At: wall.Format("2006-01-02T15:04"), Passed: campaign.AtOnce, Fallback: "Asia/Tokyo"}
	e.run()
	id := e.create(spec)
	v := e.until(id, "sent where it has passed", func(v *campaign.View) bool { return v.Counts[campaign.Accepted] == 1 && v.Enumerated })
	report := e.report(id)
	if last := report[ids[2].String()].Due; v.State != campaign.Running || v.Total() != int64(len(zones)) || !v.ETA.Equal(last) {
		t.Errorf("%s, %d messages, ends at %s, want %s", v.State, v.Total(), v.ETA, last)
	}
	for i, zone := range []string{"", "Europe/Oslo", "America/New_York", "Asia/Tokyo", "Asia/Tokyo"} {
		row := report[ids[i].String()]
		if zone == "" {
			if row.Outcome != campaign.Accepted {
				t.Errorf("Kiritimati: %+v", row)
			}
			continue
		}
		in, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := row.Due.In(in).Format("2006-01-02T15:04"); row.Outcome != campaign.Pending || got != spec.Local.At {
			t.Errorf("%s: %s, due at %s, want %s", zone, row.Outcome, got, spec.Local.At)
		}
	}
}

func TestALocalTimeIsTheCampaignsTime(t *testing.T) {
	e := newEnv(t, senders{push.Webhook: &provider{}})
	e.endpoints(push.Webhook, 1)
	spec := hello()
	wall := time.Now().UTC().Add(48 * time.Hour).Truncate(time.Minute)
	spec.Local = &campaign.LocalTime{At: wall.Format("2006-01-02T15:04")}
	id := e.create(spec)
	v := e.get(id)
	if v.State != campaign.Scheduled || !v.SendAt.Equal(wall.Add(-14*time.Hour)) {
		t.Errorf("%s, begins at %s", v.State, v.SendAt)
	}
	if _, err := e.svc.Start(t.Context(), app, id, time.Now().Add(time.Hour)); err == nil {
		t.Error("it has two times")
	}
	if v, err := e.svc.Clone(t.Context(), app, id, "", "", [32]byte{}); err != nil || v.State != campaign.Draft || v.Spec.Local != nil {
		t.Errorf("its clone: %v", err)
	}
}

func TestAScheduledCampaignSendsNothingAfterItsEnd(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	e.endpoints(push.Webhook, 3)
	spec := hello()
	spec.Expires = time.Now().Add(2 * time.Second)
	v, err := e.svc.Create(t.Context(), app, spec, time.Now().Add(time.Second), "", [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	if !eventually.Holds(func() bool { return time.Now().After(spec.Expires) }) {
		t.Fatal("time stands still")
	}
	e.run() // as after an outage
	v = e.untilState(v.ID, campaign.Completed)
	e.wantCounts(v, map[campaign.Outcome]int64{campaign.Expired: 3})
	if p.total() != 0 {
		t.Errorf("%d were sent", p.total())
	}
}
