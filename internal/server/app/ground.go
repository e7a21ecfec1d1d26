package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/server/app/datadir"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/certs"
	"godwit.dev/godwit/internal/server/tracing"
	"godwit.dev/godwit/internal/store"
)

// openGround opens the things that every part needs. It reads certificates before it makes or opens anything else, so that a missing file
// leaves nothing behind.
func (a *App) openGround(ctx context.Context) (*ground.Ground, *tracing.Reporter, error) {
	g := &ground.Ground{
		Settings: a.cfg, Version: a.opts.Version, Modules: a.opts.Modules, Node: nodeName(a.cfg.Node),
		Log: a.log, Steps: a.steps, Registry: a.registry, Watch: a.watch, Fail: a.fail, Draining: a.draining,
		Certificates: make(map[string]*certs.Files),
	}
	if err := readTLS(g); err != nil {
		return nil, nil, err
	}
	if a.opts.tunes() {
		undo := tune(g.Settings)
		g.Steps.AddClose("tuning", time.Second, func() error { undo(); return nil })
	}
	lock, err := takeData(g)
	if err != nil {
		return nil, nil, err
	}
	if err := openStores(ctx, g, lock, a.opts.VFS, Tables(a.opts.Modules)); err != nil {
		return nil, nil, err
	}
	reporter, err := prepareReports(ctx, g)
	if err != nil {
		return nil, nil, err
	}
	if g.Tracer, err = startTracing(ctx, g); err != nil {
		return nil, nil, err
	}
	if g.Access, err = a.startAccess(ctx, g); err != nil {
		return nil, nil, err
	}
	return g, reporter, nil
}

// nodeName returns this node's name, which other nodes and presence show.
func nodeName(set string) string {
	if set != "" {
		return set
	}
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "godwit"
}

const (
	expiryName = "godwit_tls_certificate_expiry_timestamp_seconds"
	expiryHelp = "When the certificate that is shown to clients, or in the cluster to other nodes, ends, in Unix time."
)

// readTLS reads the certificates, and exports the end of each to Prometheus, read from disk at each scrape.
func readTLS(g *ground.Ground) error {
	s := g.Settings
	use := func(to string, files *certs.Files) {
		g.Certificates[to] = files
		g.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: expiryName, Help: expiryHelp,
			ConstLabels: prometheus.Labels{"to": to},
		}, func() float64 { return float64(files.NotAfter().Unix()) }))
	}
	if s.TLSCert != "" {
		c, err := certs.Load(s.TLSCert, s.TLSKey, s.TLSClientCA, g.Log)
		if err != nil {
			return err
		}
		g.TLS = c.Server
		use("clients", c)
	}
	if s.ClusterTLSCert != "" {
		c, err := certs.LoadMutual(s.ClusterTLSCert, s.ClusterTLSKey, s.ClusterTLSCA, g.Log)
		if err != nil {
			return err
		}
		g.NodeTLS = c.Mutual()
		use("cluster", c)
	}
	return nil
}

// takeData takes the data folder.
func takeData(g *ground.Ground) (*datadir.Lock, error) {
	lock, err := datadir.Acquire(g.Settings.Data)
	if err != nil {
		return nil, err
	}
	g.Steps.AddClose("data folder", time.Second, lock.Release)
	if g.Settings.Dev && g.Settings.DevAnyAddress {
		g.Log.Warn("development server on addresses that others can reach: anybody may publish and listen")
	}
	return lock, datadir.RemoveAddresses(g.Settings.Data)
}

// bootLen is the number of random characters in the name of a start: 40 bits.
const bootLen = 8

