package storetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// campaignEnv is one test's store, with the suite's helpers.
type campaignEnv struct {
	*testing.T
	clock  *testclock.Clock
	s      CampaignStore
	reopen func() CampaignStore
	epoch  int64
	made   int
}

func (e *campaignEnv) check(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// hooks registers n endpoints and returns their numbers.
func (e *campaignEnv) hooks(n int) (numbers []int64) {
	e.Helper()
	return e.hooksOf(App, n)
}

func (e *campaignEnv) hooksOf(app string, n int) (numbers []int64) {
	e.Helper()
	regs := make([]audience.Registration, n)
	for i := range regs {
		e.made++
		ep := audience.Endpoint{
			ID: audience.NewID(e.clock.Now()), App: app, Channel: push.Webhook,
			Address: json.RawMessage(fmt.Sprintf(`{"url":"https://example.org/%d"}`, e.made)),
		}
		e.check(ep.Check())
		regs[i] = audience.Registration{Endpoint: ep, Trusted: true}
	}
	done, err := e.s.Register(e.Context(), app, regs)
	e.check(err)
	for _, d := range done {
		e.check(d.Err)
		numbers = append(numbers, d.Endpoint.Number)
	}
	return numbers
}

// running creates and starts a campaign over webhooks.
func (e *campaignEnv) running() *campaign.Campaign {
	e.Helper()
	return e.runningOf(App)
}

func (e *campaignEnv) runningOf(app string) *campaign.Campaign {
	e.Helper()
	e.made++
	c := &campaign.Campaign{
		ID: fmt.Sprintf("campaign-%d", e.made), App: app, State: campaign.Running, Channels: []push.Channel{push.Webhook},
		CreatedAt: e.clock.Now(), StartedAt: e.clock.Now(),
		Spec: campaign.Spec{Name: "News", Content: campaign.Content{Content: push.Content{Title: "Hi"}}},
	}
	_, err := e.s.Insert(e.Context(), c, "", [32]byte{})
	e.check(err)
	return c
}

func (e *campaignEnv) state(c *campaign.Campaign, s campaign.State) {
	e.Helper()
	_, err := e.s.Change(e.Context(), App, c.ID, func(c *campaign.Campaign) error { c.State = s; return nil })
	e.check(err)
}

// enumerate writes all deliveries, in steps.
func (e *campaignEnv) enumerate(c *campaign.Campaign) (total int) {
	e.Helper()
	for {
		n, done, err := e.s.Enumerate(e.Context(), e.epoch, c.Num, 3, func(*campaign.Target) campaign.Place { return campaign.Place{Due: e.clock.Now()} })
		e.check(err)
		if total += n; done {
			return total
		}
	}
}

func (e *campaignEnv) due(c *campaign.Campaign) []campaign.Target {
	e.Helper()
	list, err := e.s.Due(e.Context(), c.Num, push.Webhook, e.clock.Now(), 100)
	e.check(err)
	return list
}

func (e *campaignEnv) claim(c *campaign.Campaign, targets []campaign.Target) []campaign.Target {
	e.Helper()
	got, err := e.s.Claim(e.Context(), e.epoch, c.Num, targets, e.clock.Now())
	e.check(err)
	return got
}

func (e *campaignEnv) finish(c *campaign.Campaign, results ...campaign.Result) {
	e.Helper()
	for i := range results {
		results[i].Channel = push.Webhook
	}
	e.check(e.s.Finish(e.Context(), e.epoch, c.Num, results, e.clock.Now()))
}

// want compares the counters and the rows with the expected numbers.
func (e *campaignEnv) want(c *campaign.Campaign, want map[campaign.Outcome]int64) {
	e.Helper()
	f, err := e.s.Figures(e.Context(), c.Num)
	e.check(err)
	rows := map[campaign.Outcome]int64{}
	for _, d := range e.rows(c) {
		rows[d.Outcome]++
	}
	for o := campaign.Pending; o <= campaign.TakenBack; o++ {
		if f.Counts[o] != want[o] || rows[o] != want[o] {
			e.Errorf("%s: %d are counted and %d rows say so, want %d", o, f.Counts[o], rows[o], want[o])
		}
	}
}

func (e *campaignEnv) rows(c *campaign.Campaign) []campaign.Delivery {
	e.Helper()
	list, _, err := e.s.Deliveries(e.Context(), c.Num, nil, 1000, 0)
	e.check(err)
	return list
}

func rowsOf(targets []campaign.Target) (rows []int64) {
	for i := range targets {
		rows = append(rows, targets[i].Row)
	}
	return rows
}
