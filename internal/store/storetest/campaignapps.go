package storetest

import (
	"errors"
	"slices"

	"godwit.dev/godwit/internal/campaign"
)

// campaignsNeverMeet looks at two apps through every method that takes one.
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
		{App, theirs.Num, []string{mine.ID}}, // where the other app's page ended
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
