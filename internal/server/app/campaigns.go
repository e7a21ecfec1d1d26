package app

import (
	"context"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/welcome"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/sealed"
)

// own decides which node does what one at a time may do for an app. Nil: there are no others.
func (a *App) own(what string) lease.Func {
	if a.stores.Own == nil {
		return nil
	}
	return func(app string, run func(context.Context, func() bool)) (release func()) {
		return a.stores.Own(what+"/"+app, run)
	}
}

// startSending starts what sends campaigns.
func (a *App) startSending(context.Context) error {
	cfg := dispatch.Config{Senders: a.channels, Channels: a.channels.Channels(), Now: a.clock, Log: a.log}
	if a.tracer != nil {
		cfg.Tracer = a.tracer
	}
	out, err := dispatch.New(cfg)
	if err != nil {
		return err
	}
	a.dispatch = out
	a.registry.MustRegister(out)
	a.tokens = sealed.New(a.stores.Campaigns, func(name string) bool {
		_, err := a.access.App(name)
		return err == nil && name != ""
	})
	if f := a.own("campaigns"); f != nil {
		a.sends = lease.Share(f)
	}
	a.sending = campaign.New(campaign.Config{
		Store: a.stores.Campaigns, Dispatch: out, Own: a.sends, Now: a.clock, PublicURL: a.cfg.PublicURL, Templates: a.templates, Tokens: a.tokens, Log: a.log,
	})
	a.registry.MustRegister(a.sending)
	a.steps.addRun("campaigns", storePatience, a.sending.Run, a.fail)
	a.greeter = welcome.New(welcome.Config{Channels: a.channels, Templates: a.templates, Now: a.clock, Log: a.log})
	a.steps.addRun("welcomes", storePatience, a.greeter.Run, a.fail)
	return nil
}

// greet greets who subscribes; nobody does before the server is ready.
func (a *App) greet(e audience.Endpoint) {
	if a.greeter != nil {
		a.greeter.Greet(e)
	}
}
