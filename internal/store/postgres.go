package store

import (
	"context"
	"errors"
	"fmt"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/move"
	"godwit.dev/godwit/internal/store/postgres/appdb"
	"godwit.dev/godwit/internal/store/postgres/campaigndb"
	"godwit.dev/godwit/internal/store/postgres/eventdb"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/objectdb"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pghealth"
)

// openPostgres opens the schemas of a database. All use the clock of the first.
func (s *Stores) openPostgres(ctx context.Context, cfg Config) error {
	s.told = cfg.Damaged
	reach, err := pgdb.Watch(cfg.Postgres, cfg.Log)
	if err != nil {
		return err
	}
	s.Reach = reach
	defer reach.Hold()()
	s.parts = append(s.parts, Part{Name: "watch over PostgreSQL", Close: reach.Close})
	apps, err := appdb.Open(ctx, appdb.Config{URL: cfg.Postgres, Reach: reach, Log: cfg.Log})
	if err != nil {
		return err
	}
	s.Clock = apps.DB().Clock()
	s.Apps = appsOf(apps.Store)
	s.parts = append(s.parts, Part{Name: "app store", Close: apps.Close})
	if err := move.Finished(ctx, apps.DB()); err != nil {
		return err
	}

	leases, err := pgdb.OpenLeases(ctx, pgdb.LeaseConfig{URL: cfg.Postgres, Reach: reach, Node: cfg.Node, Boot: cfg.Boot, Former: cfg.Former, Fatal: cfg.Fatal, Log: cfg.Log})
	if err != nil {
		return err
	}
	s.parts = append(s.parts, Part{Name: "leases", Close: func() error { leases.Close(); return nil }, metrics: leases})
	if err := move.Free(ctx, apps.DB()); err != nil {
		return err
	}
	s.asNode(leases)

	health, err := pghealth.Open(ctx, pghealth.Config{URL: cfg.Postgres, Reach: reach, Log: cfg.Log})
	if err != nil {
		return err
	}
	s.scrub = health.Scrub
	s.Horizon = func(ctx context.Context) (Horizon, error) {
		oldest, err := health.Oldest(ctx)
		return Horizon(oldest), err
	}
	s.parts = append(s.parts, Part{Name: "database figures", Close: health.Close, metrics: health})

	events, err := eventdb.Open(ctx, eventdb.Config{URL: cfg.Postgres, Reach: reach, Boot: cfg.Boot, MaxAge: cfg.Events, Now: s.Clock, Log: cfg.Log})
	if err != nil {
		return err
	}
	s.Events, s.Progress, s.Drained = events, events, events
	s.DroppedEvents = func() uint64 { return events.Stats().Dropped }
	s.parts = append(s.parts, Part{Name: "event log", Close: events.Close, metrics: events.Metrics()})

	objects, err := objectdb.Open(ctx, objectdb.Config{URL: cfg.Postgres, Reach: reach, Now: s.Clock, Log: cfg.Log})
	if err != nil {
		return err
	}
	s.Objects = objects
	s.parts = append(s.parts, Part{Name: "object store", Close: objects.Close})

	lanes := 0 // as many as usual
	if cfg.Shared {
		lanes = 1 // other nodes commit at the same time: one lane fills its commits more, and acknowledgements find a publish sooner
	}
	mailboxes, err := mailboxdb.Open(ctx, mailboxdb.Config{
		URL: cfg.Postgres, Reach: reach, MaxPending: cfg.MaxPending, Lanes: lanes, Node: cfg.Node, NoAttempts: cfg.NoAttempts, Now: s.Clock, Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	s.Mailbox, s.Changes, s.Steps, s.Inboxes, s.Work = mailboxes, mailboxes, mailboxes, mailboxes, mailboxes.Work
	s.parts = append(s.parts, Part{Name: "mailbox store", Close: mailboxes.Close})

	campaigns, err := campaigndb.Open(ctx, campaigndb.Config{URL: cfg.Postgres, Reach: reach, Now: s.Clock, Log: cfg.Log})
	if err != nil {
		return err
	}
	s.erases = []appEraser{events, objects, campaigns}
	s.Endpoints, s.Campaigns, s.Preferences, s.Sends = campaigns, campaigns, campaigns, campaigns
	s.parts = append(s.parts, Part{Name: "campaign store", Close: campaigns.Close, metrics: campaigns.EndpointMetrics()})
	for i := range cfg.Tables {
		if err := s.openSchema(ctx, &cfg.Tables[i], &cfg, reach); err != nil {
			return err
		}
	}
	return nil
}

// asNode sets what a node of several asks about the others, and owns alone.
func (s *Stores) asNode(leases *pgdb.Leases) {
	s.Shared = leases.Shared()
	s.Own = func(name string, run func(context.Context, func() bool)) (release func()) {
		return leases.Own(name, func(ctx context.Context, l *pgdb.Lease) { run(ctx, l.Held) })
	}
	s.Alive, s.GiveUp = leases.Alive, leases.Drain
	s.Members = func(ctx context.Context) ([]Member, error) {
		found, err := leases.Members(ctx)
		list := make([]Member, len(found))
		for i, m := range found {
			list[i] = Member(m)
		}
		return list, err
	}
	s.Forget = func(ctx context.Context, node string) error {
		err := leases.Forget(ctx, node)
		switch {
		case errors.Is(err, pgdb.ErrNodeLives):
			return fmt.Errorf("forget node %s: %w", node, ErrLives)
		case errors.Is(err, pgdb.ErrUnknownNode):
			return fmt.Errorf("node %s is not missing: %w", node, mailbox.ErrNotFound)
		}
		return err
	}
	s.Owned = func(ctx context.Context) ([]Owned, error) {
		held, err := leases.List(ctx)
		list := make([]Owned, len(held))
		for i, h := range held {
			list[i] = Owned{Name: h.Name, Node: h.Node, Until: s.Clock().Add(h.For)}
		}
		return list, err
	}
}

// openAppsSchema opens only the schema of apps.
func openAppsSchema(ctx context.Context, cfg Config) (apps Apps, closing func() error, err error) {
	s, err := appdb.Open(ctx, appdb.Config{URL: cfg.Postgres, Log: cfg.Log})
	if err != nil {
		return apps, nil, err
	}
	if err := move.Finished(ctx, s.DB()); err != nil {
		return apps, nil, errors.Join(err, s.Close())
	}
	return appsOf(s.Store), s.Close, nil
}
