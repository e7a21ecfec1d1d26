// Package compat starts the parts that replace another service for its clients.
package compat

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/net/netutil"

	"godwit.dev/godwit/internal/compat/nammayatri"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/listen"
	"godwit.dev/godwit/internal/store"
)

// Service is the other service whose clients this server serves in addition to its own API.
type Service struct {
	*nammayatri.Service
	// Ready returns an error if nothing can be delivered to the service's clients now.
	Ready func(context.Context) error
}

// Start starts the replacement of another service; it returns nil if the settings name none.
func Start(ctx context.Context, g *ground.Ground, hub *session.Hub) (*Service, error) {
	s := g.Settings
	if !s.CompatOn() {
		return nil, nil
	}
	warn(g)
	metrics := nammayatri.NewMetrics(deployment())
	redis, err := store.OpenRedis(ctx, store.RedisConfig{
		URLs: s.RedisURLs(), App: nammayatri.App, MaxShards: s.MaxShards, AnyShards: s.Force, Observer: metrics, Log: g.Log,
	})
	if err != nil {
		return nil, err
	}
	g.Steps.Add("Redis", ground.StorePatience, redis.Close)
	g.Steps.AddRun("streams in Redis", ground.StorePatience, redis.Run)
	service := nammayatri.New(nammayatri.Config{
		Store: redis, Metrics: metrics, Recipient: store.RedisRecipient, Origins: s.Origins(), Dev: s.CompatDev,
		DriverAPI: s.DriverAPIURL, Timeout: s.CompatStreamTimeout.D(), Redeliver: s.CompatRetryDelay.D(), Window: s.Window,
		Stopping: g.Draining, Log: g.Log,
	})
	hub.Beside(service.Live)
	g.Steps.AddClose("streams of "+s.Compat, ground.StorePatience, service.Close)
	return &Service{Service: service, Ready: redis.Ready}, nil
}

// warn logs settings whose effects may surprise.
func warn(g *ground.Ground) {
	s := g.Settings
	if s.CompatDev {
		g.Log.Warn("DEV is set in the environment: whoever connects gets the notifications of the client whose id is its token")
	}
	if passed := s.CompatPassedOver(); len(passed) > 0 {
		g.Log.Warn("settings of compat_config that mean nothing here", "compat_config", s.CompatConfig, "settings", passed)
	}
	if !s.PowerOfTwo() {
		g.Log.Warn("max_shards is no power of two: of some clients, publishers write another stream than the service reads that this one stands in for", "max_shards", s.MaxShards)
	}
}

// deployment returns the version that metrics carry.
func deployment() string {
	if v := os.Getenv("DEPLOYMENT_VERSION"); v != "" {
		return v
	}
	return "DEV"
}

// Limits of the listener for probes and scrapes.
const (
	mostConns = 256
	patience  = 15 * time.Second // limits a request and its answer
)

// Listener returns the listener for the probes and scrapes of the replaced service.
func (c *Service) Listener(g *ground.Ground) listen.Listener {
	return listen.Listener{
		Key: "compat_http_addr", Owner: "compat", Addr: g.Settings.ListenAddr(g.Settings.CompatHTTPAddr), Plain: true,
		Serve: func(ln net.Listener, _ *tls.Config) (listen.Service, error) {
			srv := &http.Server{
				Handler: c.Handler(g.Registry), ReadTimeout: patience, WriteTimeout: patience, MaxHeaderBytes: 16 << 10,
				ErrorLog: slog.NewLogLogger(g.Log.Handler(), slog.LevelDebug),
			}
			srv.SetKeepAlivesEnabled(false) // requests are rare, and request smuggling needs a second request on the connection
			return listen.Service{
				Name: "probes of " + g.Settings.Compat, Patience: time.Second,
				Run:      func(context.Context) error { return srv.Serve(netutil.LimitListener(ln, mostConns)) },
				Shutdown: func(ctx context.Context) error { return listen.Shutdown(ctx, srv) },
			}, nil
		},
	}
}
