package app

import (
	"context"
	"errors"

	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

// startEscalations starts what has steps beyond live sent.
func (a *App) startEscalations(context.Context) error {
	a.escalations = escalation.New(escalation.Config{
		Steps: a.stores.Steps, Mailbox: a.mailbox, Endpoints: a.stores.Endpoints, Store: a.stores.Sends, Dispatch: a.dispatch, Events: a.stores.Events, Tokens: a.tokens,
		Preferences: a.stores.Preferences, Categories: a.access.Categories,
		Changed: a.channels.Changed, Now: a.clock, Own: a.sends, Retain: a.cfg.Retain.D(), Log: a.log,
	})
	a.registry.MustRegister(a.escalations)
	if a.cluster != nil {
		a.cluster.JoinSteps(a.escalations)
	}
	a.mailbox.EscalateTo(a.escalations)
	a.publisher.EscalateOver(a.reach)
	a.steps.addRun("escalations", storePatience, a.escalations.Run, a.fail)
	return nil
}

// reach says why an app cannot do a step.
func (a *App) reach(ctx context.Context, app string, step notification.Step) (field, why string, err error) {
	name := step.Channel
	sender, err := a.channels.Sender(ctx, app, push.Channel(name))
	switch {
	case errors.Is(err, channel.ErrUnknown):
		return "channel", "there is no channel " + notification.Clip(name), nil
	case errors.Is(err, channel.ErrNotConfigured):
		return "channel", "channel " + name + " is not configured: godwit channel set " + name, nil
	case errors.Is(err, channel.ErrDisabled):
		return "channel", "channel " + name + " is switched off", nil
	}
	if err == nil && step.To != "" {
		if s, ok := sender.(interface{ Target(name string) bool }); !ok || !s.Target(step.To) {
			return "to", "channel " + name + " has no target " + step.To + ": godwit channel set " + name + " --targets " + step.To + "=https://…", nil
		}
	}
	return "", "", err
}
