package telegram

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/lease/leasetest"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/botserver"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
)

// bots holds the settings of channels, an audience and a bot's server.
type bots struct {
	*testing.T
	channels *channel.Service
	store    *campaigndb.Store
	server   *botserver.Server
}

func newBots(t *testing.T) *bots {
	t.Helper()
	b := &bots{T: t}
	log := slog.New(slog.DiscardHandler)
	apps := sqlitetest.Apps(t, log)
	b.must(apps.CreateApp(t.Context(), access.App{Name: "shop"}))
	b.store = sqlitetest.Campaigns(t)
	client := provider.Client(urlguard.All)
	t.Cleanup(client.CloseIdleConnections)
	var err error
	b.channels, err = channel.New(t.Context(), &apps.Channels, map[push.Channel]channel.Kind{push.Telegram: Kind{Client: client, Targets: urlguard.All}}, log)
	b.must(err)
	b.server = botserver.Start(botserver.Options{Token: "42:AAExampleSecretOfTheBot"})
	t.Cleanup(b.server.Close)
	return b
}

func (b *bots) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bots) set(v channel.Values) {
	b.Helper()
	_, _, err := b.channels.Set(b.Context(), "shop", push.Telegram, channel.Change{Values: v})
	b.must(err)
}

func (b *bots) listens() {
	b.Helper()
	b.set(channel.Values{"token": "42:AAExampleSecretOfTheBot", "base_url": b.server.URL, "updates": "true"})
}

// of are a server's listeners.
func (b *bots) of(owns lease.Func) *Bots {
	return NewBots(b.channels, endpoint.New(endpoint.Config{Store: b.store, Now: time.Now}), nil, owns, slog.New(slog.DiscardHandler))
}

func (b *bots) run(listeners *Bots) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- listeners.Run(ctx) }()
	return func() {
		cancel()
		b.must(<-done)
	}
}

// heard waits until all updates were handled.
func (b *bots) heard() {
	b.Helper()
	for deadline := time.Now().Add(2 * time.Minute); b.server.Waiting() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("nobody listens")
		}
	}
}

func TestBotsAudienceKeepsItself(t *testing.T) {
	b := newBots(t)
	listeners := b.of(nil)
	stop := b.run(listeners)
	b.listens()
	server := b.server
	chat := func(address string) audience.Endpoint {
		t.Helper()
		b.heard()
		e, err := b.store.EndpointAt(t.Context(), "shop", push.Telegram, []byte(address))
		b.must(err)
		return e
	}
	server.Say(7, "nb", "/start")
	if e := chat(`{"chat_id":7}`); e.Status != audience.Active || e.Locale != "nb" || e.Attributes[endpoint.FirstName].String() != "A" {
		t.Errorf("after /start: %+v", e)
	}
	server.Say(7, "nb", "/stop")
	server.Say(8, "!!", "/stop")
	if e := chat(`{"chat_id":7}`); e.Status != audience.Disabled || e.DisabledReason != "said /stop" {
		t.Errorf("after /stop: %+v", e)
	}
	server.Say(8, "not a language", "/start")
	server.Say(7, "nb", "/start")
	if e, other := chat(`{"chat_id":7}`), chat(`{"chat_id":8}`); e.Status != audience.Active || other.Status != audience.Active || other.Locale != "" {
		t.Errorf("after another /start: %+v, %+v", e, other)
	}
	b.set(channel.Values{"updates": ""})
	stop()
	if len(listeners.running) != 0 && listeners.running["shop"] == nil {
		t.Errorf("%d listeners", len(listeners.running))
	}
}

// crowd counts the updates that a server handles.
type crowd struct {
	Audience
	heard atomic.Int64
}

func (c *crowd) Join(ctx context.Context, app string, chat Chat) error {
	c.heard.Add(1)
	return c.Audience.Join(ctx, app, chat)
}

func TestOneServerAtATimeListensToABot(t *testing.T) {
	b := newBots(t)
	leases, crowds := leasetest.New(), [2]crowd{}
	for i := range crowds {
		listeners := b.of(leases.Server(i))
		crowds[i].Audience = listeners.audience
		listeners.audience = &crowds[i]
		defer b.run(listeners)()
	}
	b.listens()
	heard := [2]int64{}
	for i := range int64(6) {
		owner := int(i % 2)
		leases.Give("shop", owner)
		b.server.Say(i+1, "nb", "/start")
		b.heard()
		heard[owner]++
		if got := [2]int64{crowds[0].heard.Load(), crowds[1].heard.Load()}; got != heard {
			t.Fatalf("the servers heard %v after turn %d, want %v", got, i, heard)
		}
	}
}

func TestSuspendedServerHandlesNoBotUpdatesWhenItWakes(t *testing.T) {
	lost := false
	c := &crowd{}
	o := ownAudience{c, func() bool { return false }, func() { lost = true }}
	if err := o.Join(t.Context(), "shop", Chat{}); err == nil || !lost || c.heard.Load() != 0 {
		t.Errorf("join: %v, given up: %t, %d heard", err, lost, c.heard.Load())
	}
	if err := o.Leave(t.Context(), "shop", nil, ""); err == nil {
		t.Error("it leaves")
	}
}
