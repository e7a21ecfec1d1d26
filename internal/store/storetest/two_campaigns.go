package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// RunTwoEndpoints tests two stores of endpoints on one database.
func RunTwoEndpoints(t *testing.T, open Two[EndpointStore]) {
	t.Helper()
	t.Run("AnAddressRegisteredThroughBothIsOneEndpoint", func(t *testing.T) {
		a, b := open(t, testclock.New().Now)
		stores := [2]EndpointStore{a, b}
		var created atomic.Int64
		atOnce(4, 25, func(caller, nth int) {
			done, err := stores[caller%2].Register(t.Context(), App, []audience.Registration{chat(nth)})
			if err != nil || done[0].Err != nil {
				t.Errorf("register: %v, %+v", err, done)
				return
			}
			if done[len(done)-1].Created {
				created.Add(1)
			}
		})
		for _, s := range stores {
			active, _, err := s.EndpointCounts(t.Context(), App)
			if err != nil || active[push.Telegram] != 25 || created.Load() != 25 {
				t.Errorf("%d endpoints, %d were created, %v; want 25", active[push.Telegram], created.Load(), err)
			}
		}
	})
	t.Run("WhoeverRegistersWhileTheOtherEnumeratesIsMetOnce", func(t *testing.T) {
		a, b := open(t, testclock.New().Now)
		var registering sync.WaitGroup
		for caller := range 4 {
			registering.Go(func() {
				for nth := range 50 {
					done, err := [2]EndpointStore{a, b}[caller%2].Register(t.Context(), App, []audience.Registration{chat(1000*caller + nth)})
					if err != nil || done[0].Err != nil {
						t.Errorf("register: %v, %+v", err, done)
					}
				}
			})
		}
		over := make(chan struct{})
		go func() {
			registering.Wait()
			close(over)
		}()
		met := make(map[int64]bool)
		for after, last := int64(0), false; ; {
			page, _, more, err := b.SelectEndpoints(t.Context(), App, &audience.Selection{}, after, 10)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page {
				if after = page[i].Number; met[after] {
					t.Errorf("%d is met twice", after)
				}
				met[after] = true
			}
			if last && !more {
				break
			}
			select {
			case <-over:
				last = true
			default:
			}
		}
		if len(met) != 200 {
			t.Errorf("%d of 200 were met", len(met))
		}
	})
}

// RunTwoCampaigns tests two stores of campaigns on one database.
func RunTwoCampaigns(t *testing.T, open Two[CampaignStore]) {
	t.Helper()
	begin := func(t *testing.T) (e *campaignEnv, other CampaignStore) {
		e = &campaignEnv{T: t, clock: testclock.New()}
		e.s, other = open(t, e.clock.Now)
		var err error
		e.epoch, err = e.s.Own(t.Context(), App)
		e.check(err)
		return e, other
	}
	t.Run("WhatOneClaimedTheOtherIsNotGiven", func(t *testing.T) {
		e, other := begin(t)
		e.hooks(40)
		c := e.running()
		e.enumerate(c)
		targets, stores := e.due(c), [2]CampaignStore{e.s, other}
		var claimed atomic.Int64
		atOnce(4, 10, func(caller, nth int) {
			got, err := stores[caller%2].Claim(t.Context(), e.epoch, c.Num, targets[nth*4:nth*4+4], e.clock.Now())
			if err != nil {
				t.Error(err)
			}
			claimed.Add(int64(len(got)))
		})
		if n := claimed.Load(); n != 40 {
			t.Errorf("40 deliveries were claimed %d times", n)
		}
	})
	t.Run("ACampaignIsDeletedWhileItsDeliveriesAreWritten", func(t *testing.T) {
		e, other := begin(t)
		appErasedWhileEnumerated(e, other)
	})
	t.Run("TwoEraseAnAppWhileItsCampaignIsSent", func(t *testing.T) {
		e, other := begin(t)
		appErasedByTwo(e, other)
	})
	t.Run("WhenOneTakesTheQueueOverTheOtherIsAFormerOwner", func(t *testing.T) {
		e, other := begin(t)
		e.hooks(1)
		c := e.running()
		e.enumerate(c)
		targets := e.due(c)
		_, err := other.Own(t.Context(), App)
		e.check(err)
		if _, err := e.s.Claim(t.Context(), e.epoch, c.Num, targets, e.clock.Now()); !errors.Is(err, campaign.ErrStale) {
			t.Errorf("a former owner claims: %v", err)
		}
	})
	t.Run("AFewChangesAtOnceLoseNone", func(t *testing.T) {
		e, other := begin(t)
		c := e.running()
		stores := [2]CampaignStore{e.s, other}
		atOnce(4, 10, func(caller, _ int) {
			_, err := stores[caller%2].Change(t.Context(), App, c.ID, func(c *campaign.Campaign) error {
				c.StartedAt = c.StartedAt.Add(time.Second)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		for _, s := range stores {
			if got, err := s.Get(t.Context(), App, c.ID); err != nil || !got.StartedAt.Equal(c.StartedAt.Add(40*time.Second)) {
				t.Errorf("%+v, %v", got, err)
			}
		}
	})
}
