package telegram

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/channel"
	"godwit.dev/godwit/internal/endpoint"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/sender/provider"
	"godwit.dev/godwit/internal/sender/sendertest/botserver"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
)

func TestBotsAudienceKeepsItself(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	apps, err := appdb.Open(t.Context(), filepath.Join(dir, "apps.db"), log)
	must(err)
	defer apps.Close()
	must(apps.CreateApp(t.Context(), access.App{Name: "shop"}))
	store, err := campaigndb.Open(t.Context(), filepath.Join(dir, "campaign.db"), campaigndb.Config{})
	must(err)
	defer store.Close()
	client := provider.Client(true)
	defer client.CloseIdleConnections()
	channels, err := channel.New(t.Context(), apps, map[push.Channel]channel.Kind{push.Telegram: Kind{Client: client, AllowPrivate: true}}, log)
	must(err)
	server := botserver.Start(botserver.Options{Token: "42:AAExampleSecretOfTheBot"})
	defer server.Close()

	b := NewBots(channels, endpoint.New(endpoint.Config{Store: store, Now: time.Now}), log)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	set := func(v channel.Values) {
		t.Helper()
		_, _, err := channels.Set(t.Context(), "shop", push.Telegram, channel.Change{Values: v})
		must(err)
	}
	set(channel.Values{"token": "42:AAExampleSecretOfTheBot", "base_url": server.URL, "updates": "true"})
	chat := func(address string) audience.Endpoint {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); server.Waiting() > 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		e, err := store.EndpointAt(t.Context(), "shop", push.Telegram, []byte(address))
		must(err)
		return e
	}
	server.Say(7, "nb", "/start")
	if e := chat(`{"chat_id":7}`); e.Status != audience.Active || e.Locale != "nb" {
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
	set(channel.Values{"updates": ""})
	stop()
	must(<-done)
	if len(b.running) != 0 && b.running["shop"] == nil {
		t.Errorf("%d listeners", len(b.running))
	}
}
