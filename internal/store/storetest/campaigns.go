package storetest

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// CampaignStore is a store of campaigns under test; the suite creates its endpoints.
type CampaignStore interface {
	campaign.Store
	EndpointStore
}

// OpenCampaigns opens an empty store for one test: see OpenEndpoints.
type OpenCampaigns func(t *testing.T, now func() time.Time) (s CampaignStore, reopen func() CampaignStore)

// RunCampaigns runs the conformance suite of campaign stores.
func RunCampaigns(t *testing.T, open OpenCampaigns) {
	t.Helper()
	for name, run := range map[string]func(e *campaignEnv){
		"ACampaignIsKeptAsItWasMade":                   campaignIsKept,
		"ARepeatedRequestFindsTheFirstOnesCampaign":    idempotentInsert,
		"EveryEndpointHasOneDelivery":                  everyEndpointOnce,
		"OnlyARunningCampaignIsEnumeratedAndClaimed":   onlyRunning,
		"AClaimIsGivenOnce":                            claimedOnce,
		"AFormerOwnerChangesNothing":                   formerOwner,
		"WhatWasBeingSentIsSettledByTheNextOwner":      recovered,
		"OutcomesDisableAndMoveEndpoints":              outcomesReachEndpoints,
		"DeliveriesAreListedByOutcomeInShortPages":     listedByOutcome,
		"WhatIsPutOffComesDueAtItsTime":                putOff,
		"WhatIsHeldWaitsForAPerson":                    heldBack,
		"WhatMayHaveArrivedIsNotSuppressed":            sweptHonestly,
		"ARecallWalksOverWhatWasSent":                  recallWalk,
		"ACorrectionCountsWhatItChanged":               correctionWalk,
		"AReactionCountsOnce":                          reactions,
		"ADeletedCampaignLeavesNothing":                removed,
		"ADeliveryOutlivesItsEndpointAndSaysItHasLeft": leftEndpoint,
		"AnErasedAppLeavesNothing":                     erasedAppLeavesNoCampaign,
		"AppsNeverMeet":                                campaignsNeverMeet,
		"ALimitCountsByPerson":                         countedByPerson,
		"DeliveriesAreListedByPerson":                  reportedByPerson,
		"OnlyStartedCampaignsCountForALimit":           startedSince,
		"CampaignsThatHaveNotBegunAreListed":           unbegun,
		"OwnersOfTwoAppsDoNotMeet":                     ownersNeverMeet,
		"AppsWaitForAnOwnerAsLongAsThereIsSomething":   appsWait,
		"GroupsAreCountedApart":                        groupsCounted,
		"TheRestWaitsForItsRelease":                    restWaits,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &campaignEnv{T: t, clock: testclock.New()}
			e.s, e.reopen = open(t, e.clock.Now)
			var err error
			e.epoch, err = e.s.Own(t.Context(), App)
			e.check(err)
			run(e)
		})
	}
}

func campaignIsKept(e *campaignEnv) {
	c := e.running()
	e.s = e.reopen()
	got, err := e.s.Get(e.Context(), App, c.ID)
	e.check(err)
	if got.Spec.Name != "News" || got.State != campaign.Running || !got.CreatedAt.Equal(c.CreatedAt.Truncate(time.Millisecond)) || got.Num != c.Num {
		e.Errorf("%+v", got)
	}
	if _, err := e.s.Get(e.Context(), "other", c.ID); !errors.Is(err, campaign.ErrNotFound) {
		e.Errorf("another app reads it: %v", err)
	}
	busy, err := e.s.Busy(e.Context(), App)
	e.check(err)
	if len(busy) != 1 || busy[0].ID != c.ID {
		e.Errorf("busy: %v", busy)
	}
	refused := errors.New("no")
	if _, err := e.s.Change(e.Context(), App, c.ID, func(c *campaign.Campaign) error { c.Detail = "changed"; return refused }); !errors.Is(err, refused) {
		e.Errorf("a change that was refused: %v", err)
	}
	if got, _ := e.s.Get(e.Context(), App, c.ID); got.Detail != "" {
		e.Error("a change that was refused was made")
	}
}

