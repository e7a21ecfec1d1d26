// Package web starts the services over HTTP: the API, the web page, the gateways to clients, and the gateway to workers.
package web

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
	"godwit.dev/godwit/internal/access/signin/provider"
	"godwit.dev/godwit/internal/gateway"
	"godwit.dev/godwit/internal/gateway/pollgate"
	"godwit.dev/godwit/internal/gateway/ssegate"
	"godwit.dev/godwit/internal/gateway/uploads"
	"godwit.dev/godwit/internal/gateway/workergate"
	"godwit.dev/godwit/internal/gateway/wsgate"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin"
	"godwit.dev/godwit/internal/server/app/figures"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/httpapi"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/direct"
	"godwit.dev/godwit/internal/server/httpapi/operator"
	"godwit.dev/godwit/internal/server/httpapi/public"
	"godwit.dev/godwit/internal/server/module"
)

// Web holds the HTTP servers and their parts.
type Web struct {
	*figures.Server
	// Ready returns an error if another service that this server replaces cannot deliver now. Nil: it replaces none.
	Ready   func(context.Context) error
	Modules *module.Set
	// QUIC returns the address of the QUIC listener once all listeners are open; empty: there is none.
	QUIC func() string

	direct  *direct.Server // nil: http_addr is off
	uploads *uploads.Store
	fetched []call.Route // with which workers fetch uploads

	opening sync.Once
	workers *workergate.Gate

	making sync.Once
	whole  http.Handler
	failed error // of making it
}

// New makes a Web, and starts the store of uploads.
func New(s *figures.Server) (*Web, error) {
	w := &Web{Server: s}
	return w, w.openUploads()
}

// Handler returns the handler of everything over HTTP, and makes it on the first call.
func (w *Web) Handler() (http.Handler, error) {
	w.making.Do(func() {
		h, err := w.handler()
		w.whole, w.failed = framed(h), err
	})
	return w.whole, w.failed
}

// presence is the API's interface to live sessions.
type presence interface {
	recipient.Presence
	operator.Presence
}

// sessions returns the sessions of all nodes.
func (w *Web) sessions() presence {
	if w.Core.Cluster != nil {
		return w.Core.Cluster
	}
	return w.Core.Hub
}

// handler makes the handler of the HTTP listener.
func (w *Web) handler() (http.Handler, error) {
	if w.Settings.HTTPAddr != config.Off {
		w.direct = direct.New(w.Conns.Reactor, w.Log)
	}
	mount := w.clients()
	known := w.recipients()
	told := w.timelines(known)
	pages, err := w.pages(known, told)
	if err != nil {
		return nil, err
	}
	mount["/{$}"], mount["/ui/"] = pages, pages
	origin := newGatewayOrigin(w.Settings)
	posts, routes := w.routes(known, told)
	routes = append(routes, w.fetched...)
	if err := w.free(routes, mount); err != nil {
		return nil, err
	}
	maps.Copy(mount, w.Modules.Mounts())
	for _, rt := range w.Modules.Routes() {
		routes = append(routes, rt.Route)
	}
	api := httpapi.New(httpapi.Config{
		Routes: routes, Access: w.Access, Operators: w.Access, OperatorLimit: w.Conns.Operator, Audit: w.Audit, Log: w.Log, Registry: w.Registry, Watch: w.Watched(), Mount: mount,
		Direct: w.direct, Posts: posts,
		Gateway: w.Workers(), Calls: w.calls, Serves: origin.parts,
	})
	if w.Settings.Dev && !w.Settings.DevAnyAddress && w.TLS == nil { // with TLS, the names in the certificate protect the server
		return localHosts(api, origin, w.Settings.PublicURL), nil
	}
	return api, nil
}

// Workers returns the gateway to workers, and makes it on the first call.
func (w *Web) Workers() *workergate.Gate {
	w.opening.Do(func() {
		cfg := workergate.Config{Asker: w.Core.Requests, Access: w.Access, Place: newGatewayOrigin(w.Settings).place(), Uploads: w.uploads, Log: w.Log}
		if w.Tracer != nil {
			cfg.Tracer = w.Tracer
		}
		w.workers = workergate.New(cfg)
	})
	return w.workers
}

