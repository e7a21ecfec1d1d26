package campaigndb_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/postgres/campaigndb"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// phone counts the messages to each endpoint, from all nodes.
type phone struct {
	mu    sync.Mutex
	sent  map[string]int
	takes int           // number of messages sent until a test allows more: no campaign ends before the test has done its part
	more  chan struct{} // closed when it allows more
}

func (p *phone) Send(ctx context.Context, r push.Request) (push.Receipt, error) {
	for {
		more := p.take(r.Endpoint)
		if more == nil {
			return push.Receipt{ExternalID: "1"}, nil
		}
		select {
		case <-ctx.Done():
			return push.Receipt{}, ctx.Err()
		case <-more:
		}
	}
}

// take takes a message, or returns what is closed when it may be tried again.
func (p *phone) take(endpoint string) (more <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sent) >= p.takes {
		return p.more
	}
	p.sent[endpoint]++
	return nil
}

func (p *phone) lets(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takes = n
	close(p.more)
	p.more = make(chan struct{})
}

func (p *phone) Sender(context.Context, string, push.Channel) (push.Sender, error) { return p, nil }

// Pace makes the campaign last a few seconds.
func (p *phone) Pace(json.RawMessage) push.Pace { return push.Pace{Scope: "bot", Rate: 400} }

// node is the part of a server that runs campaigns.
type node struct {
	name   string
	store  *campaigndb.Store
	leases *pgdb.Leases
	svc    *campaign.Service
	stop   func()
}

// start starts a node's engine.
func (n *node) start(t *testing.T, p *phone) {
	t.Helper()
	out, err := dispatch.New(dispatch.Config{Senders: p, Channels: push.Channels()})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil)).With("node", n.name) // shown where the test fails
	n.svc = campaign.New(campaign.Config{Store: n.store, Dispatch: out, Log: log, Now: n.store.DB().Clock(), Own: func(app string, run func(context.Context, func() bool)) func() {
		return n.leases.Own("campaign/"+app, func(ctx context.Context, l *pgdb.Lease) { run(ctx, l.Held) })
	}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.svc.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", n.name, err)
		}
	})
	t.Cleanup(n.stop)
}

// cluster is several nodes on one database.
type cluster struct {
	*testing.T
	phone  *phone
	leases string // schema
	nodes  []*node
}

func newCluster(t *testing.T, url string, nodes int) *cluster {
	t.Helper()
	c := &cluster{T: t, phone: &phone{sent: map[string]int{}, more: make(chan struct{})}, leases: "leases_" + strings.ToLower(rand.Text())}
	schema := "campaigns_" + strings.ToLower(rand.Text())
	for i := range nodes {
		n := &node{name: fmt.Sprint("node", i)}
		var err error
		if n.store, err = campaigndb.Open(t.Context(), campaigndb.Config{URL: url, Schema: schema}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.store.Close() })
		if n.leases, err = pgdb.OpenLeases(t.Context(), pgdb.LeaseConfig{URL: url, Schema: c.leases, Node: n.name, Log: slog.New(slog.NewTextHandler(t.Output(), nil)).With("node", n.name)}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.leases.Close)
		n.start(t, c.phone)
		c.nodes = append(c.nodes, n)
	}
	return c
}

// send starts a campaign to a number of chats and returns its id.
func (c *cluster) send(all int) string {
	c.Helper()
	regs := make([]audience.Registration, all)
	for i := range regs {
		regs[i] = audience.Registration{Trusted: true, Endpoint: audience.Endpoint{Channel: push.Telegram, Address: json.RawMessage(fmt.Sprintf(`{"chat_id":%d}`, i+1))}}
	}
	n := c.nodes[len(c.nodes)-1]
	if _, err := n.store.Register(c.Context(), "app", regs); err != nil {
		c.Fatal(err)
	}
	v, err := n.svc.Create(c.Context(), "app", campaign.Spec{Content: campaign.Content{Content: push.Content{Title: "Hi"}}}, time.Time{}, "", [32]byte{})
	if err == nil {
		_, err = n.svc.Start(c.Context(), "app", v.ID, time.Time{})
	}
	if err != nil {
		c.Fatal(err)
	}
	return v.ID
}

