package storetest

import (
	"fmt"
	"slices"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
)

// countedByPerson: a limit counts deliveries to all endpoints of a person, in the campaigns it names, since a time.
func countedByPerson(e *campaignEnv) {
	var regs []audience.Registration
	for i, who := range []string{"ada", "ada", "bob", ""} {
		ep := audience.Endpoint{ID: audience.NewID(e.clock.Now()), App: App, Channel: push.Webhook, Recipient: who, Address: []byte(fmt.Sprintf(`{"url":"https://example.org/p%d"}`, i))}
		e.check(ep.Check())
		regs = append(regs, audience.Registration{Endpoint: ep, Trusted: true})
	}
	_, err := e.s.Register(e.Context(), App, regs)
	e.check(err)
	first, second, other := e.running(), e.running(), e.running()
	var at []time.Time
	reach := func(c *campaign.Campaign, outcomes ...campaign.Outcome) {
		e.clock.Advance(time.Minute)
		e.enumerate(c)
		targets := e.claim(c, e.due(c))
		for i, o := range outcomes {
			if o != campaign.Sending {
				e.finish(c, campaign.Result{Row: targets[i].Row, Outcome: o, Due: e.clock.Now().Add(time.Hour)})
			}
		}
		at = append(at, e.clock.Now())
	}
	begun := e.clock.Now()
	reach(first, campaign.Refused, campaign.Accepted, campaign.Unknown, campaign.Sending)
	reach(second, campaign.Accepted, campaign.Accepted, campaign.Pending, campaign.Expired)
	reach(other, campaign.Accepted, campaign.Accepted, campaign.Accepted, campaign.Accepted)

	third := e.running()
	e.enumerate(third)
	targets := e.due(third)
	count := func(since time.Time, want ...[]time.Time) {
		e.Helper()
		got, err := e.s.Got(e.Context(), App, []int64{first.Num, second.Num}, targets, since)
		e.check(err)
		if !slices.EqualFunc(got, want, slices.Equal) {
			e.Errorf("since %s: %v, want %v", since, got, want)
		}
	}
	both := []time.Time{at[1], at[0]}
	count(begun, both, both, at[:1], at[:1])
	count(at[0], at[1:2], at[1:2], nil, nil)
	got, err := e.s.Got(e.Context(), "another-app", []int64{first.Num}, targets[1:2], begun)
	e.check(err)
	if !slices.EqualFunc(got, [][]time.Time{at[:1]}, slices.Equal) { // the row alone
		e.Errorf("with another app's recipients: %v", got)
	}
}

// reportedByPerson: the deliveries to one person are found without reading those to others.
func reportedByPerson(e *campaignEnv) {
	c := e.running()
	for i, who := range []string{"ada", "bob", "ada", ""} {
		ep := audience.Endpoint{ID: audience.NewID(e.clock.Now()), App: App, Channel: push.Webhook, Recipient: who, Address: []byte(fmt.Sprintf(`{"url":"https://example.org/r%d"}`, i))}
		e.check(ep.Check())
		_, err := e.s.Register(e.Context(), App, []audience.Registration{{Endpoint: ep, Trusted: true}})
		e.check(err)
	}
	e.enumerate(c)
	for who, want := range map[string]int{"ada": 2, "bob": 1, "eve": 0, "": 0} {
		list, err := e.s.DeliveriesTo(e.Context(), App, c.Num, who)
		e.check(err)
		if len(list) != want {
			e.Errorf("%q has %d deliveries, want %d", who, len(list), want)
		}
		for _, d := range list {
			if d.Recipient != who || d.Outcome != campaign.Pending || d.Endpoint == "" {
				e.Errorf("of %q: %+v", who, d)
			}
		}
	}
}

// startedSince: campaigns that ended before the period, or never started, cannot count.
func startedSince(e *campaignEnv) {
	since := e.clock.Now()
	e.clock.Advance(time.Minute)
	running, ended, draft := e.running(), e.running(), e.running()
	for c, change := range map[*campaign.Campaign]func(*campaign.Campaign){
		ended: func(c *campaign.Campaign) { c.State, c.FinishedAt = campaign.Completed, e.clock.Now() },
		draft: func(c *campaign.Campaign) { c.State, c.StartedAt = campaign.Draft, time.Time{} },
	} {
		_, err := e.s.Change(e.Context(), App, c.ID, func(c *campaign.Campaign) error { change(c); return nil })
		e.check(err)
	}
	e.runningOf("another-app")
	for at, want := range map[time.Time][]int64{since: {running.Num, ended.Num}, e.clock.Now(): {running.Num}} {
		list, err := e.s.Since(e.Context(), App, at)
		e.check(err)
		var got []int64
		for _, c := range list {
			got = append(got, c.Num)
		}
		if !slices.Equal(got, want) {
			e.Errorf("since %s: %v, want %v", at, got, want)
		}
	}
}

// unbegun: campaigns that have begun, that ended before, and those of other apps are not among them.
func unbegun(e *campaignEnv) {
	want := map[string]bool{}
	for _, state := range campaign.States {
		for _, started := range []time.Time{{}, e.clock.Now()} {
			c := e.running()
			_, err := e.s.Change(e.Context(), App, c.ID, func(c *campaign.Campaign) error {
				c.State, c.StartedAt = state, started
				c.Spec.Segment = &campaign.Segment{Name: "vip", Where: "vip = true", And: string(state)}
				return nil
			})
			e.check(err)
			if started.IsZero() && (state == campaign.Draft || state == campaign.Scheduled || state == campaign.Paused) {
				want[c.ID] = true
			}
		}
	}
	other := e.runningOf("another-app")
	_, err := e.s.Change(e.Context(), "another-app", other.ID, func(c *campaign.Campaign) error { c.State, c.StartedAt = campaign.Draft, time.Time{}; return nil })
	e.check(err)
	list, err := e.s.Unbegun(e.Context(), App)
	e.check(err)
	for _, c := range list {
		if g := c.Spec.Segment; !want[c.ID] || g == nil || g.Name != "vip" || g.Where != "vip = true" || g.And != string(c.State) {
			e.Errorf("listed is %s, %s, started %s, with %+v", c.ID, c.State, c.StartedAt, g)
		}
	}
	if len(list) != len(want) {
		e.Errorf("%d are listed, want %d", len(list), len(want))
	}
}
