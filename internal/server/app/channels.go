package app

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/sending/apns"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/fcm"
	"godwit.dev/godwit/internal/sending/live"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/telegram"
	"godwit.dev/godwit/internal/sending/webhook"
	"godwit.dev/godwit/internal/sending/webpush"
)

// KindOptions are what channels need of the server. The zero value is that of the command line.
type KindOptions struct {
	AllowPrivate bool         // see allow_private_urls
	PublicURL    string       // where service workers report to; empty: they know
	Live         *live.Sender // to mailboxes; nil: there are none
}

// ChannelKinds are the channels that a server can send over, each with the kind that reads its settings.
func ChannelKinds(o KindOptions) map[push.Channel]channel.Kind {
	return map[push.Channel]channel.Kind{
		push.Live:     live.Kind{Sender: o.Live},
		push.WebPush:  webpush.Kind{AllowPrivate: o.AllowPrivate, Server: o.PublicURL},
		push.FCM:      fcm.Kind{AllowPrivate: o.AllowPrivate},
		push.APNs:     apns.Kind{AllowPrivate: o.AllowPrivate},
		push.Telegram: telegram.Kind{AllowPrivate: o.AllowPrivate},
		push.Webhook:  webhook.Kind{AllowPrivate: o.AllowPrivate},
	}
}

// startChannels starts what sends to addresses outside.
func (a *App) startChannels(ctx context.Context) error {
	kinds := ChannelKinds(KindOptions{
		AllowPrivate: a.cfg.AllowPrivateURLs, PublicURL: a.cfg.PublicURL, Live: live.New(a.publisher, a.mailbox, a.clock),
	})
	channels, err := channel.New(ctx, a.stores.Channels, kinds, a.log)
	if err != nil {
		return err
	}
	a.channels = channels
	a.steps.addClose("channels", storePatience, func() error { channels.Close(); return nil })
	a.steps.addRun("channel watch", storePatience, channels.Run, a.fail)
	return nil
}

// startBots starts listening to the bots of apps that want it.
func (a *App) startBots(context.Context) error {
	a.steps.addRun("bots", storePatience, telegram.NewBots(a.channels, a.endpoints, a.own("bots"), a.log).Run, a.fail)
	return nil
}

// startHooks starts what tells apps of events.
func (a *App) startHooks(ctx context.Context) error {
	client := provider.Unbounded(a.cfg.AllowPrivateURLs) // a hook has one request under way
	a.steps.addClose("hook connections", time.Second, func() error { client.CloseIdleConnections(); return nil })
	cfg := hook.Config{
		Store: a.stores.Hooks, Progress: a.stores.Progress, Events: a.stores.Events, Own: a.own("hooks"), Now: a.clock, Log: a.log,
		Poster: webhook.Hooks{Poster: webhook.NewPoster(client, a.cfg.AllowPrivateURLs)},
	}
	if a.tracer != nil {
		cfg.Tracer = a.tracer
	}
	hooks, err := hook.New(ctx, cfg)
	if err != nil {
		return err
	}
	a.hooks = hooks
	a.registry.MustRegister(hooks)
	a.steps.addRun("hooks", storePatience, hooks.Run, a.fail)
	return nil
}
