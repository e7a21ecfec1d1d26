// Package app wires the server and owns its life cycle: every part registers how it is stopped where it is started,
// and they are stopped in reverse.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/campaigns/welcome"
	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/engine/memory"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/gateway/admission"
	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/sealed"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/certs"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/httpapi/direct"
	"godwit.dev/godwit/internal/server/metrics"
	"godwit.dev/godwit/internal/server/tracing"
	"godwit.dev/godwit/internal/server/watch"
	"godwit.dev/godwit/internal/store"
)

// Options are what a server gets besides its settings.
type Options struct {
	Log     *slog.Logger
	Version string
	VFS     string          // of what must not be lost, for fault injection
	LogLost func() uint64   // lines of the log that nobody could take; nil: none is ever lost
	Drain   <-chan struct{} // has an element once the node is to send its sessions away; nil: never
}

// App is a running server.
type App struct {
	cfg  *config.Config
	opts Options
	log  *slog.Logger

	steps    steps
	failed   chan error    // the first failure that ends the server
	draining chan struct{} // closed when it stops or drains
	unready  sync.Once
	stopping atomic.Bool
	stopOnce sync.Once
	stopErr  error
	addrs    datadir.Addresses
	begun    time.Time

	registry    *prometheus.Registry
	watch       *watch.Watch
	access      *access.Registry
	channels    *channel.Service
	hooks       *hook.Service
	sources     *source.Service
	sinks       *sink.Service
	deeds       *audit.Log
	eraser      *recipient.Eraser
	bus         *bus.Bus
	cluster     *cluster.Cluster // nil: it is alone
	boot        string           // of this node among others; empty: it is alone
	objects     *signal.Service
	topics      *pubsub.Service
	requests    *request.Service
	mailbox     *mailbox.Mailbox
	publisher   *delivery.Service
	templates   *template.Service
	tracer      *tracing.Tracer   // nil: nothing is traced
	reporter    *tracing.Reporter // nil: no collector gets figures
	hub         *session.Hub
	compat      *compat // nil: it stands in for nobody
	lock        *datadir.Lock
	stores      *store.Stores
	endpoints   *endpoint.Service
	sending     *campaign.Service
	greeter     *welcome.Service
	dispatch    *dispatch.Dispatcher
	sends       lease.Func          // an app's campaigns and escalations, which are sent by one node; nil: there are no others
	escalations *escalation.Service // nil: the store keeps no steps
	watchers    *timeline.Watchers
	reactor     *reactor.Reactor
	addrLimit   *limit.Addrs
	helloLimit  *limit.Addrs // of sessions and NATS clients
	gate        *admission.Gate
	direct      *direct.Server
	signups     *limit.Addrs
	ackLimit    *limit.Addrs
	tokens      *sealed.Tokens // that travel with messages and come back
	pace        *memory.Pacer
	keyLimit    *limit.Keys
	tlsFor      func(protocols ...string) *tls.Config // nil: plain
	nodeTLS     *tls.Config                           // between nodes; nil: plain
	// certificates by the kind of peer that sees them.
	certificates map[string]*certs.Files
	clock        func() time.Time
}

// Run runs a server until ctx ends, which stops it within the grace period, or until it fails. It calls ready with the
// addresses once the server listens.
func Run(ctx context.Context, cfg *config.Config, opts Options, ready func(datadir.Addresses)) error {
	a, err := Start(ctx, cfg, opts)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
			return nil // stopped before it had started
		}
		return err
	}
	if ready != nil {
		ready(a.Addresses())
	}
	return a.Run(ctx)
}

// Run waits until ctx ends or the server fails, and stops it within the grace period.
func (a *App) Run(ctx context.Context) error {
	var failure error
	select {
	case <-ctx.Done():
		a.log.Info("stopping", "grace", a.cfg.Grace)
	case failure = <-a.failed:
		a.log.Error("server failed and stops", "error", failure)
	}
	grace := a.cfg.Grace.D()
	stop, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), grace, fmt.Errorf("the grace period of %s is over", a.cfg.Grace))
	defer cancel()
	return errors.Join(failure, a.Stop(stop))
}

