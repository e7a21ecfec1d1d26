package storetest

import (
	"slices"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
)

// grouped writes deliveries whose groups repeat: A, B, the rest, which waits, and nobody's.
func (e *campaignEnv) grouped(c *campaign.Campaign) {
	e.Helper()
	place := func(t *campaign.Target) campaign.Place {
		p := campaign.Place{Group: campaign.Group(t.Row % 4), Due: e.clock.Now()} // below 4
		if p.Waits = p.Group == campaign.Rest; p.Waits {
			p.Due, p.After = time.Time{}, time.Duration(t.Row)*time.Second
		}
		return p
	}
	for done := false; !done; {
		var err error
		_, done, err = e.s.Enumerate(e.Context(), e.epoch, c.Num, 3, place)
		e.check(err)
	}
}

// wantGroups compares the counters of groups with the rows.
func (e *campaignEnv) wantGroups(c *campaign.Campaign) {
	e.Helper()
	f, err := e.s.Figures(e.Context(), c.Num)
	e.check(err)
	var rows [campaign.Groups]campaign.GroupFigures
	for _, d := range e.rows(c) {
		g := &rows[d.Group]
		if g.Counts == nil {
			g.Counts = map[campaign.Outcome]int64{}
		}
		o := d.Outcome
		if o == campaign.Sending {
			o = campaign.Pending
		}
		g.Counts[o]++
		if d.Shown {
			g.Shown++
		}
		if d.Clicked {
			g.Clicked++
		}
	}
	for g := campaign.GroupA; g < campaign.Groups; g++ {
		for o := campaign.Pending; o <= campaign.TakenBack; o++ {
			if f.Groups[g].Counts[o] != rows[g].Counts[o] {
				e.Errorf("group %d: %d %s are counted, and %d rows say so", g, f.Groups[g].Counts[o], o, rows[g].Counts[o])
			}
		}
		if f.Groups[g].Shown != rows[g].Shown || f.Groups[g].Clicked != rows[g].Clicked {
			e.Errorf("group %d: %+v are counted, and the rows say %+v", g, f.Groups[g], rows[g])
		}
	}
	if f.Groups[campaign.Whole].Total() != 0 {
		e.Errorf("those without a group are counted as one: %+v", f.Groups[campaign.Whole])
	}
}

func groupsCounted(e *campaignEnv) {
	e.hooks(40)
	c := e.running()
	e.grouped(c)
	e.wantGroups(c)
	list := e.due(c)
	for i := range list {
		if want := campaign.Group(list[i].Row % 4); campaign.Group(list[i].Group) != want || want == campaign.Rest { // below 4
			e.Errorf("row %d is due in group %d", list[i].Row, list[i].Group)
		}
	}
	claimed := e.claim(c, list)
	e.wantGroups(c)
	outcomes := []campaign.Outcome{campaign.Accepted, campaign.Accepted, campaign.Unknown, campaign.Refused, campaign.Pending}
	var results []campaign.Result
	for i := range claimed[:20] {
		results = append(results, campaign.Result{Row: claimed[i].Row, Outcome: outcomes[i%len(outcomes)], Due: e.clock.Now(), Attempts: 1})
	}
	e.finish(c, results...)
	e.wantGroups(c)
	for _, row := range rowsOf(claimed[:10]) {
		for _, what := range []campaign.Reaction{campaign.Shown, campaign.Clicked, campaign.Clicked} {
			_, err := e.s.Track(e.Context(), c.Num, row, what, e.clock.Now())
			e.check(err)
		}
	}
	e.wantGroups(c)
	epoch, err := e.s.Own(e.Context(), App)
	e.check(err)
	_, err = e.s.Recover(e.Context(), App, epoch, 100, nil, e.clock.Now())
	e.check(err)
	e.epoch = epoch
	e.wantGroups(c)
	for _, sw := range []campaign.Sweep{{From: campaign.Unknown, To: campaign.Pending}, {From: campaign.Pending, To: campaign.Suppressed, Detail: "cancelled"}} {
		_, err = e.s.Sweep(e.Context(), c.Num, sw, 100, e.clock.Now())
		e.check(err)
		e.wantGroups(c)
	}
	sent, _, err := e.s.Recallable(e.Context(), c.Num, 0, 100)
	e.check(err)
	var recalled []campaign.RecallResult
	for i := range sent {
		recalled = append(recalled, campaign.RecallResult{Row: sent[i].Row, Channel: push.Webhook, Done: i%2 == 0, Detail: "no"})
	}
	e.check(e.s.FinishRecall(e.Context(), e.epoch, c.Num, recalled, 0, e.clock.Now()))
	e.wantGroups(c)
}

func restWaits(e *campaignEnv) {
	e.hooks(40)
	c, other := e.running(), e.running()
	e.grouped(c)
	e.grouped(other)
	untried := func(want bool) {
		e.Helper()
		if got, err := e.s.Untried(e.Context(), c.Num); got != want || err != nil {
			e.Errorf("untried: %t, %v", got, err)
		}
	}
	untried(true)
	var results []campaign.Result
	claimed := e.claim(c, e.due(c))
	for i := range claimed {
		r := campaign.Result{Row: claimed[i].Row, Outcome: campaign.Accepted}
		switch i {
		case 0: // it is tried again
			r.Outcome, r.Due, r.Attempts = campaign.Pending, e.clock.Now().Add(time.Hour), 1
		case 1:
			r.Outcome, r.Held = campaign.Pending, true
		}
		results = append(results, r)
	}
	untried(false)
	e.finish(c, results...)
	untried(false)
	if at, ok, err := e.s.NextDue(e.Context(), c.Num, push.Webhook); !ok || !at.Equal(e.clock.Now().Add(time.Hour).Truncate(time.Millisecond)) || err != nil {
		e.Errorf("the next one is due at %s, %t, %v", at, ok, err)
	}
	if at, ok, err := e.s.LastDue(e.Context(), c.Num, push.Webhook); !ok || !at.Equal(e.clock.Now().Add(time.Hour).Truncate(time.Millisecond)) || err != nil {
		e.Errorf("the last one before the decision is due at %s, %t, %v", at, ok, err)
	}
	if n, err := e.s.Sweep(e.Context(), c.Num, campaign.Sweep{From: campaign.Pending, Held: true, To: campaign.Pending, Due: e.clock.Now()}, 100, e.clock.Now()); n != 1 || err != nil {
		e.Errorf("%d were held, %v", n, err)
	}
	waiting := slices.DeleteFunc(e.rows(c), func(d campaign.Delivery) bool { return !d.Waits })
	e.s = e.reopen()
	at := e.clock.Now().Add(time.Minute)
	total := 0
	for {
		n, err := e.s.Release(e.Context(), c.Num, at, 3)
		e.check(err)
		if total += n; n == 0 {
			break
		}
	}
	if total != len(waiting) || total == 0 {
		e.Errorf("%d were released of %d", total, len(waiting))
	}
	for _, d := range e.rows(c) {
		want := at.Add(time.Duration(d.Row) * time.Second).Truncate(time.Millisecond)
		if d.Waits || d.Group == campaign.Rest && !d.Due.Equal(want) {
			e.Errorf("row %d is due at %s, want %s", d.Row, d.Due, want)
		}
	}
	if rows := slices.DeleteFunc(e.rows(other), func(d campaign.Delivery) bool { return !d.Waits }); len(rows) != len(waiting) {
		e.Errorf("%d of another campaign wait, want %d", len(rows), len(waiting))
	}
}