func idempotentInsert(e *campaignEnv) {
	insert := func(id string, body byte) (*campaign.Campaign, error) {
		return e.s.Insert(e.Context(), &campaign.Campaign{ID: id, App: App, State: campaign.Draft, CreatedAt: e.clock.Now()}, "key", [32]byte{body})
	}
	first, err := insert("a", 1)
	e.check(err)
	again, err := insert("b", 1)
	e.check(err)
	if first != nil || again == nil || again.ID != "a" {
		e.Errorf("first %v, again %v", first, again)
	}
	made := func(idem string, body byte) (id string, err error) {
		c, err := e.s.Made(e.Context(), App, idem, [32]byte{body})
		if c != nil {
			id = c.ID
		}
		return id, err
	}
	if id, err := made("key", 1); id != "a" || err != nil {
		e.Errorf("the key made %q, %v", id, err)
	}
	if id, err := made("other", 1); id != "" || err != nil {
		e.Errorf("another key made %q, %v", id, err)
	}
	if _, err := made("key", 2); !errors.Is(err, campaign.ErrReused) {
		e.Errorf("the key with another body: %v", err)
	}
	if _, err := insert("c", 2); !errors.Is(err, campaign.ErrReused) {
		e.Errorf("another body: %v", err)
	}
	if _, err := e.s.Insert(e.Context(), &campaign.Campaign{ID: "a", App: App, State: campaign.Draft, CreatedAt: e.clock.Now()}, "", [32]byte{}); err == nil {
		e.Error("two campaigns have one id")
	}
	e.clock.Advance(25 * time.Hour)
	if id, err := made("key", 1); id != "" || err != nil {
		e.Errorf("a day later the key made %q, %v", id, err)
	}
	if late, err := insert("d", 2); err != nil || late != nil {
		e.Errorf("a day later: %v, %v", late, err)
	}
}

func everyEndpointOnce(e *campaignEnv) {
	numbers := e.hooks(7)
	c := e.running()
	if n, done, err := e.s.Enumerate(e.Context(), e.epoch, c.Num, 3, func(*campaign.Target) campaign.Place { return campaign.Place{Due: e.clock.Now()} }); n != 3 || done || err != nil {
		e.Errorf("the first step: %d, %t, %v", n, done, err)
	}
	numbers = append(numbers, e.hooks(2)...) // endpoints registered meanwhile are included
	e.s = e.reopen()
	e.enumerate(c)
	if got := rowsOf(e.due(c)); !slices.Equal(got, numbers) {
		e.Errorf("deliveries of %v, want %v", got, numbers)
	}
	if n := e.enumerate(c); n != 0 {
		e.Errorf("%d more after the end", n)
	}
	e.want(c, map[campaign.Outcome]int64{campaign.Pending: 9})
}

func onlyRunning(e *campaignEnv) {
	e.hooks(3)
	c := e.running()
	e.enumerate(c)
	targets := e.due(c)
	e.state(c, campaign.Paused)
	if got := e.claim(c, targets); len(got) != 0 {
		e.Errorf("%d were claimed while it was paused", len(got))
	}
	other := e.running()
	e.state(other, campaign.Cancelled)
	if n, done, err := e.s.Enumerate(e.Context(), e.epoch, other.Num, 10, func(*campaign.Target) campaign.Place { return campaign.Place{Due: e.clock.Now()} }); n != 0 || done || err != nil {
		e.Errorf("a cancelled campaign was enumerated: %d, %t, %v", n, done, err)
	}
}

