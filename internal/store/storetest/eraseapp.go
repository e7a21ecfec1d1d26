package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// AppEraser stores data of apps, and deletes all data of a deleted app.
type AppEraser interface {
	EraseApp(ctx context.Context, app string) error
}

// eraseApp erases an app from a store.
func eraseApp(t *testing.T, store any, app string) {
	t.Helper()
	s, ok := store.(AppEraser)
	if !ok {
		t.Fatalf("%T erases no apps", store)
	}
	if err := s.EraseApp(t.Context(), app); err != nil {
		t.Fatalf("erase app %s: %v", app, err)
	}
}

// gone checks that nothing of an app's campaigns is left.
func (e *campaignEnv) gone(app string, campaigns ...*campaign.Campaign) {
	e.Helper()
	list, err := e.s.List(e.Context(), app, 10, 0)
	if e.check(err); len(list) > 0 {
		e.Errorf("campaigns of %s are left: %+v", app, list)
	}
	for _, c := range campaigns {
		f, err := e.s.Figures(e.Context(), c.Num)
		if e.check(err); f.Total() != 0 || len(e.rows(c)) != 0 {
			e.Errorf("of %s %d deliveries are left, %d are counted", c.ID, len(e.rows(c)), f.Total())
		}
		days, err := e.s.Days(e.Context(), app, c.Num, e.clock.Now(), e.clock.Now())
		if e.check(err); len(days) > 0 {
			e.Errorf("figures of days are left: %+v", days)
		}
	}
	waiting, err := e.s.Waiting(e.Context())
	e.check(err)
	for _, w := range waiting {
		if w == app {
			e.Errorf("%s waits for an owner", app)
		}
	}
}

func erasedAppLeavesNoCampaign(e *campaignEnv) {
	const other = "other"
	numbers := e.hooks(5)
	e.hooksOf(other, 2)
	c, theirs := e.running(), e.runningOf(other)
	e.enumerate(c)
	sending := e.claim(c, e.due(c)[:2])
	e.finish(c, campaign.Result{Row: sending[0].Row, Outcome: campaign.Accepted})
	_, err := e.s.Track(e.Context(), c.Num, numbers[0], campaign.Clicked, e.clock.Now())
	e.check(err)
	e.check(e.s.EnsureLive(e.Context(), App, []string{"ann"}))
	for range 2 { // of which one finds nothing
		eraseApp(e.T, e.s, App)
		e.gone(App, c)
	}
	if found, err := e.s.EndpointsOf(e.Context(), App, "ann"); err != nil || len(found) > 0 {
		e.Errorf("endpoints are left: %+v, %v", found, err)
	}
	e.finish(c, campaign.Result{Row: sending[1].Row, Outcome: campaign.Accepted}) // its answer comes late
	e.gone(App, c)
	if got, err := e.s.Get(e.Context(), other, theirs.ID); err != nil || got.Num != theirs.Num {
		e.Errorf("the other app's campaign: %+v, %v", got, err)
	}

	e.hooks(3) // belongs to a new app with the same name
	next := e.running()
	if n := e.enumerate(next); n != 3 || next.Num == c.Num {
		e.Errorf("campaign %d after %d has %d deliveries, want 3", next.Num, c.Num, n)
	}
}

// appErasedWhileEnumerated erases an app through another store while deliveries of its campaign are written.
func appErasedWhileEnumerated(e *campaignEnv, other CampaignStore) {
	e.hooks(100)
	var made []*campaign.Campaign
	for range 20 {
		c := e.running()
		made = append(made, c)
		var erasing sync.WaitGroup
		var once sync.Once
		_, _, err := e.s.Enumerate(e.Context(), e.epoch, c.Num, 100, func(*campaign.Target) campaign.Place {
			once.Do(func() {
				erasing.Go(func() {
					for done := false; !done; {
						var err error
						if done, err = other.Remove(e.Context(), c.Num, 10); err != nil {
							e.Error(err)
							return
						}
					}
				})
			})
			return campaign.Place{Due: e.clock.Now()}
		})
		erasing.Wait()
		if err != nil && !errors.Is(err, campaign.ErrNotFound) {
			e.Error(err)
		}
	}
	eraseApp(e.T, other, App)
	e.gone(App, made...)
}

