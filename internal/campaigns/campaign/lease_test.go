package campaign_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/cluster/lease/leasetest"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
)

// uncertain is a store that loses some of its answers.
type uncertain struct {
	*campaigndb.Store
	lost atomic.Int64 // of the next claims
}

func (s *uncertain) Claim(ctx context.Context, epoch, num int64, targets []campaign.Target, now time.Time) ([]campaign.Target, error) {
	claimed, err := s.Store.Claim(ctx, epoch, num, targets, now)
	if s.lost.Add(-1) >= 0 {
		return nil, fmt.Errorf("claim: %w", campaign.ErrUncertain)
	}
	return claimed, err
}

func TestUnclearOutcomeIsUnknownAndTheRestGoesOn(t *testing.T) {
	for _, alone := range []bool{true, false} {
		t.Run(fmt.Sprintf("alone %t", alone), func(t *testing.T) {
			p := &provider{}
			e := &env{T: t, path: sqlitetest.CampaignsFile(t)}
			store, err := campaigndb.Open(t.Context(), e.path, campaigndb.Config{})
			if err != nil {
				t.Fatal(err)
			}
			e.store = store
			s := &uncertain{Store: store}
			s.lost.Store(3)
			out, err := dispatch.New(dispatch.Config{Senders: senders{push.Telegram: p}, Channels: push.Channels()})
			if err != nil {
				t.Fatal(err)
			}
			cfg := campaign.Config{Store: s, Dispatch: out}
			if !alone {
				cfg.Own = leasetest.New().Server(0)
			}
			e.svc = campaign.New(cfg)
			e.run()
			t.Cleanup(e.close)
			c := &cluster{env: e}
			id := c.sending(app, 40)
			v := c.untilOf(app, id, "completed", completed)
			n := v.Counts[campaign.Unknown]
			if n == 0 || n > 3 || v.Counts[campaign.Accepted] != 40-n || p.total() != int(40-n) {
				t.Errorf("%d were sent: %v; want at most 3 of 40 unknown", p.total(), v.Counts)
			}
		})
	}
}

// absent is a store with a short outage: adding deliveries fails, and a claim waits until it can find out what was stored.
type absent struct {
	*campaigndb.Store
	claiming chan struct{} // closed when the first claim waits
	failed   chan context.Context
	adds     atomic.Int64
	claims   atomic.Int64
}

func (s *absent) Enumerate(ctx context.Context, epoch, num int64, limit int, place func(*campaign.Target) campaign.Place) (int, bool, error) {
	if s.adds.Add(1) == 2 {
		<-s.claiming
		s.failed <- ctx
		return 0, false, errors.New("the database is away")
	}
	return s.Store.Enumerate(ctx, epoch, num, limit, place)
}

func (s *absent) Claim(ctx context.Context, epoch, num int64, targets []campaign.Target, now time.Time) ([]campaign.Target, error) {
	if s.claims.Add(1) > 1 {
		return s.Store.Claim(ctx, epoch, num, targets, now)
	}
	claimed, err := s.Store.Claim(ctx, epoch, num, targets, now)
	close(s.claiming)
	<-(<-s.failed).Done() // the parallel tasks have ended at this point
	if ctx.Err() != nil {
		return nil, fmt.Errorf("claim: %w", campaign.ErrUncertain)
	}
	return claimed, err
}

func TestClaimLearnsWhatWasStoredThoughAParallelWriteFailed(t *testing.T) {
	const all = 600 // more than one transaction adds
	p := &provider{}
	e := &env{T: t, path: sqlitetest.CampaignsFile(t)}
	store, err := campaigndb.Open(t.Context(), e.path, campaigndb.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e.store = store
	s := &absent{Store: store, claiming: make(chan struct{}), failed: make(chan context.Context, 1)}
	out, err := dispatch.New(dispatch.Config{Senders: senders{push.Telegram: p}, Channels: push.Channels()})
	if err != nil {
		t.Fatal(err)
	}
	e.svc = campaign.New(campaign.Config{Store: s, Dispatch: out})
	e.run()
	t.Cleanup(e.close)
	c := &cluster{env: e}
	v := c.untilOf(app, c.sending(app, all), "completed", completed)
	if v.Counts[campaign.Accepted] != all || p.total() != all {
		t.Errorf("%d were sent: %v; want all %d accepted", p.total(), v.Counts, all)
	}
}

// cluster is several servers that share a store.
type cluster struct {
	*env
	leases  *leasetest.Leases
	servers []*campaign.Service
}

func newCluster(t *testing.T, n int, ss senders) *cluster {
	t.Helper()
	c := &cluster{env: &env{T: t, path: sqlitetest.CampaignsFile(t)}, leases: leasetest.New()}
	for i := range n {
		store, err := campaigndb.Open(t.Context(), c.path, campaigndb.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		out, err := dispatch.New(dispatch.Config{Senders: ss, Channels: push.Channels()})
		if err != nil {
			t.Fatal(err)
		}
		svc := campaign.New(campaign.Config{Store: store, Dispatch: out, Own: c.leases.Server(i), PublicURL: "https://push.example.org"})
		c.servers = append(c.servers, svc)
		c.store, c.svc = store, svc
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- svc.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("engine %d: %v", i, err)
			}
		})
	}
	return c
}

