package scenario

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/report"
)

// reach measures how soon a push reaches FCM on an idle server. For offline recipients, time counts from the publish's answer; for
// recipients that are online and do not acknowledge, from when the step is due.
func (e *Escalation) reach(ctx context.Context, r *report.Result, run int) error {
	if e.Each == 0 {
		return nil
	}
	p, err := e.beginPushed(ctx, Phones{Devices: 2 * e.Each})
	if err != nil {
		return err
	}
	defer p.close()
	away, silent := prefix(), prefix()
	if err := p.register(ctx, 0, e.Each, away); err != nil {
		return err
	}
	if err := p.register(ctx, e.Each, e.Each, silent); err != nil {
		return err
	}
	if err := p.away(ctx, r, away, e.Each, run); err != nil {
		return err
	}
	_, err = p.Connect(ctx, loadgen.SubscriberConfig{
		Transport: loadgen.WebSocketJSON, Prefix: silent, Count: e.Each, Concurrency: opening, Heartbeat: heartbeat, Spread: true, NoAcks: true,
	}, 1)
	if err != nil {
		return err
	}
	return p.silent(ctx, r, silent, e.Each, e.After, run)
}

func (p *pushed) away(ctx context.Context, r *report.Result, prefix string, n, run int) error {
	late, missing := latency.New(), 0
	for i := range n {
		id := fmt.Sprint(prefix, "away-", i)
		if err := p.escalate(ctx, id, loadgen.RecipientName(prefix, i), time.Hour); err != nil {
			return err
		}
		answered := loadgen.Now()
		if at, ok := p.phones.await(ctx, id, pushPatience); ok {
			late.Record(time.Duration(at - answered)) // a push before the answer counts as no delay
		} else {
			missing++
		}
	}
	tellReach(r, "recipient away", "publish's answer to push", late, missing, run)
	return nil
}

// silentEvery is the interval of publishes to recipients that do not acknowledge.
const silentEvery = 20 * time.Millisecond

// silent measures recipients that do not acknowledge. It counts from when each publish was sent, so the publish's own time is included.
func (p *pushed) silent(ctx context.Context, r *report.Result, prefix string, n int, after time.Duration, run int) error {
	late, missing, err := p.paced(ctx, prefix+"silent-", n, silentEvery, func(ctx context.Context, i int, id string) error {
		return p.escalate(ctx, id, loadgen.RecipientName(prefix, i), after)
	}, after)
	if err != nil {
		return err
	}
	tellReach(r, "recipient online and silent", "due to push", late, missing, run)
	return nil
}

// paced publishes n notifications at fixed intervals, without waiting for earlier ones. It returns the delay of each push, and waits up to
// pushPatience for late ones.
func (p *pushed) paced(ctx context.Context, prefix string, n int, every time.Duration, publish func(context.Context, int, string) error, after time.Duration) (
	late *latency.Histogram, missing int, err error,
) {
	late = latency.New()
	var mu sync.Mutex
	var each sync.WaitGroup
	begun := loadgen.Now() + int64(every)
	for i := range n {
		due := begun + int64(i)*int64(every)
		if err := wait(ctx, time.Duration(due-loadgen.Now())); err != nil {
			return nil, 0, err
		}
		each.Go(func() {
			id := fmt.Sprint(prefix, i)
			failed := publish(ctx, i, id)
			at, ok := int64(0), false
			if failed == nil {
				at, ok = p.phones.await(ctx, id, after+pushPatience)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failed != nil && err == nil:
				err = failed
			case ok:
				late.Record(time.Duration(at - due - int64(after)))
			default:
				missing++
			}
		})
	}
	each.Wait()
	return late, missing, err
}

// campaignTag is the tag of the campaign's audience.
const campaignTag = "news"

// besideRecipients is the number of recipients that get the escalations beside the campaign in turn: each device may get only a limited
// number of messages.
const besideRecipients = 500

// beside measures the delay of escalations while a campaign uses FCM's full rate.
func (e *Escalation) beside(ctx context.Context, r *report.Result, run int) error {
	if e.Campaign == 0 {
		return nil
	}
	p, err := e.beginPushed(ctx, Phones{Devices: besideRecipients + e.Campaign, Cap: e.Cap})
	if err != nil {
		return err
	}
	defer p.close()
	away := prefix()
	if err := p.register(ctx, 0, besideRecipients, away); err != nil {
		return err
	}
	e.Testbed.Say("run %d: registering %d phones", run+1, e.Campaign)
	if err := p.register(ctx, besideRecipients, e.Campaign, "", campaignTag); err != nil {
		return err
	}
	var campaign struct {
		ID     string
		State  string
		Detail string
	}
	err = p.server.Call(ctx, http.MethodPost, "/v1/campaigns", map[string]any{
		"content": map[string]string{"title": "News", "body": "The city centre is closed on Sunday"}, "audience": map[string]any{"channels": []string{"fcm"}, "tags_any": []string{campaignTag}},
	}, &campaign)
	if err != nil {
		return err
	}
	if err := p.server.Call(ctx, http.MethodPost, "/v1/campaigns/"+campaign.ID+"/start", struct{}{}, nil); err != nil {
		return err
	}
	e.Testbed.Say("run %d: the campaign finds its rate for %s", run+1, e.Find)
	if err := wait(ctx, e.Find); err != nil {
		return err
	}
	e.Testbed.Say("run %d: escalations beside the campaign for %s", run+1, e.Beside)
	since := loadgen.Now()
	_, _, deniedBefore := p.phones.asked(since)
	late, missing, err := p.paced(ctx, away+"beside-", int(e.Rate*e.Beside.Seconds()), time.Duration(float64(time.Second)/e.Rate), func(ctx context.Context, i int, id string) error {
		return p.escalate(ctx, id, loadgen.RecipientName(away, i%besideRecipients), time.Hour)
	}, 0)
	if err != nil {
		return err
	}
	seconds := time.Duration(loadgen.Now() - since).Seconds()
	if err := p.server.Call(ctx, http.MethodGet, "/v1/campaigns/"+campaign.ID, struct{}{}, &campaign); err != nil {
		return err
	}
	if campaign.State != "running" {
		r.Note(fmt.Sprintf("the campaign was %s (%s) before the escalations had ended: they did not go beside it all the time", campaign.State, campaign.Detail))
	}
	const group = "beside a campaign"
	tellReach(r, group, "due to push", late, missing, run)
	taken, most, denied := p.phones.asked(since)
	denied -= deniedBefore
	r.Add(group, "FCM took, both together", "/s", float64(taken)/seconds)
	r.Add(group, "FCM took in the second that had most", "", float64(most))
	r.Add(group, "FCM told to come back", "% of all", 100*float64(denied)/float64(max(taken+denied, 1)))
	return nil
}