func claimedOnce(e *campaignEnv) {
	e.hooks(5)
	c := e.running()
	e.enumerate(c)
	targets := e.due(c)
	if got := e.claim(c, targets[:3]); len(got) != 3 {
		e.Errorf("%d of 3 were claimed", len(got))
	}
	if got := rowsOf(e.claim(c, targets)); !slices.Equal(got, rowsOf(targets[3:])) {
		e.Errorf("claimed again: %v", got)
	}
	if len(e.due(c)) != 0 {
		e.Error("what is being sent is due")
	}
	e.want(c, map[campaign.Outcome]int64{campaign.Sending: 5})
	e.finish(c, campaign.Result{Row: targets[0].Row, Outcome: campaign.Accepted, External: "m1", Attempts: 1})
	e.finish(c, campaign.Result{Row: targets[0].Row, Outcome: campaign.Refused, Attempts: 2}) // it is over
	e.want(c, map[campaign.Outcome]int64{campaign.Sending: 4, campaign.Accepted: 1})
}

func formerOwner(e *campaignEnv) {
	e.hooks(2)
	c := e.running()
	e.enumerate(c)
	targets := e.due(c)
	e.claim(c, targets[:1])
	_, err := e.s.Own(e.Context(), App)
	e.check(err)
	if _, err := e.s.Claim(e.Context(), e.epoch, c.Num, targets, e.clock.Now()); !errors.Is(err, campaign.ErrStale) {
		e.Errorf("a former owner claims: %v", err)
	}
	err = e.s.Finish(e.Context(), e.epoch, c.Num, []campaign.Result{{Row: targets[0].Row, Channel: push.Webhook, Outcome: campaign.Accepted}}, e.clock.Now())
	if !errors.Is(err, campaign.ErrStale) {
		e.Errorf("a former owner writes an outcome: %v", err)
	}
	if _, _, err := e.s.Enumerate(e.Context(), e.epoch, c.Num, 1, func(*campaign.Target) campaign.Place { return campaign.Place{Due: e.clock.Now()} }); !errors.Is(err, campaign.ErrStale) {
		e.Errorf("a former owner enumerates: %v", err)
	}
}

func recovered(e *campaignEnv) {
	e.hooks(4)
	c := e.running()
	e.enumerate(c)
	e.claim(c, e.due(c)[:3])
	e.s = e.reopen()
	var err error
	e.epoch, err = e.s.Own(e.Context(), App)
	e.check(err)
	n, err := e.s.Recover(e.Context(), App, e.epoch, 2, []push.Channel{push.Webhook}, e.clock.Now())
	e.check(err)
	m, err := e.s.Recover(e.Context(), App, e.epoch, 2, nil, e.clock.Now())
	e.check(err)
	if n != 2 || m != 1 {
		e.Errorf("%d and %d were recovered, want 2 and 1", n, m)
	}
	e.want(c, map[campaign.Outcome]int64{campaign.Pending: 3, campaign.Unknown: 1})
	unsure := 0
	for _, t := range e.due(c) {
		if t.Unsure {
			unsure++
		}
	}
	if unsure != 2 {
		e.Errorf("%d are unsure, want the 2 that are sent again", unsure)
	}
}

func outcomesReachEndpoints(e *campaignEnv) {
	numbers := e.hooks(4)
	registered := e.clock.Now()
	c := e.running()
	e.enumerate(c)
	e.claim(c, e.due(c))
	e.finish(c,
		campaign.Result{Row: numbers[0], Outcome: campaign.Refused, Detail: "410", Disable: "gone"},
		campaign.Result{Row: numbers[1], Outcome: campaign.Accepted, Address: json.RawMessage(`{"url":"https://example.org/new"}`)},
		campaign.Result{Row: numbers[2], Outcome: campaign.Refused, Detail: "410", Disable: "gone", Since: registered.Add(-time.Second)},
		campaign.Result{Row: numbers[3], Outcome: campaign.Refused, Detail: "410", Disable: "gone", Since: registered.Add(time.Second)})
	sent, _, err := e.s.Recallable(e.Context(), c.Num, 0, 10)
	e.check(err)
	if len(sent) != 1 || string(sent[0].Address) != `{"url":"https://example.org/new"}` {
		e.Errorf("who has moved: %+v", sent)
	}
	next := e.running()
	e.enumerate(next)
	if got := rowsOf(e.due(next)); !slices.Equal(got, numbers[1:3]) { // the third has registered since
		e.Errorf("the next campaign is for %v, want %v", got, numbers[1:3])
	}
}