// Start starts a server. When it returns, everything listens. ctx bounds the start alone.
func Start(ctx context.Context, cfg *config.Config, opts Options) (*App, error) {
	a := &App{
		cfg: cfg, opts: opts,
		failed: make(chan error, 1), draining: make(chan struct{}), registry: metrics.New(opts.Version), watch: watch.New(),
	}
	a.log = slog.New(a.watch.Handler(opts.Log.Handler()))
	a.steps.log = a.log
	begun := time.Now()
	a.begun = begun
	for _, start := range []func(context.Context) error{
		a.readTLS, a.startProcess, a.startStores, a.prepareReports, a.startTracing, a.startAccess, a.startBus, a.startObjects, a.startTopics, a.startRequests, a.startMailbox, a.startReconcile, a.startChannels, a.startHooks, a.startSending, a.startEscalations, a.startBots, a.startSources, a.startSinks, a.startCompat, a.startMemory, a.startConnections, a.startWatch, a.startReach,
		a.listen, a.announce, a.startReports, a.startDrain,
	} {
		err := start(ctx)
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Grace.D())
			defer cancel()
			return nil, errors.Join(err, a.Stop(stop))
		}
	}
	a.log.Info("ready", "http", a.addrs.HTTP, "grpc", a.addrs.GRPC, "nats", a.addrs.NATS, "gateway", a.addrs.Gateway, "compat_http", a.addrs.CompatHTTP, "data", cfg.Data, "version", opts.Version, "took_ms", time.Since(begun).Milliseconds())
	return a, nil
}

// Addresses are where the server listens.
func (a *App) Addresses() datadir.Addresses { return a.addrs }

// Stop stops the server: no new connections, not ready, goodbye to the sessions, answers under way, flush. It returns
// when all has stopped or ctx ends.
func (a *App) Stop(ctx context.Context) error {
	a.stopOnce.Do(func() {
		a.stopping.Store(true)
		begun := time.Now()
		a.stopErr = a.steps.stop(ctx)
		a.log.Info("stopped", "took_ms", time.Since(begun).Milliseconds())
	})
	return a.stopErr
}

// fail notes a failure that the server cannot go on with. Further ones are consequences.
func (a *App) fail(err error) {
	var damage *mailbox.DamagedError
	if errors.As(err, &damage) { // sessions go on, and so does whatever else stores nothing
		a.log.Warn("ended, since stored data is damaged", "error", err)
		return
	}
	select {
	case a.failed <- err:
	default:
	}
}

// share is a part of the grace period, for steps that wait for others. There are four; what is left is for the stores.
func (a *App) share() time.Duration { return a.cfg.Grace.D() / 6 }

// storePatience is how long a store may take to write what is queued. It is longer than a disk under load needs.
const storePatience = 30 * time.Second

// startProcess takes the data folder and applies the settings of the process.
func (a *App) startProcess(context.Context) error {
	undo := tune(a.cfg)
	a.steps.addClose("tuning", time.Second, func() error { undo(); return nil })
	lock, err := datadir.Acquire(a.cfg.Data)
	if err != nil {
		return err
	}
	a.steps.addClose("data folder", time.Second, lock.Release)
	a.lock = lock
	if a.cfg.Dev && a.cfg.DevAnyAddress {
		a.log.Warn("development server on addresses that others can reach: anybody may publish and listen")
	}
	return datadir.RemoveAddresses(a.cfg.Data)
}

// announce writes down where the server listens, last of all: who sees the file can connect. Before that it writes down with
// which settings it runs, for commands beside it.
func (a *App) announce(context.Context) error {
	from, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the present folder: %w", err)
	}
	if err := datadir.WriteSettings(a.cfg.Data, datadir.Settings{Folder: from, Values: a.cfg.Said()}); err != nil {
		return err
	}
	a.steps.addClose("settings", time.Second, func() error { return datadir.RemoveSettings(a.cfg.Data) })
	if err := datadir.WriteAddresses(a.cfg.Data, a.addrs); err != nil {
		return err
	}
	a.steps.addClose("addresses", time.Second, func() error { return datadir.RemoveAddresses(a.cfg.Data) })
	return nil
}

// startDrain waits for being told to drain.
func (a *App) startDrain(context.Context) error {
	a.steps.addRun("drain", time.Second, func(ctx context.Context) error { return a.runDrain(ctx, a.opts.Drain) }, a.fail)
	return nil
}

// hostname names this node in presence.
func hostname() string {
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "godwit"
}
