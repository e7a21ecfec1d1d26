package app

import (
	"context"
	"errors"
	"fmt"

	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/jetstream"
	"godwit.dev/godwit/internal/feeds/source/outbox"
	"godwit.dev/godwit/internal/feeds/source/postgres"
	"godwit.dev/godwit/internal/feeds/source/streams"
	"godwit.dev/godwit/internal/gateway/mqttgate"
	"godwit.dev/godwit/internal/gateway/natsgate"
	"godwit.dev/godwit/internal/sending/apns"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/fcm"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/telegram"
	"godwit.dev/godwit/internal/sending/webhook"
	"godwit.dev/godwit/internal/sending/webpush"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/app/figures"
	"godwit.dev/godwit/internal/server/app/web"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/redisstream"
)

// Modules returns the modules of every server, in the order in which they start.
func Modules() []module.Module {
	return []module.Module{
		natsgate.Module(),
		mqttgate.Module(),
		channelOf(push.WebPush, func(o channel.Options) channel.Kind {
			return webpush.Kind{AllowPrivate: o.AllowPrivate, Server: o.PublicURL}
		}),
		channelOf(push.FCM, func(o channel.Options) channel.Kind { return fcm.Kind{AllowPrivate: o.AllowPrivate} }),
		channelOf(push.APNs, func(o channel.Options) channel.Kind { return apns.Kind{AllowPrivate: o.AllowPrivate} }),
		channelOf(push.Telegram, func(o channel.Options) channel.Kind { return telegram.Kind{AllowPrivate: o.AllowPrivate} }),
		channelOf(push.Webhook, func(o channel.Options) channel.Kind { return webhook.Kind{AllowPrivate: o.AllowPrivate} }),
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
	s, err := redisstream.OpenStreams(ctx, redisstream.StreamsConfig{URLs: t.URLs, Clients: t.Recipients, Private: t.Private, Log: t.Log})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Admit adds the channels of modules to those of the process, and refuses a name that two modules have.
func Admit(list []module.Module) error {
	owners := make(map[string]string)
	take := func(owner, what, name string) error {
		if other, taken := owners[what+name]; taken {
			return fmt.Errorf("module %s brings the %s %s, which module %s has", owner, what, name, other)
		}
		owners[what+name] = owner
		return nil
	}
	var errs []error
	for _, m := range list {
		for name := range m.Sources {
			errs = append(errs, take(m.Name, "source", name))
		}
		for name := range m.Sinks {
			errs = append(errs, take(m.Name, "sink", name))
		}
		for _, c := range m.Channels {
			if err := push.Define(c.Definition); err != nil {
				errs = append(errs, fmt.Errorf("module %s brings a channel that another has: %w", m.Name, err))
			}
			errs = append(errs, take(m.Name, "channel", string(c.Channel)))
		}
	}
	return errors.Join(errs...)
}

// Sections returns the settings of modules.
func Sections(list []module.Module) (sections []config.Section) {
	for _, m := range list {
		if m.Settings != nil {
			sections = append(sections, config.Section{Module: m.Name, Settings: m.Settings})
		}
	}
	return sections
}

// Tables returns the tables of modules.
func Tables(list []module.Module) (tables []store.Tables) {
	for _, m := range list {
		if m.Tables.SQLite != nil {
			m.Tables.Module = m.Name
			tables = append(tables, m.Tables)
		}
	}
	return tables
}

// services returns the services that modules may use.
func services(s *figures.Server) *module.Services {
	c := s.Core
	return &module.Services{
		Log: s.Log, Now: s.Stores.Clock, Node: s.Node, Version: s.Version, Access: s.Access,
		Mailbox: c.Mailbox, Publisher: c.Publisher, Hub: c.Hub, Objects: c.Objects, Topics: c.Topics, Requests: c.Requests, Bus: c.Bus, Events: s.Stores.Events,
		Doors:    module.Doors{Gate: s.Conns.Gate, Reactor: s.Conns.Reactor, Hellos: c.Hellos, Publishes: s.Conns.Publish},
		Draining: s.Draining, Own: s.Own,
		Databases:  s.Stores.Database,
		ReadDraft:  web.ReadDraft,
		ListenAddr: s.Settings.Listens,
	}
}