// calls answers calls of the gateway on connections that were taken over.
func (w *Web) calls(lot []*direct.Call) {
	var with workergate.Together
	defer with.Send()
	for _, x := range lot {
		w.Workers().Start(x, x.R, x.Body, &with, w.direct.Go)
	}
}

// free returns an error if a module has taken one of the server's own routes.
func (w *Web) free(routes []call.Route, mount map[string]http.Handler) error {
	patterns := slices.Collect(maps.Keys(mount))
	for _, rt := range routes {
		patterns = append(patterns, rt.Pattern)
	}
	return w.Modules.Free("the server", patterns...)
}

// clients returns the gateways to clients, by mux pattern.
func (w *Web) clients() map[string]http.Handler {
	posting := gateway.NewPostingClients(w.Access)
	posting.ForwardTo(w.Core.Forwarder(w.Boot))
	poll := pollgate.New(pollgate.Config{Hub: w.Core.Hub, Posting: posting, Origins: w.Access, Log: w.Log})
	w.Steps.AddClose("polls", time.Second, poll.Close)
	w.Core.ServeForwarded(map[string]http.Handler{"/v1/frames": posting, "/v1/poll": poll})
	return map[string]http.Handler{
		"/v1/connect": wsgate.New(wsgate.Config{Hub: w.Core.Hub, Origins: w.Access, Reactor: w.Conns.Reactor, Log: w.Log}),
		"/v1/frames":  posting,
		"/v1/poll":    poll,
		"/v1/stream":  ssegate.New(ssegate.Config{Hub: w.Core.Hub, Posting: posting, Origins: w.Access, Reactor: w.Conns.Reactor, Log: w.Log}),
	}
}

// recipients makes the service that lists and erases recipients, and starts the erasure of deleted apps' recipients.
func (w *Web) recipients() *recipient.Service {
	known := recipient.New(recipient.Config{Mailbox: w.Core.Mailbox, Presence: w.sessions(), Endpoints: w.Sending.Endpoints, Objects: w.Core.Objects, Rest: w.Modules, Traces: w.Eraser, Log: w.Log})
	w.Steps.AddRun("erasures of apps", ground.StorePatience, recipient.NewApps(recipient.AppsConfig{
		Erasing: w.Access.Erasing, Erased: w.Access.AppErased, Mailbox: w.Core.Mailbox, Objects: w.Core.Objects, Rest: w.eraseRest,
		Files: w.Eraser.Deleted, Own: w.Own("erasures"), Log: w.Log,
	}).Run)
	return known
}

// eraseRest deletes the data of a deleted app outside its mailboxes and objects.
func (w *Web) eraseRest(ctx context.Context, app string) error {
	if err := w.Stores.EraseApp(ctx, app); err != nil {
		return err
	}
	if err := w.uploads.Place.EraseApp(ctx, app); err != nil {
		return fmt.Errorf("erase uploads of app %s: %w", app, err)
	}
	return w.Modules.EraseApp(ctx, app)
}

// timelines makes the service of timelines; known finds their recipients.
func (w *Web) timelines(known *recipient.Service) *timeline.Service {
	cfg := timeline.Config{Mailbox: w.Core.Mailbox, Steps: w.Sending.Escalations, Recipients: known, Now: time.Now, Watchers: w.Core.Watchers}
	if w.Settings.Attempts {
		cfg.Started = w.Now()
	}
	return timeline.New(cfg)
}

// EscalationSteps makes the service that tells the state of a copy's steps.
func (w *Web) EscalationSteps() *timeline.Service {
	return timeline.New(timeline.Config{Steps: w.Sending.Escalations})
}

// ReadDraft reads the body of a publish, for modules that take one in another way.
var ReadDraft = backend.ReadDraft

