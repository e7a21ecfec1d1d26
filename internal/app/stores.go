package app

import (
	"context"
	"fmt"
	"path/filepath"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/app/datadir"
	"godwit.dev/godwit/internal/delivery"
	"godwit.dev/godwit/internal/limit"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/session"
	"godwit.dev/godwit/internal/signal"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
	"godwit.dev/godwit/internal/store/sqlite/eventdb"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/sqlite/objectdb"
)

func (a *App) file(name string) string { return filepath.Join(a.cfg.Data, name) }

func (a *App) startAccess(ctx context.Context) error {
	store, err := appdb.Open(ctx, a.file(datadir.AppDB), a.log)
	if err != nil {
		return err
	}
	a.apps = store
	a.steps.addClose("app store", storePatience, store.Close)
	cfg := access.Config{Dev: a.cfg.Dev, AllowPrivateURLs: a.cfg.AllowPrivateURLs}
	if a.access, err = access.NewRegistry(ctx, store, cfg, a.log); err != nil {
		return fmt.Errorf("start access: %w", err)
	}
	a.steps.addClose("access", storePatience, func() error { a.access.Close(); return nil })
	if err := a.access.Bootstrap(ctx, a.cfg.BootstrapApp, a.cfg.BootstrapKeyFile); err != nil {
		return err
	}
	a.steps.addRun("access watch", storePatience, a.access.Run, a.fail)
	if len(a.access.Apps()) == 0 {
		a.log.Warn("there is no app yet: make one with godwit app create NAME", "data", a.cfg.Data)
	}
	return nil
}

func (a *App) startEvents(ctx context.Context) error {
	var err error
	a.events, err = eventdb.Open(ctx, a.file(datadir.EventsDB), eventdb.Options{
		MaxAge: a.cfg.EventsRetain.D(), Free: func() int64 { return diskFree(a.cfg.Data) }, MinFree: int64(a.cfg.MinFree), Log: a.log,
	})
	if err != nil {
		return err
	}
	a.steps.addClose("event log", storePatience, a.events.Close)
	return nil
}

// startObjects wires signals: objects, registrations and their store.
func (a *App) startObjects(ctx context.Context) error {
	store, err := objectdb.Open(ctx, a.file(datadir.ObjectsDB), objectdb.Config{MinFree: int64(a.cfg.MinFree), Fatal: a.fail, Log: a.log})
	if err != nil {
		return err
	}
	a.steps.addClose("object store", storePatience, store.Close)
	a.objects = signal.New(signal.Config{
		Store: store, Now: a.clock, Log: a.log, Retain: a.cfg.ObjectsClientRetention.D(), BatchMost: a.cfg.ObjectsBatchMax.D(),
	})
	a.steps.addClose("objects", storePatience, a.objects.Close)
	a.registry.MustRegister(a.objects.Metrics())
	return nil
}

// startMailbox wires the way of a notification: delivery, mailbox, store, sessions.
func (a *App) startMailbox(ctx context.Context) error {
	store, err := mailboxdb.Open(ctx, a.file(datadir.MailboxDB), mailboxdb.Config{
		MaxPending: a.cfg.MaxPending, MinFree: int64(a.cfg.MinFree), Ballast: int64(a.cfg.Ballast), Fatal: a.fail,
		Now: a.clock, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.store = store
	a.steps.addClose("mailbox store", storePatience, store.Close)
	a.mailbox = mailbox.New(mailbox.Config{Store: store, Events: a.events, Retain: a.cfg.Retain.D(), Log: a.log})
	a.hub = session.NewHub(session.Config{
		Mailbox: a.mailbox, Verifier: a.access, Events: a.events, Objects: a.objects, Log: a.log, Now: a.clock,
		Admit: limit.NewAddrs(a.cfg.LimitHellos.PerSecond(), a.cfg.LimitLoopback).Allow, Window: a.cfg.Window,
	})
	a.steps.addClose("sessions", storePatience, a.hub.Close)
	a.steps.addRun("mailbox upkeep", storePatience, a.mailbox.Run, a.fail)
	a.publisher = delivery.New(a.mailbox, a.clock)
	a.registry.MustRegister(a.mailbox, a.hub, a.events)
	return nil
}

// startCampaigns opens the store of endpoints and campaigns.
func (a *App) startCampaigns(ctx context.Context) error {
	var err error
	a.campaigns, err = campaigndb.Open(ctx, a.file(datadir.CampaignDB), campaigndb.Config{
		Free: func() int64 { return diskFree(a.cfg.Data) }, MinFree: int64(a.cfg.MinFree), Fatal: a.fail, Now: a.clock, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.steps.addClose("campaign store", storePatience, a.campaigns.Close)
	a.registry.MustRegister(a.campaigns.EndpointMetrics())
	return nil
}
