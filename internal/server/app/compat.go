package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/compat/nammayatri"
	"godwit.dev/godwit/internal/gateway/grpcgate"
	"godwit.dev/godwit/internal/store"
)

// compat is the service that this server stands in for beside its own API, and the streams in Redis that it reads.
type compat struct {
	*nammayatri.Service
	redis nammayatri.Store
}

// startCompat starts standing in for another service, if it is to.
func (a *App) startCompat(ctx context.Context) error {
	if !a.cfg.CompatOn() {
		return nil
	}
	if a.cfg.CompatDev {
		a.log.Warn("DEV is set in the environment: whoever connects gets the notifications of the client whose id is its token")
	}
	if passed := a.cfg.CompatPassedOver(); len(passed) > 0 {
		a.log.Warn("settings of compat_config that mean nothing here", "compat_config", a.cfg.CompatConfig, "settings", passed)
	}
	if !a.cfg.PowerOfTwo() {
		a.log.Warn("max_shards is no power of two: of some clients, publishers write another stream than the service reads that this one stands in for", "max_shards", a.cfg.MaxShards)
	}
	metrics := nammayatri.NewMetrics(deployment())
	redis, err := store.OpenRedis(ctx, store.RedisConfig{
		URLs: a.cfg.RedisURLs(), App: nammayatri.App, MaxShards: a.cfg.MaxShards, AnyShards: a.cfg.Force, Observer: metrics, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.steps.add("Redis", storePatience, redis.Close)
	a.steps.addRun("streams in Redis", storePatience, redis.Run, a.fail)
	a.compat = &compat{redis: redis, Service: nammayatri.New(nammayatri.Config{
		Store: redis, Metrics: metrics, Recipient: store.RedisRecipient, Origins: a.cfg.Origins(), Dev: a.cfg.CompatDev,
		DriverAPI: a.cfg.DriverAPIURL, Timeout: a.cfg.CompatStreamTimeout.D(), Redeliver: a.cfg.CompatRetryDelay.D(), Window: a.cfg.Window,
		Stopping: a.draining, Log: a.log,
	})}
	a.hub.Beside(a.compat.Live)
	a.steps.addClose("streams of "+a.cfg.Compat, storePatience, a.compat.Close)
	return nil
}

// deployment is the version that metrics carry.
func deployment() string {
	if v := os.Getenv("DEPLOYMENT_VERSION"); v != "" {
		return v
	}
	return "DEV"
}

// registerCompat adds its gRPC services.
func (a *App) registerCompat(srv *grpcgate.Server) {
	if a.compat != nil {
		a.compat.Register(srv)
	}
}

// compatReady says why its clients could be brought nothing now; nil: there are none.
func (a *App) compatReady() func(context.Context) error {
	if a.compat == nil {
		return nil
	}
	return a.compat.redis.Ready
}

// goodbyes ends all sessions.
func (a *App) goodbyes(ctx context.Context) error {
	return a.eachHub(func(h hub) error { return h.Shutdown(ctx) })
}

// hub is what has sessions.
type hub interface {
	Shutdown(ctx context.Context) error
	Drain(ctx context.Context) error
}

// eachHub does something with all sessions at once.
func (a *App) eachHub(f func(hub) error) error {
	var all errgroup.Group
	all.Go(func() error { return f(a.hub) })
	if a.compat != nil {
		all.Go(func() error { return f(a.compat) })
	}
	return all.Wait()
}

// Limits of the listener for probes and scrapes.
const (
	compatConns    = 256
	compatPatience = 15 * time.Second // for a request and its answer
)

// serveCompat serves its HTTP listener and returns how to end accepting.
func (a *App) serveCompat(ln net.Listener) (stop func()) {
	srv := &http.Server{
		Handler: a.compat.Handler(a.registry), ReadTimeout: compatPatience, WriteTimeout: compatPatience, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	srv.SetKeepAlivesEnabled(false) // requests are rare, and none can be taken for the one before
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(netutil.LimitListener(ln, compatConns)); !a.stopping.Load() {
			a.fail(fmt.Errorf("serve compat_http_addr: %w", err))
		}
	}()
	a.steps.addPolite("probes of "+a.cfg.Compat, time.Second, func(ctx context.Context) error {
		err := srv.Shutdown(ctx)
		if err != nil {
			err = errors.Join(err, srv.Close())
		}
		<-done
		return err
	})
	return func() { _ = ln.Close() } // again, where the server closes it
}
