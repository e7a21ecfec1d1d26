package campaign_test

import (
	"errors"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
)

func TestPauseStopsAndResumeGoesOn(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	ids := e.endpoints(push.Webhook, 100) // more than the 64 that a channel has in flight at most
	release := p.holdBack(11)
	defer release()
	e.run()
	id := e.create(hello())
	e.start(id)
	e.until(id, "at work", func(v *campaign.View) bool { return v.Counts[campaign.Accepted] > 10 })
	if _, err := e.svc.Pause(t.Context(), app, id); err != nil {
		t.Fatal(err)
	}
	release()
	still := e.until(id, "still", func(v *campaign.View) bool { return v.Counts[campaign.Sending] == 0 })
	other := e.create(hello()) // another campaign to the same endpoints: it gives the paused one time to send, if it wrongly did
	e.start(other)
	e.untilState(other, campaign.Completed)
	if before, after := still.Counts[campaign.Accepted], e.get(id).Counts[campaign.Accepted]; after != before || after >= 100 {
		t.Errorf("%d were sent when it was paused, %d some time later", before, after)
	}
	if _, err := e.svc.Resume(t.Context(), app, id); err != nil {
		t.Fatal(err)
	}
	v := e.untilState(id, campaign.Completed)
	e.wantCounts(v, map[campaign.Outcome]int64{campaign.Accepted: 100})
	for _, ep := range ids {
		if n := len(p.requests(ep.String())); n != 2 {
			t.Errorf("%s got %d messages of two campaigns", ep, n)
		}
	}
}

func TestCancelSuppressesWhatIsPending(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	e.endpoints(push.Webhook, 700) // more than one transaction suppresses; at most 64 are in flight
	release := p.holdBack(6)
	defer release()
	e.run()
	id := e.create(hello())
	e.start(id)
	e.until(id, "at work", func(v *campaign.View) bool { return v.Counts[campaign.Accepted] > 5 && v.Enumerated })
	if _, err := e.svc.Cancel(t.Context(), app, id); err != nil {
		t.Fatal(err)
	}
	release()
	v := e.until(id, "wound up", func(v *campaign.View) bool { return v.Open() == 0 })
	if v.State != campaign.Cancelled || v.Counts[campaign.Accepted]+v.Counts[campaign.Suppressed] != 700 || v.Counts[campaign.Suppressed] < 600 {
		t.Errorf("cancelled: %s, %v", v.State, v.Counts)
	}
	for _, d := range e.report(id) {
		if d.Outcome == campaign.Suppressed && d.Detail != "cancelled" {
			t.Fatalf("suppressed for %q", d.Detail)
		}
	}
	var state *campaign.StateError
	if _, err := e.svc.Start(t.Context(), app, id, time.Time{}); !errors.As(err, &state) {
		t.Errorf("a cancelled campaign was started: %v", err)
	}
}

func TestRecallTakesBackWhatItCanAndSaysWhatItCannot(t *testing.T) {
	p := &provider{}
	e := newEnv(t, senders{push.Webhook: p})
	ids := e.endpoints(push.Webhook, 250)
	p.recall = func(s push.Sent) error {
		if s.Request.Endpoint == ids[7].String() {
			return &push.PermanentError{Reason: "it is more than 48 hours old"}
		}
		return nil
	}
	e.run()
	id := e.create(hello())
	e.start(id)
	e.untilState(id, campaign.Completed)
	if _, err := e.svc.Recall(t.Context(), app, id); err != nil {
		t.Fatal(err)
	}
	v := e.untilState(id, campaign.RecallDone)
	e.wantCounts(v, map[campaign.Outcome]int64{campaign.TakenBack: 249, campaign.Accepted: 1})
	if d := e.report(id)[ids[7].String()]; d.Recall != "it is more than 48 hours old" || v.NotRecalled != 1 {
		t.Errorf("what could not be taken back: %+v, %d of them", d, v.NotRecalled)
	}
	p.mu.Lock()
	first := p.taken[0]
	p.mu.Unlock()
	if first.ExternalID != "m-"+first.Request.Endpoint || first.Request.ID != campaign.DeliveryID(id, first.Request.Endpoint) || first.At.IsZero() {
		t.Errorf("the sender was told %+v", first)
	}
	p.mu.Lock()
	p.recall = nil
	p.mu.Unlock()
	if _, err := e.svc.Recall(t.Context(), app, id); err != nil {
		t.Fatal(err)
	}
	v = e.until(id, "recalled once more", func(v *campaign.View) bool {
		return v.State == campaign.RecallDone && v.Counts[campaign.TakenBack] == 250
	})
	if v.NotRecalled != 0 {
		t.Errorf("%d count as not recalled", v.NotRecalled)
	}
}
