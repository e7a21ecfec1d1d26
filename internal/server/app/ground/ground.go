// Package ground holds the basis of every part of a server: settings, stores, apps and keys, metrics, and the stop steps.
package ground

import (
	"context"
	"crypto/tls"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/server/certs"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/lifecycle"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/server/tracing"
	"godwit.dev/godwit/internal/server/watch"
	"godwit.dev/godwit/internal/store"
)

// StorePatience limits the time for a store to write its queue. A disk under load needs less.
const StorePatience = 30 * time.Second

// Ground holds the things that every part of a server needs.
type Ground struct {
	Settings *config.Config
	Version  string
	Modules  []module.Module // that join the server
	Node     string          // this node's name among others and in presence
	Boot     string          // id of this start of the node; empty: it is alone

	Log      *slog.Logger
	Steps    *lifecycle.Steps
	Registry *prometheus.Registry
	Watch    *watch.Watch
	// Fail ends the server with a failure after which it cannot continue.
	Fail func(error)
	// Draining is closed when the server stops or drains.
	Draining <-chan struct{}

	TLS     func(protocols ...string) *tls.Config // of listeners; nil: plain
	NodeTLS *tls.Config                           // between nodes; nil: plain
	// Certificates holds the certificates in use, by the kind of peer to which they are shown.
	Certificates map[string]*certs.Files

	Stores *store.Stores
	Audit  *audit.Log
	Eraser *recipient.Eraser
	Tracer *tracing.Tracer // nil: nothing is traced
	Access *access.Registry
}

// Now returns the time of the stores' clock.
func (g *Ground) Now() time.Time { return g.Stores.Clock() }

// Own returns a function that takes leases on apps' work that only one node may do at a time. Nil: there are no other nodes.
func (g *Ground) Own(what string) lease.Func {
	if g.Stores.Own == nil {
		return nil
	}
	return func(app string, run func(context.Context, func() bool)) (release func()) {
		return g.Stores.Own(what+"/"+app, run)
	}
}

// OperatorFile returns the name of the file with the operator key.
func (g *Ground) OperatorFile() string { return filepath.Join(g.Settings.Data, access.OperatorFile) }

// Share returns a sixth of the grace period, for one step that waits for others. There are four such steps; the stores get the rest.
func (g *Ground) Share() time.Duration { return g.Settings.Grace.D() / 6 }