func putOff(e *campaignEnv) {
	numbers := e.hooks(2)
	c := e.running()
	e.enumerate(c)
	at := e.clock.Now().Add(time.Minute).Truncate(time.Millisecond)
	e.finish(c, campaign.Result{Row: numbers[0], Outcome: campaign.Pending, Due: at, Attempts: 1, Unsure: true})
	if got := rowsOf(e.due(c)); !slices.Equal(got, numbers[1:]) {
		e.Errorf("due are %v", got)
	}
	if last, ok, err := e.s.LastDue(e.Context(), c.Num, push.Webhook); err != nil || !ok || !last.Equal(at) {
		e.Errorf("last due at %s, %t, %v; want %s", last, ok, err, at)
	}
	e.claim(c, e.due(c))
	if next, ok, err := e.s.NextDue(e.Context(), c.Num, push.Webhook); err != nil || !ok || !next.Equal(at) {
		e.Errorf("next due at %s, %t, %v; want %s", next, ok, err, at)
	}
	e.clock.Advance(time.Minute + time.Second)
	if got := e.due(c); len(got) != 1 || got[0].Attempts != 1 || !got[0].Unsure {
		e.Errorf("due after a minute: %+v", got)
	}
}

func heldBack(e *campaignEnv) {
	numbers := e.hooks(2)
	c := e.running()
	e.enumerate(c)
	e.finish(c, campaign.Result{Row: numbers[0], Outcome: campaign.Pending, Held: true})
	e.claim(c, e.due(c))
	e.clock.Advance(1000 * time.Hour)
	if _, ok, err := e.s.NextDue(e.Context(), c.Num, push.Webhook); ok || err != nil {
		e.Errorf("what is held comes due: %t, %v", ok, err)
	}
	if _, ok, err := e.s.LastDue(e.Context(), c.Num, push.Webhook); ok || err != nil {
		e.Errorf("what is held is the last to come due: %t, %v", ok, err)
	}
	n, err := e.s.Sweep(e.Context(), c.Num, campaign.Sweep{From: campaign.Pending, Held: true, To: campaign.Pending, Due: e.clock.Now()}, 10, e.clock.Now())
	if n != 1 || err != nil || len(e.due(c)) != 1 {
		e.Errorf("%d were let go, %v", n, err)
	}
}

func sweptHonestly(e *campaignEnv) {
	numbers := e.hooks(3)
	c := e.running()
	e.enumerate(c)
	e.finish(c, campaign.Result{Row: numbers[1], Outcome: campaign.Pending, Due: e.clock.Now(), Unsure: true})
	for _, want := range []int{2, 1, 0} {
		n, err := e.s.Sweep(e.Context(), c.Num, campaign.Sweep{From: campaign.Pending, To: campaign.Suppressed, Detail: "cancelled"}, 2, e.clock.Now())
		if n != want || err != nil {
			e.Errorf("%d were swept, want %d: %v", n, want, err)
		}
	}
	e.want(c, map[campaign.Outcome]int64{campaign.Suppressed: 2, campaign.Unknown: 1})
}

