package sending

import (
	"context"
	"errors"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/campaigns/welcome"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/activity"
	"godwit.dev/godwit/internal/sending/badge"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/press"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
	"godwit.dev/godwit/internal/sending/telegram"
	"godwit.dev/godwit/internal/server/app/core"
	"godwit.dev/godwit/internal/server/app/ground"
)

// Sending holds the started services.
type Sending struct {
	Channels    *channel.Service
	Endpoints   *endpoint.Service
	Dispatch    *dispatch.Dispatcher
	Segments    *segment.Service
	Campaigns   *campaign.Service
	Escalations *escalation.Service
	Activities  *activity.Service
}

// Start starts the services that send over the channels.
func Start(g *ground.Ground, c *core.Core, channels *channel.Service) (*Sending, error) {
	badges := startBadges(g, c, channels)
	out, err := startDispatch(g, channels, badges)
	if err != nil {
		return nil, err
	}
	g.Registry.MustRegister(channels)
	tokens := sealed.New(g.Stores.Campaigns, func(name string) bool { // tokens travel with messages and come back from their receivers
		_, err := g.Access.App(name)
		return err == nil && name != ""
	})
	var sends lease.Func // sends takes leases: only one node sends an app's campaigns and escalations; nil: there are no other nodes
	if f := g.Own("campaigns"); f != nil {
		sends = lease.Share(f)
	}
	s := &Sending{Channels: channels, Dispatch: out, Segments: segment.New(g.Stores.Segments, g.Stores.Clock)}
	s.Campaigns = campaign.New(campaign.Config{
		Store: g.Stores.Campaigns, Dispatch: out, Own: sends, Now: g.Stores.Clock, PublicURL: g.Settings.PublicURL, Categories: g.Access.Categories, Events: g.Stores.Events, Templates: c.Templates, Segments: s.Segments, Tokens: tokens, Log: g.Log,
	})
	s.Segments.AskBeforeDeletion(s.Campaigns.UsesSegment)
	g.Registry.MustRegister(s.Campaigns)
	c.Mailbox.FollowInboxes(s.Campaigns.Inboxes)
	g.Steps.AddRun("campaigns", ground.StorePatience, s.Campaigns.Run)
	greeter := welcome.New(welcome.Config{Channels: channels, Templates: c.Templates, Now: g.Stores.Clock, Log: g.Log})
	g.Steps.AddRun("welcomes", ground.StorePatience, greeter.Run)
	s.Activities = startActivities(g, c, channels)
	s.Endpoints = endpoint.New(endpoint.Config{
		Store: g.Stores.Endpoints, Now: g.Stores.Clock, Targets: g.Settings.Targets(), Delivers: channels.Delivers, Created: greeter.Greet,
		Followed: s.Activities.Followed, Deleted: g.Eraser.Deleted,
	})
	s.Escalations = startEscalations(g, c, s, tokens, sends)
	g.Steps.AddRun("bots", ground.StorePatience, telegram.NewBots(channels, s.Endpoints, s.press(tokens), g.Own("bots"), g.Log).Run)
	return s, nil
}

// press returns the function that hands a pressed button to the service that sent its message.
func (s *Sending) press(tokens *sealed.Tokens) telegram.PressFunc {
	return func(ctx context.Context, app, data string) error {
		kind, message, button, err := press.Open(ctx, tokens, app, data)
		switch {
		case errors.Is(err, sealed.ErrBad):
			return nil // a button of another program with this bot, or forged
		case err != nil:
			return err
		case kind == press.Campaign:
			return s.Campaigns.Press(ctx, app, message, button)
		}
		return s.Escalations.Press(ctx, app, message, button, kind == press.Acknowledging)
	}
}

