package storetest

import (
	"errors"
	"slices"

	"godwit.dev/godwit/internal/campaigns/campaign"
)

// campaignsNeverMeet reads two apps' data through every method that takes an app.
func campaignsNeverMeet(e *campaignEnv) {
	const other = "other"
	mine := e.running()
	numbers := e.hooks(1)
	e.enumerate(mine)
	_, err := e.s.Track(e.Context(), mine.Num, numbers[0], campaign.Clicked, e.clock.Now())
	e.check(err)
	insert := func(app, id string, body byte) *campaign.Campaign {
		c := *mine
		c.ID, c.App, c.State = id, app, campaign.Draft
		if first, err := e.s.Insert(e.Context(), &c, "key", [32]byte{body}); first != nil || err != nil {
			e.Errorf("%s of %s by a key that is new to the app: %+v, %v", id, app, first, err)
		}
		return &c
	}
	theirs, newest := insert(other, "theirs", 1), insert(App, "newest", 2)

	for _, want := range []struct {
		app    string
		cursor int64
		ids    []string
	}{
		{App, 0, []string{newest.ID, mine.ID}},
		{App, theirs.Num, []string{mine.ID}}, // at the end of the other app's page
		{other, 0, []string{theirs.ID}},
		{other, newest.Num, []string{theirs.ID}},
		{other, theirs.Num, nil},
		{"nobody", 0, nil},
	} {
		list, err := e.s.List(e.Context(), want.app, 10, want.cursor)
		e.check(err)
		var ids []string
		for _, c := range list {
			ids = append(ids, c.ID)
		}
		if !slices.Equal(ids, want.ids) {
			e.Errorf("campaigns of %s before %d are %v, want %v", want.app, want.cursor, ids, want.ids)
		}
	}
	for app, id := range map[string]string{App: theirs.ID, other: mine.ID} {
		if _, err := e.s.Get(e.Context(), app, id); !errors.Is(err, campaign.ErrNotFound) {
			e.Errorf("%s reads %s: %v", app, id, err)
		}
		_, err := e.s.Change(e.Context(), app, id, func(c *campaign.Campaign) error {
			e.Errorf("%s may change %s of %s", app, c.ID, c.App)
			return nil
		})
		if !errors.Is(err, campaign.ErrNotFound) {
			e.Errorf("%s changes %s: %v", app, id, err)
		}
	}
	for app, want := range map[string]int{App: 1, other: 0} {
		for _, num := range []int64{0, mine.Num} {
			days, err := e.s.Days(e.Context(), app, num, e.clock.Now(), e.clock.Now())
			e.check(err)
			if len(days) != want {
				e.Errorf("%s has %d days of campaign %d, want %d", app, len(days), num, want)
			}
		}
	}
	for _, app := range []string{other, App} {
		for range 2 {
			e.check(e.s.EnsureLive(e.Context(), app, []string{"ann"}))
		}
		found, err := e.s.EndpointsOf(e.Context(), app, "ann")
		e.check(err)
		if len(found) != 1 || found[0].App != app {
			e.Errorf("ann of %s is reached live at %+v", app, found)
		}
	}
}

// ownersNeverMeet sends deliveries of two apps, and changes the owner of one app.
func ownersNeverMeet(e *campaignEnv) {
	const other = "other"
	theirEpoch, err := e.s.Own(e.Context(), other)
	e.check(err)
	e.hooks(3)
	e.hooksOf(other, 3)
	mine, theirs := e.running(), e.runningOf(other)
	e.enumerate(mine)
	if _, _, err := e.s.Enumerate(e.Context(), theirEpoch, theirs.Num, 10, func(*campaign.Target) campaign.Place { return campaign.Place{Due: e.clock.Now()} }); err != nil {
		e.Fatal(err)
	}
	for app, c := range map[string]*campaign.Campaign{App: mine, other: theirs} {
		busy, err := e.s.Busy(e.Context(), app)
		if e.check(err); len(busy) != 1 || busy[0].ID != c.ID {
			e.Errorf("of %s are busy %v", app, busy)
		}
	}
	claim := func(epoch int64, c *campaign.Campaign) error {
		targets := e.due(c)
		_, err := e.s.Claim(e.Context(), epoch, c.Num, targets[:1], e.clock.Now())
		return err
	}
	e.check(claim(e.epoch, mine))
	e.check(claim(theirEpoch, theirs))

	next, err := e.s.Own(e.Context(), other)
	e.check(err)
	if next <= theirEpoch {
		e.Errorf("epoch %d follows %d", next, theirEpoch)
	}
	if err := claim(theirEpoch, theirs); !errors.Is(err, campaign.ErrStale) {
		e.Errorf("a former owner claims: %v", err)
	}
	if _, err := e.s.Recover(e.Context(), other, theirEpoch, 10, nil, e.clock.Now()); !errors.Is(err, campaign.ErrStale) {
		e.Errorf("a former owner settles what it was sending: %v", err)
	}
	if n, err := e.s.Recover(e.Context(), other, next, 10, nil, e.clock.Now()); n != 1 || err != nil {
		e.Errorf("%d are settled, %v; want the one that the app's owner was sending", n, err)
	}
	e.want(mine, map[campaign.Outcome]int64{campaign.Pending: 2, campaign.Sending: 1})
	e.want(theirs, map[campaign.Outcome]int64{campaign.Pending: 2, campaign.Unknown: 1})
	e.check(claim(e.epoch, mine)) // this app's owner has not changed
	e.check(claim(next, theirs))
	if _, err := e.s.Claim(e.Context(), next, mine.Num, e.due(mine), e.clock.Now()); !errors.Is(err, campaign.ErrStale) {
		e.Errorf("the owner of another app claims: %v", err)
	}
}

// appsWait checks which apps need an owner at each stage of a campaign.
func appsWait(e *campaignEnv) {
	want := func(when string, apps ...string) {
		e.Helper()
		got, err := e.s.Waiting(e.Context())
		e.check(err)
		if slices.Sort(got); !slices.Equal(got, apps) {
			e.Errorf("%s %q wait for an owner, want %q", when, got, apps)
		}
	}
	want("at first")
	numbers := e.hooks(2)
	c := e.running()
	e.runningOf("other")
	want("while two campaigns run", App, "other")
	e.enumerate(c)
	e.claim(c, e.due(c)[:1])
	e.state(c, campaign.Paused)
	want("while a message of one that was paused is being sent", App, "other")
	e.finish(c, campaign.Result{Row: numbers[0], Outcome: campaign.Accepted})
	want("while it is paused", "other")
	e.state(c, campaign.Cancelled)
	want("while what is pending has to be suppressed", App, "other")
	_, err := e.s.Sweep(e.Context(), c.Num, campaign.Sweep{From: campaign.Pending, To: campaign.Suppressed}, 10, e.clock.Now())
	e.check(err)
	want("after that", "other")
}