func recallWalk(e *campaignEnv) {
	numbers := e.hooks(4)
	c := e.running()
	e.enumerate(c)
	e.claim(c, e.due(c))
	for i, o := range []campaign.Outcome{campaign.Accepted, campaign.Refused, campaign.Unknown, campaign.Accepted} {
		e.finish(c, campaign.Result{Row: numbers[i], Outcome: o, External: "m"})
	}
	sent, next, err := e.s.Recallable(e.Context(), c.Num, 0, 2)
	e.check(err)
	if !slices.Equal(rowsOf(sent), []int64{numbers[0], numbers[2]}) || next != numbers[2] || sent[0].External != "m" {
		e.Errorf("the first page: %v, next %d", rowsOf(sent), next)
	}
	e.check(e.s.FinishRecall(e.Context(), e.epoch, c.Num, []campaign.RecallResult{
		{Row: numbers[0], Channel: push.Webhook, Done: true}, {Row: numbers[2], Channel: push.Webhook, Detail: "too old"},
	}, next, e.clock.Now()))
	again := []campaign.RecallResult{{Row: numbers[0], Channel: push.Webhook, Done: true}, {Row: numbers[1], Channel: push.Webhook, Done: true}}
	e.check(e.s.FinishRecall(e.Context(), e.epoch, c.Num, again, next, e.clock.Now())) // one is recalled already, and one was never sent
	if got, err := e.s.Get(e.Context(), App, c.ID); err != nil || got.Recall != next {
		e.Errorf("the recall has come to %d, %v", got.Recall, err)
	}
	sent, next, err = e.s.Recallable(e.Context(), c.Num, next, 2)
	e.check(err)
	if !slices.Equal(rowsOf(sent), numbers[3:]) || next != 0 {
		e.Errorf("the last page: %v, next %d", rowsOf(sent), next)
	}
	e.want(c, map[campaign.Outcome]int64{campaign.TakenBack: 1, campaign.Refused: 1, campaign.Unknown: 1, campaign.Accepted: 1})
	if d := e.rows(c)[2]; d.Recall != "too old" {
		e.Errorf("why it was not recalled: %+v", d)
	}
}

func correctionWalk(e *campaignEnv) {
	numbers := e.hooks(3)
	c := e.running()
	e.enumerate(c)
	e.claim(c, e.due(c))
	for i, o := range []campaign.Outcome{campaign.Accepted, campaign.Refused, campaign.Unknown} {
		e.finish(c, campaign.Result{Row: numbers[i], Outcome: o, External: "m", Detail: "as it was"})
	}
	e.state(c, campaign.Correcting)
	if busy, err := e.s.Busy(e.Context(), App); err != nil || len(busy) != 1 {
		e.Errorf("a campaign that is being corrected is not worked on: %v, %v", busy, err)
	}
	finish := func(from, next int64, results ...campaign.RecallResult) {
		e.Helper()
		e.check(e.s.FinishCorrection(e.Context(), e.epoch, c.Num, results, from, next, e.clock.Now()))
	}
	want := func(corrected, not, at int64, why string) {
		e.Helper()
		f, err := e.s.Figures(e.Context(), c.Num)
		e.check(err)
		got, err := e.s.Get(e.Context(), App, c.ID)
		e.check(err)
		if f.Corrected != corrected || f.NotCorrected != not || got.Recall != at {
			e.Errorf("%d corrected, %d not, at row %d; want %d, %d, %d", f.Corrected, f.NotCorrected, got.Recall, corrected, not, at)
		}
		if d := e.rows(c)[2]; d.Correction != why {
			e.Errorf("why it was not corrected: %+v, want %q", d, why)
		}
	}
	yes := func(row int64) campaign.RecallResult {
		return campaign.RecallResult{Row: row, Channel: push.Webhook, Done: true}
	}
	no := campaign.RecallResult{Row: numbers[2], Channel: push.Webhook, Detail: "not found"}
	finish(0, numbers[1], yes(numbers[0]), yes(numbers[1])) // the second had never left
	e.s = e.reopen()
	want(1, 0, numbers[1], "")
	finish(numbers[1], 0, no)
	want(1, 1, 0, "not found")
	if d := e.rows(c)[0]; d.Detail != "as it was" || d.Correction != "" {
		e.Errorf("what was corrected: %+v", d)
	}
	finish(0, numbers[2], yes(numbers[0]), yes(numbers[2])) // another correction
	want(2, 0, numbers[2], "")
	e.want(c, map[campaign.Outcome]int64{campaign.Accepted: 1, campaign.Refused: 1, campaign.Unknown: 1})
	days, err := e.s.Days(e.Context(), App, c.Num, e.clock.Now(), e.clock.Now())
	e.check(err)
	if len(days) != 1 || days[0].Outcomes[campaign.Accepted] != 1 {
		e.Errorf("by day: %+v", days)
	}
	e.state(c, campaign.Recalling) // a recall starts from its own position
	at := e.clock.Now()
	e.check(e.s.FinishCorrection(e.Context(), e.epoch, c.Num, nil, numbers[2], 0, at))
	want(2, 0, numbers[2], "")
	_, err = e.s.Own(e.Context(), App)
	e.check(err)
	if err := e.s.FinishCorrection(e.Context(), e.epoch, c.Num, []campaign.RecallResult{no}, 0, 0, at); !errors.Is(err, campaign.ErrStale) {
		e.Errorf("a former owner corrects: %v", err)
	}
	want(2, 0, numbers[2], "")
}

