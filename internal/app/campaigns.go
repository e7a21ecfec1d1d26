package app

import (
	"context"

	"godwit.dev/godwit/internal/campaign"
)

// startSending starts what sends campaigns.
func (a *App) startSending(context.Context) error {
	a.sending = campaign.New(campaign.Config{
		Store: a.campaigns, Senders: a.channels, Now: a.clock, PublicURL: a.cfg.PublicURL, Log: a.log,
		KnownApp: func(name string) bool {
			_, err := a.access.App(name)
			return err == nil && name != ""
		},
	})
	a.registry.MustRegister(a.sending)
	a.steps.addRun("campaigns", storePatience, a.sending.Run, a.fail)
	return nil
}