// routes returns the calls of the API. The backend API also answers publishes on connections that were handed over to package direct.
func (w *Web) routes(known *recipient.Service, told *timeline.Service) (*backend.API, []call.Route) {
	c, s, stores := w.Core, w.Sending, w.Stores
	b := backend.New(backend.Parts{
		Publisher: c.Publisher, Mailbox: c.Mailbox, Timelines: told, Objects: c.Objects, Topics: c.Topics, Requests: c.Requests, Recipients: known, Events: stores.Events, Endpoints: s.Endpoints,
		Campaigns: s.Campaigns, Templates: c.Templates, Segments: s.Segments, Broadcasts: s.Activities, Log: w.Log, PublishLimit: w.Conns.Publish.Take, Draining: w.Draining, Node: w.Node,
	})
	p := public.New(public.Parts{
		Access: w.Access, Apps: w.Access, Mailbox: c.Mailbox, Endpoints: s.Endpoints, Campaigns: s.Campaigns, Channels: s.Channels,
		Log: w.Log, Signups: w.Conns.Signups, Receipts: s.Escalations, AckLimit: w.Conns.Acks, Preferences: stores.Preferences,
	})
	o := operator.New(operator.Parts{
		Mailbox: c.Mailbox, Presence: w.sessions(), Management: operator.Management{Keys: w.Access, Apps: w.Access, OperatorFile: w.OperatorFile()}, Channels: s.Channels, Feeds: operator.Feeds{Hooks: w.Hooks, Sources: w.Sources, Sinks: w.Sinks}, Segments: s.Segments, Gateway: w.Access, Settings: w.Access, Audit: w.Audit, Log: w.Log,
		Registry: w.Registry, Figures: w.Figures, Cluster: w.Cluster, Forget: w.Forget, Draining: w.Draining, Ready: w.Ready, Version: w.Version, Node: w.Node, Watch: w.Watched(),
	})
	return b, slices.Concat(b.Routes(), p.Routes(), o.Routes())
}

// pages is the web page.
func (w *Web) pages(known *recipient.Service, told *timeline.Service) (http.Handler, error) {
	c, s := w.Core, w.Sending
	handler, err := admin.New(admin.Config{
		SignInParts: admin.SignInParts{
			Access: w.Access, Apps: w.Access, Logins: signin.NewLogins(w.Stores.People, w.Stores.Clock), Provider: w.provider(), Admit: w.Conns.Connects.Allow,
			Dev: w.Settings.Dev, TLS: w.TLS != nil, Origin: access.OwnOrigin(w.Settings.PublicURL),
		},
		CampaignParts: admin.CampaignParts{
			Campaigns: s.Campaigns, Audience: s.Endpoints, Templates: c.Templates, Segments: s.Segments,
			Ready: func(ctx context.Context, app string, ch push.Channel) bool {
				_, err := s.Channels.Sender(ctx, app, ch)
				return err == nil
			},
		},
		RecipientParts: admin.RecipientParts{
			Recipients: known, Mailbox: c.Mailbox, Timelines: told, Presence: w.sessions(), Objects: c.Objects,
			Publisher: c.Publisher, PublishLimit: w.Conns.Publish.Take, Preferences: w.Stores.Preferences,
		},
		IntegrationParts: admin.IntegrationParts{Settings: w.Access, Keys: w.Access, Channels: s.Channels, Hooks: w.Hooks, Sinks: w.Sinks, Sources: w.Sources},
		Pages:            w.Modules.Pages(), Audit: w.Audit, Watch: w.Watched(), Draining: w.Draining, Log: w.Log, Version: w.Version,
	})
	var taken *admin.TakenError
	if errors.As(err, &taken) {
		return nil, fmt.Errorf("%s registers %w", w.Modules.PageOwner(taken.Path), err)
	}
	return handler, err
}

// provider returns the sign-in through an identity provider; nil: people sign in with keys only.
func (w *Web) provider() *provider.Provider {
	s := w.Settings
	if s.OIDCIssuer == "" {
		return nil
	}
	rules, _ := signin.ParseRules(s.OIDCAllow) // was checked with the settings
	p := provider.New(provider.Config{
		Issuer: s.OIDCIssuer, ClientID: s.OIDCClientID, Secret: s.OIDCClientSecret, Scopes: strings.Fields(s.OIDCScopes), Rules: rules,
		Redirect: strings.TrimRight(s.PublicURL, "/") + "/ui/oidc/callback", Now: w.Stores.Clock, Targets: s.Targets(),
	})
	w.Steps.AddClose("provider of sign-ins", time.Second, p.Close)
	return p
}
