package app

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/channel"
	"godwit.dev/godwit/internal/hook"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/sender"
	"godwit.dev/godwit/internal/sender/mailbox"
	"godwit.dev/godwit/internal/sender/telegram"
	"godwit.dev/godwit/internal/sender/webhook"
	"godwit.dev/godwit/internal/sender/webpush"
)

// ChannelKinds are the channels that a server can send over, by what their settings mean. The senders of all apps
// share connections; closeIdle ends them. live is the sender to mailboxes; nil where there are none (the command line).
func ChannelKinds(allowPrivate bool, live *mailbox.Sender) (kinds map[push.Channel]channel.Kind, closeIdle func()) {
	client := sender.Client(allowPrivate)
	return map[push.Channel]channel.Kind{
		push.Live:     mailbox.Kind{Sender: live},
		push.WebPush:  webpush.Kind{Client: client, AllowPrivate: allowPrivate},
		push.Telegram: telegram.Kind{Client: client, AllowPrivate: allowPrivate},
		push.Webhook:  webhook.Kind{Poster: webhook.NewPoster(client, allowPrivate)},
	}, client.CloseIdleConnections
}

// startChannels starts what sends to addresses outside.
func (a *App) startChannels(ctx context.Context) error {
	kinds, closeIdle := ChannelKinds(a.cfg.AllowPrivateURLs, mailbox.New(a.publisher, a.mailbox, a.clock))
	channels, err := channel.New(ctx, a.apps, kinds, a.log)
	if err != nil {
		return err
	}
	a.channels = channels
	a.steps.addClose("channels", storePatience, func() error { channels.Close(); closeIdle(); return nil })
	a.steps.addRun("channel watch", storePatience, channels.Run, a.fail)
	return nil
}

// startHooks starts what tells apps of events.
func (a *App) startHooks(ctx context.Context) error {
	client := sender.Client(a.cfg.AllowPrivateURLs)
	a.steps.addClose("hook connections", time.Second, func() error { client.CloseIdleConnections(); return nil })
	hooks, err := hook.New(ctx, hook.Config{
		Store: a.apps, Progress: a.events, Events: a.events, Log: a.log,
		Poster: webhook.Hooks{Poster: webhook.NewPoster(client, a.cfg.AllowPrivateURLs)},
	})
	if err != nil {
		return err
	}
	a.hooks = hooks
	a.steps.addRun("hooks", storePatience, hooks.Run, a.fail)
	return nil
}
