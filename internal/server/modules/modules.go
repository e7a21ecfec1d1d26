// Package modules has the list of the capabilities that join every server.
package modules

import (
	"context"

	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/jetstream"
	"godwit.dev/godwit/internal/feeds/source/outbox"
	"godwit.dev/godwit/internal/feeds/source/postgres"
	"godwit.dev/godwit/internal/feeds/source/streams"
	"godwit.dev/godwit/internal/gateway/mqttgate"
	"godwit.dev/godwit/internal/gateway/natsgate"
	"godwit.dev/godwit/internal/gateway/pushgate"
	"godwit.dev/godwit/internal/gateway/quicgate"
	"godwit.dev/godwit/internal/sending/apns"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/fcm"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/telegram"
	"godwit.dev/godwit/internal/sending/webhook"
	"godwit.dev/godwit/internal/sending/webpush"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/digests"
	"godwit.dev/godwit/internal/server/docsite"
	"godwit.dev/godwit/internal/server/inboxes"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/store/redisstream"
)

// All returns the modules of every server, in the order in which they start.
func All() []module.Module {
	own := new(webpush.Own)
	browsers := channelOf(push.WebPush, func(o channel.Options) channel.Kind {
		return webpush.Kind{Targets: o.Targets.Strangers(), Server: o.PublicURL, Own: own}
	})
	browsers.Start = func(context.Context, *module.Host) error { // after the push service, if there is one
		own.Settle()
		return nil
	}
	return []module.Module{
		natsgate.Module(),
		mqttgate.Module(),
		pushgate.Module(own.Open),
		quicgate.Module(),
		docsite.Module(),
		inboxes.Module(),
		digests.Module(),
		browsers,
		channelOf(push.FCM, func(o channel.Options) channel.Kind { return fcm.Kind{Targets: o.Targets} }),
		channelOf(push.APNs, func(o channel.Options) channel.Kind { return apns.Kind{Targets: o.Targets} }),
		channelOf(push.Telegram, func(o channel.Options) channel.Kind { return telegram.Kind{Targets: o.Targets} }),
		channelOf(push.Webhook, func(o channel.Options) channel.Kind { return webhook.Kind{Targets: o.Targets} }),
		{Name: streams.Name, Sources: map[string]source.Kind{streams.Name: streams.Kind{Dial: dialStreams}}},
		{Name: postgres.Name, Sources: map[string]source.Kind{postgres.Name: postgres.Kind{}}},
		{Name: jetstream.Name, Sources: map[string]source.Kind{jetstream.Name: jetstream.Kind{}}},
		{Name: "outbox", Sources: outbox.Kinds(datadir.Holds)},
		{Name: clickhouse.Name, Sinks: map[string]sink.Kind{clickhouse.Name: clickhouse.Kind{}}},
	}
}

// channelOf returns the module of a channel that the package push defines.
func channelOf(ch push.Channel, kind func(channel.Options) channel.Kind) module.Module {
	return module.Module{Name: string(ch), Channels: []channel.Brought{{Definition: *ch.Find(), Kind: kind}}}
}

func dialStreams(ctx context.Context, t streams.Target) (streams.Streams, error) {
	s, err := redisstream.OpenStreams(ctx, redisstream.StreamsConfig{URLs: t.URLs, Clients: t.Recipients, Targets: t.Targets, Log: t.Log})
	if err != nil {
		return nil, err
	}
	return s, nil
}
