// Package sending starts the services that reach people outside: channels, campaigns, escalations and chat bots.
package sending

import (
	"context"

	"godwit.dev/godwit/internal/sending/apns"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/fcm"
	"godwit.dev/godwit/internal/sending/live"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/telegram"
	"godwit.dev/godwit/internal/sending/webhook"
	"godwit.dev/godwit/internal/sending/webpush"
	"godwit.dev/godwit/internal/server/app/core"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/module"
)

// KindOptions holds the parts of the server that channels need. The command line uses the zero value.
type KindOptions struct {
	AllowPrivate bool         // see allow_private_urls
	PublicURL    string       // URL for reports of service workers; empty: they find it themselves
	Live         *live.Sender // sender to mailboxes; nil: there are none
}

// Kinds are the channels that a server with these modules can send over, each with the kind that reads its settings.
func Kinds(o KindOptions, list []module.Module) map[push.Channel]channel.Kind {
	kinds := map[push.Channel]channel.Kind{
		push.Live:     live.Kind{Sender: o.Live},
		push.WebPush:  webpush.Kind{AllowPrivate: o.AllowPrivate, Server: o.PublicURL},
		push.FCM:      fcm.Kind{AllowPrivate: o.AllowPrivate},
		push.APNs:     apns.Kind{AllowPrivate: o.AllowPrivate},
		push.Telegram: telegram.Kind{AllowPrivate: o.AllowPrivate},
		push.Webhook:  webhook.Kind{AllowPrivate: o.AllowPrivate},
	}
	for i := range list {
		for _, c := range list[i].Channels {
			kinds[c.Channel] = c.Kind(o.AllowPrivate)
		}
	}
	return kinds
}

// Channels starts the service of channels to outside addresses.
func Channels(ctx context.Context, g *ground.Ground, c *core.Core) (*channel.Service, error) {
	kinds := Kinds(KindOptions{
		AllowPrivate: g.Settings.AllowPrivateURLs, PublicURL: g.Settings.PublicURL, Live: live.New(c.Publisher, c.Mailbox, g.Stores.Clock),
	}, g.Modules)
	channels, err := channel.New(ctx, g.Stores.Channels, kinds, g.Log)
	if err != nil {
		return nil, err
	}
	g.Steps.AddClose("channels", ground.StorePatience, func() error { channels.Close(); return nil })
	g.Steps.AddRun("channel watch", ground.StorePatience, channels.Run)
	return channels, nil
}
