package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/feeds/reconcile"
	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/store"
)

// fewThreads is below how many threads for goroutines messages of topics give way to publishes of the mailbox.
const fewThreads = 4

// startStores opens what is kept. It is closed when all that uses it has ended.
func (a *App) startStores(ctx context.Context) error {
	boot := rand.Text()[:bootLen]
	if a.cfg.Several() {
		a.boot = boot
	}
	former := ""
	if a.cfg.Postgres != "" {
		var err error
		if former, err = a.lock.Boot(boot); err != nil {
			return err
		}
	}
	stores, err := store.Open(ctx, store.Config{
		Data: a.cfg.Data, Postgres: a.cfg.Postgres, Node: a.node(), Boot: boot, Former: former, MaxPending: a.cfg.MaxPending, MinFree: int64(a.cfg.MinFree), Ballast: int64(a.cfg.Ballast),
		Events: a.cfg.EventsRetain.D(), NoAttempts: !a.cfg.Attempts, Fatal: a.fail, Damaged: a.damaged, Log: a.log, VFS: a.opts.VFS,
	})
	if err != nil {
		return err
	}
	a.stores, a.clock = stores, stores.Clock
	for _, p := range stores.Parts() {
		a.steps.addClose(p.Name, storePatience, p.Close)
	}
	a.steps.addRun("watch over files", time.Second, a.watchFiles, a.fail)
	a.registry.MustRegister(stores.Metrics()...)
	a.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "godwit_store_damaged", Help: "1 if stored data was found damaged, so that nothing more is stored; else 0.",
	}, func() float64 {
		if stores.Damage() != nil {
			return 1
		}
		return 0
	}))
	a.deeds = audit.New(stores.Deeds, a.clock, a.log)
	a.registry.MustRegister(a.deeds)
	if a.eraser, err = recipient.NewEraser(recipient.EraserConfig{
		File: filepath.Join(a.cfg.Data, "erasures.json"), After: a.cfg.EraseWithin.D(), Forget: []recipient.Forgetter{stores.Events, a.deeds}, Scrub: stores.Scrub, Log: a.log,
	}); err != nil {
		return err
	}
	a.steps.addRun("erasures", storePatience, a.eraser.Run, a.fail)
	a.endpoints = endpoint.New(endpoint.Config{Store: stores.Endpoints, Now: a.clock, AllowPrivateURLs: a.cfg.AllowPrivateURLs, Created: a.greet, Deleted: a.eraser.Deleted})
	return nil
}

// filesEvery is how often it is looked whether the files in use are still there: within a second, nothing more may be
// acknowledged.
const filesEvery = 250 * time.Millisecond

// watchFiles ends the server when a file was taken from under it: what it writes would be gone.
func (a *App) watchFiles(ctx context.Context) error {
	tick := time.NewTicker(filesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := a.lock.Gone()
		if err == nil {
			err = a.stores.Gone()
		}
		if err != nil {
			a.stores.Refuse(err)
			return err
		}
	}
}

// damaged says loudly that something that was stored is damaged. Sessions go on; nothing is stored any more.
func (a *App) damaged(err error) {
	a.log.Error("stored data is damaged; not ready, and nothing is stored any more: stop the server and run godwit doctor --repair", "data", a.cfg.Data, "error", err)
}