// openStores opens the stores. They close when all their users have ended.
func openStores(ctx context.Context, g *ground.Ground, lock *datadir.Lock, vfs string, tables []store.Tables) error {
	s, boot, former := g.Settings, rand.Text()[:bootLen], ""
	if s.Several() {
		g.Boot = boot
	}
	if s.Postgres != "" {
		var err error
		if former, err = lock.Boot(boot); err != nil {
			return err
		}
	}
	damaged := func(err error) { // sessions continue; nothing is stored any more
		g.Log.Error("stored data is damaged; not ready, and nothing is stored any more: stop the server and run godwit doctor --repair", "data", s.Data, "error", err)
	}
	stores, err := store.Open(ctx, store.Config{
		Data: s.Data, Postgres: s.Postgres, Node: g.Node, Shared: s.Several(), Boot: boot, Former: former, MaxPending: s.MaxPending, MinFree: int64(s.MinFree), Ballast: int64(s.Ballast),
		Events: s.EventsRetain.D(), NoAttempts: !s.Attempts, Fatal: g.Fail, Damaged: damaged, Log: g.Log, VFS: vfs, Tables: tables,
	})
	if err != nil {
		return err
	}
	g.Stores = stores
	for _, p := range stores.Parts() {
		g.Steps.AddClose(p.Name, ground.StorePatience, p.Close)
	}
	g.Steps.AddRun("watch over files", time.Second, func(ctx context.Context) error { return watchFiles(ctx, lock, stores) })
	g.Registry.MustRegister(stores.Metrics()...)
	g.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "godwit_store_damaged", Help: "1 if stored data was found damaged, so that nothing more is stored; else 0.",
	}, func() float64 {
		if stores.Damage() != nil {
			return 1
		}
		return 0
	}))
	g.Audit = audit.New(stores.Audit, stores.Clock, g.Log)
	g.Registry.MustRegister(g.Audit)
	if g.Eraser, err = recipient.NewEraser(recipient.EraserConfig{
		File: filepath.Join(s.Data, "erasures.json"), After: s.EraseWithin.D(), Forget: []recipient.Forgetter{stores.Events, g.Audit}, Scrub: stores.Scrub, Log: g.Log,
	}); err != nil {
		return err
	}
	g.Steps.AddRun("erasures", ground.StorePatience, g.Eraser.Run)
	return nil
}

// filesEvery is the interval of checks that the files in use still exist: within a second after they are gone, the server must acknowledge
// nothing more.
const filesEvery = 250 * time.Millisecond

// watchFiles ends the server when one of its files was removed or replaced: whatever it writes would be lost.
func watchFiles(ctx context.Context, lock *datadir.Lock, stores *store.Stores) error {
	tick := time.NewTicker(filesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := lock.Gone()
		if err == nil {
			err = stores.Gone()
		}
		if err != nil {
			stores.Refuse(err)
			return err
		}
	}
}

// startAccess starts apps and keys.
func (a *App) startAccess(ctx context.Context, g *ground.Ground) (*access.Registry, error) {
	s := g.Settings
	cfg := access.Config{Dev: s.Dev, Serves: true, Targets: s.Targets(), Origin: access.OwnOrigin(s.PublicURL)}
	registry, err := access.NewRegistry(ctx, g.Stores.Access, cfg, g.Log)
	if err != nil {
		return nil, fmt.Errorf("start access: %w", err)
	}
	g.Steps.AddClose("access", ground.StorePatience, func() error { registry.Close(); return nil })
	if err := registry.Bootstrap(ctx, s.BootstrapApp, s.BootstrapKeyFile); err != nil {
		return nil, err
	}
	if err := a.ensureOperator(ctx, g, registry); err != nil {
		return nil, err
	}
	g.Steps.AddRun("access watch", ground.StorePatience, registry.Run)
	if len(registry.Apps()) == 0 {
		g.Log.Warn("there is no app yet: make one with godwit app create NAME", "data", s.Data)
	}
	return registry, nil
}

// ensureOperator makes the operator key at the first start, and passes a new key to Options.OperatorKey.
func (a *App) ensureOperator(ctx context.Context, g *ground.Ground, r *access.Registry) error {
	file := g.OperatorFile()
	made, lacking, err := r.EnsureOperator(ctx, file)
	if err != nil {
		return err
	}
	if made != "" && a.opts.OperatorKey != nil {
		a.opts.OperatorKey(made)
	}
	if lacking && g.Settings.Postgres == "" { // of several nodes, one has the file
		g.Log.Warn("the data folder has no operator.key that this server knows: the key that somebody keeps elsewhere goes on working; godwit operator rotate --local makes another while the server is stopped", "file", file)
	}
	return nil
}