func reactions(e *campaignEnv) {
	numbers := e.hooks(1)
	c := e.running()
	e.enumerate(c)
	for i, want := range []bool{true, false} {
		if first, err := e.s.Track(e.Context(), c.Num, numbers[0], campaign.Clicked, e.clock.Now()); first != want || err != nil {
			e.Errorf("click %d: %t, %v", i, first, err)
		}
	}
	if first, err := e.s.Track(e.Context(), c.Num, 1<<40, campaign.Clicked, e.clock.Now()); first || err != nil {
		e.Errorf("a click on nothing: %t, %v", first, err)
	}
	f, err := e.s.Figures(e.Context(), c.Num)
	e.check(err)
	days, err := e.s.Days(e.Context(), App, c.Num, e.clock.Now(), e.clock.Now())
	e.check(err)
	if f.Clicked != 1 || len(days) != 1 || days[0].Reactions[campaign.Clicked] != 1 || !e.rows(c)[0].Clicked {
		e.Errorf("%d clicks, by day %+v", f.Clicked, days)
	}
	key, err := e.s.TrackKey(e.Context(), App)
	e.check(err)
	e.s = e.reopen()
	again, err := e.s.TrackKey(e.Context(), App)
	e.check(err)
	other, err := e.s.TrackKey(e.Context(), "other")
	e.check(err)
	if len(key) < 32 || string(key) != string(again) || string(key) == string(other) {
		e.Error("the tracking secret is not one an app that stays")
	}
}

func removed(e *campaignEnv) {
	e.hooks(5)
	c := e.running()
	e.enumerate(c)
	for i, want := range []bool{false, false, true} {
		if done, err := e.s.Remove(e.Context(), c.Num, 2); done != want || err != nil {
			e.Errorf("step %d: %t, %v", i, done, err)
		}
	}
	if _, err := e.s.Get(e.Context(), App, c.ID); !errors.Is(err, campaign.ErrNotFound) {
		e.Errorf("it is still there: %v", err)
	}
	if f, err := e.s.Figures(e.Context(), c.Num); err != nil || f.Total() != 0 || len(e.rows(c)) != 0 {
		e.Errorf("%d are counted, %v", f.Total(), err)
	}
}

func leftEndpoint(e *campaignEnv) {
	e.hooks(1)
	c := e.running()
	e.enumerate(c)
	before := e.due(c)[0]
	e.check(e.s.DeleteEndpoint(e.Context(), App, before.EndpointID))
	got := e.due(c)
	if len(got) != 1 || !got[0].Left || got[0].EndpointID != before.EndpointID {
		e.Errorf("%+v", got)
	}
	if d := e.rows(c)[0]; d.Endpoint != before.EndpointID.String() {
		e.Errorf("the report calls it %s", d.Endpoint)
	}
}
