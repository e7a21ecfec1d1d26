package app

import (
	"context"

	"godwit.dev/godwit/internal/campaign"
	"godwit.dev/godwit/internal/dispatch"
)

// startSending starts what sends campaigns.
func (a *App) startSending(context.Context) error {
	out, err := dispatch.New(dispatch.Config{Senders: a.channels, Channels: a.channels.Channels(), Now: a.clock, Log: a.log})
	if err != nil {
		return err
	}
	a.registry.MustRegister(out)
	a.sending = campaign.New(campaign.Config{
		Store: a.stores.Campaigns, Dispatch: out, Now: a.clock, PublicURL: a.cfg.PublicURL, Log: a.log,
		KnownApp: func(name string) bool {
			_, err := a.access.App(name)
			return err == nil && name != ""
		},
	})
	a.registry.MustRegister(a.sending)
	a.steps.addRun("campaigns", storePatience, a.sending.Run, a.fail)
	return nil
}