// until waits until the campaign satisfies ok. The database may be away meanwhile.
func (c *cluster) until(id, what string, ok func(v *campaign.View) bool) *campaign.View {
	c.Helper()
	var v *campaign.View
	var err error
	if !eventually.Holds(func() bool {
		v, err = c.nodes[0].svc.Get(c.Context(), "app", id)
		return err == nil && ok(v)
	}) {
		c.Fatalf("not %s in time: %+v, %v", what, v, err)
	}
	return v
}

func accepted(n int) func(v *campaign.View) bool {
	return func(v *campaign.View) bool { return v.Counts[campaign.Accepted] > int64(n) }
}

// owner waits until another node than the former one owns the campaign.
func (c *cluster) owner(former *node) *node {
	c.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		list, err := c.nodes[0].leases.List(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		for _, h := range list {
			for _, n := range c.nodes {
				if strings.HasPrefix(h.Name, "campaign/") && n.name == h.Node && n != former {
					return n
				}
			}
		}
		if time.Now().After(deadline) {
			c.Fatalf("nobody owns the campaign: %+v", list)
		}
	}
}

// epoch returns the epoch of the campaign's lease.
func (c *cluster) epoch() (epoch int64) {
	c.Helper()
	err := c.nodes[0].store.DB().Pool().QueryRow(c.Context(), "SELECT epoch FROM "+c.leases+".lease WHERE name LIKE 'campaign/%'").Scan(&epoch)
	if err != nil {
		c.Fatal(err)
	}
	return epoch
}

// wantOnce checks that each endpoint got the message once, except those with an unknown outcome.
func (c *cluster) wantOnce(v *campaign.View, all int) {
	c.Helper()
	unknown := v.Counts[campaign.Unknown]
	if n := v.Counts[campaign.Accepted] + unknown; n != int64(all) {
		c.Errorf("%d of %d have an outcome: %v", n, all, v.Counts)
	}
	if n := int64(len(c.phone.sent)); n < v.Counts[campaign.Accepted] || n > int64(all) {
		c.Errorf("%d of %d were sent to: %v", n, all, v.Counts)
	}
	for endpoint, n := range c.phone.sent {
		if n != 1 {
			c.Errorf("%s got it %d times", endpoint, n)
		}
	}
}

func completed(v *campaign.View) bool { return v.State == campaign.Completed }

// TestACampaignGoesOnWithWhateverNodeOwnsIt stops and starts nodes that own a campaign, and makes one lose its lease.
func TestACampaignGoesOnWithWhateverNodeOwnsIt(t *testing.T) {
	all := thorough.Rounds(480, 2000)
	c := newCluster(t, pgtest.Database(t), 3)
	id := c.send(all)
	owners := map[*node]bool{}
	for i := range 4 {
		c.phone.lets((i + 2) * all / 6)
		c.until(id, "sent in part", accepted((i+1)*all/6))
		n := c.owner(nil)
		owners[n] = true
		if i == 2 { // another node takes its lease, as if this one had been away, and gives it up again
			if _, err := n.store.DB().Pool().Exec(t.Context(), "UPDATE "+c.leases+".lease SET holder = 'ghost/1', epoch = epoch + 1, until = 0 WHERE name LIKE 'campaign/%'"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		n.stop()
		owners[c.owner(n)] = true
		n.start(t, c.phone)
	}
	c.phone.lets(all)
	v := c.until(id, "completed", completed)
	if len(owners) < 2 {
		t.Error("it had one owner all the time")
	}
	c.wantOnce(v, all)
}

func TestACampaignOutlivesItsDatabasesDeath(t *testing.T) {
	all := thorough.Rounds(400, 1500)
	server := pgtest.Start(t, pgtest.Options{Fsync: true})
	c := newCluster(t, server.URL(), 2)
	id := c.send(all)
	epoch := int64(0)
	c.phone.lets(all)
	for i := range 3 {
		c.until(id, "sent in part", accepted((i+1)*all/5))
		if i == 0 {
			epoch = c.epoch()
		}
		server.Kill()
		server.Restart(t)
	}
	v := c.until(id, "completed", completed)
	c.wantOnce(v, all)
	// A database that is away for longer than a lease lasts costs it.
	if n := v.Counts[campaign.Unknown]; n != 0 && c.epoch() == epoch {
		t.Errorf("%d are unknown, though no node has ended nor lost its lease", n)
	}
}