// sending starts a campaign to n chats of an app and returns its id.
func (c *cluster) sending(app string, n int) string {
	c.Helper()
	regs := make([]audience.Registration, n)
	for i := range regs {
		regs[i] = audience.Registration{Trusted: true, Endpoint: audience.Endpoint{Channel: push.Telegram, Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, 1000+i))}}
	}
	if _, err := c.store.Register(c.Context(), app, regs); err != nil {
		c.Fatal(err)
	}
	v, err := c.svc.Create(c.Context(), app, hello(), time.Time{}, "", [32]byte{})
	if err != nil {
		c.Fatal(err)
	}
	if _, err := c.svc.Start(c.Context(), app, v.ID, time.Time{}); err != nil {
		c.Fatal(err)
	}
	return v.ID
}

// untilOf waits until ok returns true for a campaign of an app.
func (c *cluster) untilOf(app, id, what string, ok func(*campaign.View) bool) *campaign.View {
	c.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		v, err := c.svc.Get(c.Context(), app, id)
		if err != nil {
			c.Fatal(err)
		}
		if ok(v) {
			return v
		}
		if time.Now().After(deadline) {
			c.Fatalf("not %s in time: %s %s, %v", what, v.State, v.Detail, v.Counts)
		}
	}
}

func sent(n int64) func(*campaign.View) bool {
	return func(v *campaign.View) bool { return v.Counts[campaign.Accepted]+v.Counts[campaign.Unknown] >= n }
}

func completed(v *campaign.View) bool { return v.State == campaign.Completed }

func TestACampaignThatChangesItsOwnerReachesNobodyTwice(t *testing.T) {
	const all = 400
	p := &provider{pace: push.Pace{Scope: "bot", Rate: all}} // a rate at which the owner changes in the middle of the campaign
	c := newCluster(t, 3, senders{push.Telegram: p})
	id := c.sending(app, all)
	for i := range 4 {
		c.untilOf(app, id, "sent in part", sent(int64(i+1)*all/5))
		c.leases.Give(app, (i+1)%3)
	}
	v := c.untilOf(app, id, "completed", completed)
	if n := v.Counts[campaign.Accepted]; n != all {
		t.Errorf("%d were accepted of %d, and nothing was cut off: %v", n, all, v.Counts)
	}
	for endpoint, got := range p.got {
		if len(got) != 1 {
			t.Errorf("%s got it %d times", endpoint, len(got))
		}
	}
}

func TestLosingAnAppStopsThatAppAloneAndGainingItBackGoesOn(t *testing.T) {
	p := &provider{}
	c := newCluster(t, 1, senders{push.Telegram: p})
	c.leases.Give("lost", 7) // owned by a server that does not exist
	lost := c.sending("lost", 20)
	kept := c.sending("kept", 20)
	c.untilOf("kept", kept, "completed", completed)
	if n := p.total(); n != 20 {
		t.Errorf("%d were sent, want those of the app that is owned", n)
	}
	c.leases.Give("lost", 0)
	c.untilOf("lost", lost, "completed", completed)

	release := p.holdBack(5)
	lost = c.sending("lost", 20)
	c.untilOf("lost", lost, "sent in part", sent(5))
	c.leases.Give("lost", 7)
	release()
	c.leases.Free("lost") // before, deliveries may still go out whose marks were on their way to the disk
	if v := c.untilOf("lost", lost, "found", func(*campaign.View) bool { return true }); v.Counts[campaign.Sending] != 0 {
		t.Errorf("the app was given up with deliveries under way: %v", v.Counts)
	}
	before := p.total()
	kept = c.sending("kept", 20)
	c.untilOf("kept", kept, "completed", completed)
	if n := p.total() - before; n != 20 {
		t.Errorf("%d were sent after the app was lost, want the 20 of the other app", n)
	}
	c.leases.Give("lost", 0)
	c.untilOf("lost", lost, "completed", completed)
}

// TestSuspendedServerSendsNothingWhenItWakes: a server that was suspended does not know yet that its lease has ended.
func TestSuspendedServerSendsNothingWhenItWakes(t *testing.T) {
	p := &provider{}
	release := p.holdBack(5)
	defer release()
	c := newCluster(t, 2, senders{push.Telegram: p})
	id := c.sending(app, 50)
	c.untilOf(app, id, "sent in part", sent(5))
	c.leases.Over.Store(true)
	under := p.total()
	release()
	c.untilOf(app, id, "settled", func(v *campaign.View) bool { return v.Counts[campaign.Accepted] == int64(under) })
	c.untilOf(app, id, "left alone", func(v *campaign.View) bool { return v.Counts[campaign.Sending] == 0 })
	if n := p.total(); n != under {
		t.Errorf("%d left after its time had passed", n-under)
	}
	c.leases.Give(app, 1)
	c.leases.Over.Store(false)
	c.untilOf(app, id, "completed", completed)
	if n := p.total(); n != 50 {
		t.Errorf("%d messages to 50", n)
	}
}

func TestAnAppIsGivenUpOnceNothingOfItIsToBeSent(t *testing.T) {
	p := &provider{}
	c := newCluster(t, 1, senders{push.Telegram: p})
	id := c.sending(app, 5)
	c.untilOf(app, id, "completed", completed)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if c.leases.Held() == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("it is still held")
		}
	}
}
