package app

import (
	"context"

	"godwit.dev/godwit/internal/app/datadir"
	"godwit.dev/godwit/internal/campaign"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
)

// startCampaigns opens the store of endpoints and campaigns and starts sending.
func (a *App) startCampaigns(ctx context.Context) error {
	var err error
	a.campaigns, err = campaigndb.Open(ctx, a.file(datadir.CampaignDB), campaigndb.Config{
		Free: func() int64 { return diskFree(a.cfg.Data) }, MinFree: int64(a.cfg.MinFree), Fatal: a.fail, Now: a.clock, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.steps.addClose("campaign store", storePatience, a.campaigns.Close)
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
