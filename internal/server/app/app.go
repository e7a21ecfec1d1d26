// Package app wires the server and owns its life cycle: each part registers its stop step where it is started, and the steps run in reverse
// order. Packages below it start the parts.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/lifecycle"
	"godwit.dev/godwit/internal/server/metrics"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/modules"
	"godwit.dev/godwit/internal/server/watch"
)

// Options configure a server in addition to its settings.
type Options struct {
	Log     *slog.Logger
	Version string
	VFS     string          // SQLite's file system for data that must not be lost; tests inject faults with it
	LogLost func() uint64   // returns the number of lost log lines; nil: none is ever lost
	Drain   <-chan struct{} // gets an element when the node must send its sessions away; nil: never
	Modules []module.Module // nil: modules.All()
	// OperatorKey gets the operator key that a first start has made; nil: the data folder alone has it.
	OperatorKey func(key string)
	// Commands returns the commands of the program for the documentation; nil: it has none.
	Commands func() []module.Command

	Embedded bool // a program embeds the server: it serves Handler, and the process belongs to it
	Process  bool // an embedded server may tune the process as well
}

// tunes reports whether the server may change settings of its process.
func (o *Options) tunes() bool { return !o.Embedded || o.Process }

// App is a running server.
type App struct {
	cfg  *config.Config
	opts Options
	log  *slog.Logger

	steps    *lifecycle.Steps
	registry *prometheus.Registry
	watch    *watch.Watch
	failed   chan error    // the first failure that ends the server
	draining chan struct{} // closed when the server stops or drains
	unready  sync.Once
	stopOnce sync.Once
	stopErr  error
	addrs    datadir.Addresses
	byKey    map[string]string // the addresses by keys of settings
	handler  http.Handler      // of an embedded server
	begun    time.Time
	modules  *module.Set
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
	if opts.Modules == nil {
		opts.Modules = modules.All()
	}
	if err := Admit(opts.Modules); err != nil {
		return nil, err
	}
	cfg, err := cfg.With(Sections(opts.Modules)...)
	if err != nil {
		return nil, err
	}
	a := &App{
		cfg: cfg, opts: opts, begun: time.Now(),
		failed: make(chan error, 1), draining: make(chan struct{}), registry: metrics.New(opts.Version), watch: watch.New(),
	}
	a.log = slog.New(a.watch.Handler(opts.Log.Handler()))
	a.steps = lifecycle.New(a.log, a.fail)
	err = a.wire(ctx)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Grace.D())
		defer cancel()
		return nil, errors.Join(err, a.Stop(stop))
	}
	a.log.Info("ready", "http", a.addrs.HTTP, "grpc", a.addrs.GRPC, "nats", a.addrs.NATS, "quic", a.addrs.QUIC, "gateway", a.addrs.Gateway, "compat_http", a.addrs.CompatHTTP, "data", cfg.Data, "version", opts.Version, "took_ms", time.Since(a.begun).Milliseconds())
	return a, nil
}

// Handler returns the handler of everything over HTTP, for a program that embeds the server.
func (a *App) Handler() http.Handler { return a.handler }

// Failed returns a channel that gets an element once the server cannot continue.
func (a *App) Failed() <-chan error { return a.failed }

// Modules returns the registrations of the server's modules.
func (a *App) Modules() *module.Set { return a.modules }

// Addrs returns the server's listening addresses by the keys of settings.
func (a *App) Addrs() map[string]string { return maps.Clone(a.byKey) }

// Addresses returns the server's listening addresses.
func (a *App) Addresses() datadir.Addresses { return a.addrs }

// Stop stops the server: it refuses new connections, reports not ready, ends the sessions with a goodbye, finishes answers under way, and
// flushes. It returns when everything has stopped or ctx ends.
func (a *App) Stop(ctx context.Context) error {
	a.stopOnce.Do(func() {
		begun := time.Now()
		a.stopErr = a.steps.Stop(ctx)
		a.log.Info("stopped", "took_ms", time.Since(begun).Milliseconds())
	})
	return a.stopErr
}

// fail records a failure after which the server cannot continue. Only the first counts: later failures are consequences.
func (a *App) fail(err error) {
	var damage *mailbox.DamagedError
	if errors.As(err, &damage) { // sessions continue, like all parts that store nothing
		a.log.Warn("ended, since stored data is damaged", "error", err)
		return
	}
	select {
	case a.failed <- err:
	default:
	}
}

// announce writes the address file as the last step of the start: whoever sees the file can connect. First it writes the settings file, for
// commands that run beside the server.
func (a *App) announce() error {
	from, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the present folder: %w", err)
	}
	if err := datadir.WriteSettings(a.cfg.Data, datadir.Settings{Folder: from, Values: a.cfg.Said()}); err != nil {
		return err
	}
	a.steps.AddClose("settings", time.Second, func() error { return datadir.RemoveSettings(a.cfg.Data) })
	if err := datadir.WriteAddresses(a.cfg.Data, a.addrs); err != nil {
		return err
	}
	a.steps.AddClose("addresses", time.Second, func() error { return datadir.RemoveAddresses(a.cfg.Data) })
	return nil
}