// startDispatch starts the dispatcher, which paces and makes the sending attempts of all services.
func startDispatch(g *ground.Ground, channels *channel.Service, badges *badge.Service) (*dispatch.Dispatcher, error) {
	cfg := dispatch.Config{Senders: channels, Reload: channels.Reload, Channels: channels.Sending(), Now: g.Stores.Clock, Log: g.Log}
	if g.Tracer != nil {
		cfg.Tracer = g.Tracer
	}
	if badges != nil {
		cfg.Badge = badges.Badge
	}
	out, err := dispatch.New(cfg)
	if err != nil {
		return nil, err
	}
	g.Registry.MustRegister(out)
	return out, nil
}

// startBadges starts the service that tells phones how much of their recipient's inbox is unseen; nil: the store has no inboxes.
func startBadges(g *ground.Ground, c *core.Core, channels *channel.Service) *badge.Service {
	inboxes := c.Mailbox.Inboxes()
	if inboxes == nil {
		return nil
	}
	b := badge.New(badge.Config{Inboxes: inboxes, Channels: channels, Endpoints: g.Stores.Endpoints, Now: g.Stores.Clock, Log: g.Log})
	g.Registry.MustRegister(b)
	if c.Cluster != nil {
		c.Cluster.JoinBadges(b)
	}
	c.Mailbox.FollowInboxes(b.Changed)
	g.Steps.AddRun("badges", ground.StorePatience, b.Run)
	return b
}

// startActivities starts the service that brings objects' versions to Live Activities.
func startActivities(g *ground.Ground, c *core.Core, channels *channel.Service) *activity.Service {
	a := activity.New(activity.Config{
		Endpoints: g.Stores.Endpoints, Objects: g.Stores.Objects, Channels: channels, Own: g.Own("activities"), Now: g.Stores.Clock, Log: g.Log,
	})
	g.Registry.MustRegister(a)
	c.Objects.Follow(a.Changed)
	g.Steps.AddRun("live activities", ground.StorePatience, a.Run)
	return a
}

// startEscalations starts the service that sends the steps after live.
func startEscalations(g *ground.Ground, c *core.Core, s *Sending, tokens *sealed.Tokens, sends lease.Func) *escalation.Service {
	e := escalation.New(escalation.Config{
		Steps: g.Stores.Steps, Mailbox: c.Mailbox, Endpoints: g.Stores.Endpoints, Store: g.Stores.Sends, Dispatch: s.Dispatch, Events: g.Stores.Events, Tokens: tokens,
		Preferences: g.Stores.Preferences, Categories: g.Access.Categories,
		Changed: s.Channels.Changed, Now: g.Stores.Clock, Own: sends, Retain: g.Settings.Retain.D(), Log: g.Log,
	})
	g.Registry.MustRegister(e)
	if c.Cluster != nil {
		c.Cluster.JoinSteps(e)
	}
	c.Mailbox.EscalateTo(e)
	c.Publisher.EscalateOver(s.reach)
	g.Steps.AddRun("escalations", ground.StorePatience, e.Run)
	return e
}

// reach returns the reason why an app cannot do a step.
func (s *Sending) reach(ctx context.Context, app string, step notification.Step) (field, why string, err error) {
	name := step.Channel
	settings := name
	if d := push.Channel(name).Find(); d != nil && d.Through != "" {
		if d.Follows {
			return "channel", "channel " + name + " follows objects: put a version of one, and it goes there", nil
		}
		settings = string(d.Through)
	}
	sender, err := s.Channels.Sender(ctx, app, push.Channel(name))
	switch {
	case errors.Is(err, channel.ErrUnknown):
		return "channel", "there is no channel " + notification.Clip(name), nil
	case errors.Is(err, channel.ErrNotConfigured):
		return "channel", "channel " + name + " is not configured: godwit channel set " + settings, nil
	case errors.Is(err, channel.ErrDisabled):
		return "channel", "channel " + name + " is switched off", nil
	}
	if err == nil && step.To != "" {
		if t, ok := sender.(interface{ Target(name string) bool }); !ok || !t.Target(step.To) {
			return "to", "channel " + name + " has no target " + step.To + ": godwit channel set " + name + " --targets " + step.To + "=https://…", nil
		}
	}
	return "", "", err
}