// appErasedByTwo erases an app through two stores while its campaign is sent.
func appErasedByTwo(e *campaignEnv, other CampaignStore) {
	e.hooks(200)
	c := e.running()
	e.enumerate(c)
	targets, stores := e.due(c), [2]CampaignStore{e.s, other}
	atOnce(4, 10, func(caller, nth int) {
		if caller < 2 {
			eraseApp(e.T, stores[caller], App)
			return
		}
		part := targets[(caller*10+nth)*2:][:2]
		claimed, err := stores[caller%2].Claim(e.Context(), e.epoch, c.Num, part, e.clock.Now())
		if err != nil {
			e.Errorf("claim: %v", err)
			return
		}
		var results []campaign.Result
		for i := range claimed {
			results = append(results, campaign.Result{Row: claimed[i].Row, Outcome: campaign.Accepted, Channel: claimed[i].Channel})
		}
		if err := stores[caller%2].Finish(e.Context(), e.epoch, c.Num, results, e.clock.Now()); err != nil {
			e.Errorf("finish: %v", err)
		}
	})
	eraseApp(e.T, e.s, App)
	e.gone(App, c)
}

func erasedAppLeavesNoPreference(e *preferenceEnv) {
	limit := preference.Limit{Count: 1, Per: time.Hour}
	for _, app := range []string{App, "other"} {
		e.set(app, "r", noPromo)
		e.begin(app, "r", "promo", 1, limit, true)
	}
	eraseApp(e.T, e.s, App)
	e.want(App, "r", preference.Preferences{})
	e.want("other", "r", noPromo)
	e.begin(App, "r", "promo", 2, limit, true)
	e.begin("other", "r", "promo", 2, limit, false)
}

func erasedAppLeavesNoObject(e *objectEnv) {
	k := key("north", "config")
	for _, app := range []string{App, "other"} {
		e.put(app, k, object.Put{Version: 10, Payload: []byte(app)})
		e.save(objectstore.Save{ID: objectstore.ClientID{App: app, Recipient: "unit-1", Device: "d"}, Keys: []object.Key{k}, Progress: []objectstore.Progress{{Object: k.Hash(), Acked: 1, Sent: 1}}})
	}
	eraseApp(e.T, e.s, App)
	e.both(func() {
		for app, want := range map[string]int{App: 0, "other": 1} {
			items, err := e.s.List(e.Context(), app, "north", "", "", 10)
			if err != nil || len(items) != want {
				e.Errorf("%s has the objects %+v, %v; want %d", app, items, err, want)
			}
			watchers, _, err := e.s.Watchers(e.Context(), app, k, 0, 10)
			if err != nil || len(watchers) != want {
				e.Errorf("%s has the watchers %+v, %v; want %d", app, watchers, err, want)
			}
		}
	})
}

// forgottenRecipientLeavesNoEvent erases a recipient whose events a follower has recently read, and others are not written yet.
func forgottenRecipientLeavesNoEvent(e *eventEnv) {
	e.emit("a", 0, 70)
	e.follow("a", 0, 70, 70)
	e.emit("a", 70, 140)
	l, ok := e.l.(interface {
		ForgetRecipient(ctx context.Context, app, recipient string) error
	})
	if !ok {
		e.Fatalf("%T forgets nobody", e.l)
	}
	if err := l.ForgetRecipient(e.Context(), "a", "driver-3"); err != nil {
		e.Fatal(err)
	}
	for _, ev := range e.follow("a", 0, 120, 140) {
		if ev.To == "driver-3" {
			e.Errorf("an event of the forgotten recipient is read: %+v", ev)
		}
	}
}

func erasedAppLeavesNoEvent(e *eventEnv) {
	for _, app := range []string{"a", "b"} {
		e.emit(app, 0, 50)
		e.follow(app, 0, 50, 50)
	}
	e.emit("b", 50, 70)
	e.emit("a", 50, 70) // not written yet
	eraseApp(e.T, e.l, "a")
	if evs, _, err := e.l.Read(e.Context(), "a", 0, 10, false); err != nil || len(evs) > 0 {
		e.Errorf("%d events of the erased app are left, %v", len(evs), err)
	}
	e.are(e.follow("b", 0, 70, 70), "b", 0, 70)
	e.emit("a", 70, 80) // belongs to a new app with the same name
	e.are(e.follow("a", 0, 10, 10), "a", 70, 10)
}
