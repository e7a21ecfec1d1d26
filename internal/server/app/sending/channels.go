// Package sending starts the services that reach people outside: channels, campaigns, escalations and chat bots.
package sending

import (
	"context"

	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/live"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/app/core"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/module"
)

// Kinds are the channels of modules, each with the kind that reads its settings.
func Kinds(o channel.Options, list []module.Module) map[push.Channel]channel.Kind {
	kinds := make(map[push.Channel]channel.Kind)
	for i := range list {
		for _, c := range list[i].Channels {
			kinds[c.Channel] = c.Kind(o)
		}
	}
	return kinds
}

// Channels starts the service of channels to outside addresses and to mailboxes.
func Channels(ctx context.Context, g *ground.Ground, c *core.Core) (*channel.Service, error) {
	kinds := Kinds(channel.Options{Targets: g.Settings.Targets(), PublicURL: g.Settings.PublicURL}, g.Modules)
	kinds[push.Live] = live.Kind{Sender: live.New(c.Publisher, c.Mailbox, g.Stores.Clock)}
	channels, err := channel.New(ctx, g.Stores.Channels, kinds, g.Log)
	if err != nil {
		return nil, err
	}
	g.Steps.AddClose("channels", ground.StorePatience, func() error { channels.Close(); return nil })
	g.Steps.AddRun("channel watch", ground.StorePatience, channels.Run)
	return channels, nil
}