func (a *App) startAccess(ctx context.Context) (err error) {
	cfg := access.Config{Dev: a.cfg.Dev, Serves: true, AllowPrivateURLs: a.cfg.AllowPrivateURLs, Origin: access.OwnOrigin(a.cfg.PublicURL)}
	if a.access, err = access.NewRegistry(ctx, a.stores.Access, cfg, a.log); err != nil {
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

// startObjects starts signals: objects and registrations.
func (a *App) startObjects(context.Context) error {
	a.objects = signal.New(signal.Config{
		Store: a.stores.Objects, Now: a.clock, Log: a.log, Retain: a.cfg.ObjectsClientRetention.D(), BatchMost: a.cfg.ObjectsBatchMax.D(),
	})
	a.steps.addClose("objects", storePatience, a.objects.Close)
	a.registry.MustRegister(a.objects.Metrics())
	return nil
}

// startTopics starts what brings topics from the bus to sessions. They may fill half of a connection's queue.
func (a *App) startTopics(context.Context) error {
	a.topics = pubsub.New(pubsub.Config{Bus: a.bus, Log: a.log, QueueShare: int(a.cfg.QueueBytes) / 2})
	a.steps.addClose("topics", storePatience, a.topics.Close)
	a.registry.MustRegister(a.topics)
	return nil
}

// startRequests starts what brings requests from the bus to sessions, and answers back.
func (a *App) startRequests(context.Context) error {
	a.requests = request.New(request.Config{Bus: a.bus, Log: a.log})
	a.steps.addClose("requests", storePatience, a.requests.Close)
	a.registry.MustRegister(a.requests)
	return nil
}

// startMailbox wires the way of a notification: delivery, mailbox, sessions.
func (a *App) startMailbox(context.Context) error {
	var peers session.Peers
	if a.boot != "" {
		if err := a.startCluster(); err != nil {
			return err
		}
		peers = a.cluster
	}
	a.watchers = timeline.NewWatchers(nil)
	if a.tracer != nil {
		a.watchers = timeline.NewWatchers(a.tracer)
	}
	a.helloLimit = limit.NewAddrs(a.cfg.LimitHellos.PerSecond(), a.cfg.LimitLoopback)
	store := a.stores.Mailbox
	if a.cluster != nil {
		store = a.cluster.NewDetour(store)
	}
	cfg := mailbox.Config{Store: store, Events: a.stores.Events, Retain: a.cfg.Retain.D(), Log: a.log, Tracer: a.watchers}
	a.mailbox = mailbox.New(cfg)
	a.hub = session.NewHub(session.Config{
		Store: store, Mailbox: a.mailbox, Verifier: a.access, Events: a.stores.Events, Log: a.log, Now: a.clock,
		Capabilities: []session.Capability{a.objects, a.topics, a.requests},
		Admit:        a.helloLimit.Allow, Window: a.cfg.Window,
		Peers: peers, Node: a.boot,
	})
	a.requests.Find(a.hub)
	a.steps.addClose("sessions", storePatience, a.hub.Close)
	if a.cluster != nil {
		a.cluster.Join(a.hub, a.mailbox)
		a.cluster.AnswerRequests(a.requests.AnswerNode)
		a.requests.LookElsewhere(a.cluster)
		if a.tracer != nil {
			a.cluster.JoinTraces(a.tracer)
		}
		if err := a.cluster.JoinObjects(a.line(bus.Objects), a.objects); err != nil {
			return err
		}
		a.steps.addClose("other nodes", storePatience, a.cluster.Close)
	}
	a.steps.addRun("watch over space", time.Second, a.watchSpace, a.fail)
	a.steps.addRun("mailbox upkeep", storePatience, a.mailbox.Run, a.fail)
	a.publisher = delivery.New(a.mailbox, a.clock)
	if a.tracer != nil {
		a.publisher.TraceWith(a.tracer)
	}
	a.templates = template.New(a.stores.Templates, a.clock)
	a.publisher.FillWith(a.templates.Fill)
	if runtime.GOMAXPROCS(0) < fewThreads {
		a.topics.GiveWayTo(a.publisher.Busy)
	}
	a.registry.MustRegister(a.mailbox, a.hub)
	return nil
}

// startReconcile starts what makes good what the event log has lost.
func (a *App) startReconcile(ctx context.Context) error {
	m := reconcile.New(reconcile.Config{Log: a.stores.Events, Changes: a.stores.Changes, Alive: a.stores.Alive, Own: a.own("reconcile"), Notes: a.log})
	a.registry.MustRegister(m)
	var apps []string
	for _, app := range a.access.Apps() {
		apps = append(apps, app.Name)
	}
	told, err := m.Told(ctx, apps)
	if err != nil {
		a.log.WarnContext(ctx, "what the event log was told of before a crash cannot be read: first deliveries may be told of twice", "error", err)
	}
	a.mailbox.LeaveOut(told.Take)
	a.steps.addRun("reconcile", storePatience, m.Run, a.fail)
	return nil
}
