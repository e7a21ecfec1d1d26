package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/server/httpapi"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/direct"
	"godwit.dev/godwit/internal/server/httpapi/operator"
	"godwit.dev/godwit/internal/server/httpapi/public"
	"godwit.dev/godwit/internal/server/watch"
)

// mailboxes is the union of the mailbox interfaces of all calls.
type mailboxes interface {
	backend.Mailbox
	recipient.Mailbox
	public.Mailbox
	operator.Mailbox
}

// allObjects is the union of the object interfaces of all calls.
type allObjects interface {
	backend.Objects
	recipient.Objects
}

// setup holds the parts of an API that a test may change.
type setup struct {
	Publisher backend.Publisher
	Mailbox   mailboxes
	Objects   allObjects
	Topics    backend.Topics
	Requests  backend.Requests
	Services  operator.Gateway
	Presence  interface {
		recipient.Presence
		operator.Presence
	}
	Events   event.Log
	Access   access.Access
	Audit    *audit.Log
	Keys     operator.Keys
	Server   operator.Apps
	Operator httpapi.Operators
	Limit    *limit.Addrs // of calls with an operator key
	KeyFile  string
	Apps     public.Apps
	Receipts public.Receipts
	Channels interface {
		operator.Channels
		public.Channels
	}
	Endpoints   *endpoint.Service
	Preferences public.Preferences
	Settings    operator.AppSettings
	Campaigns   interface {
		backend.Campaigns
		public.Campaigns
	}
	Templates         backend.Templates
	Segments          *segment.Service
	Hooks             operator.Hooks
	Sinks             operator.Sinks
	Sources           operator.Sources
	Log               *slog.Logger
	Registry          *prometheus.Registry
	PublishLimit      func(key string, n int) (wait time.Duration)
	Signups, AckLimit *limit.Addrs
	Direct            *direct.Server
	Gateway           http.Handler
	Mount             map[string]http.Handler
	Figures           func() operator.Figures
	Cluster           operator.Clusters
	Forget            func(ctx context.Context, node string) error
	Draining          <-chan struct{}
	Ready             func(ctx context.Context) error
	Version, Node     string
}

// calls returns the handlers of the API.
func (s *setup) calls(seen *watch.Server) (*backend.API, []call.Route) {
	people := recipient.New(recipient.Config{Mailbox: s.Mailbox, Presence: s.Presence, Endpoints: s.Endpoints, Objects: s.Objects, Log: s.Log})
	b := backend.New(backend.Parts{
		Publisher: s.Publisher, Mailbox: s.Mailbox, Timelines: timeline.New(timeline.Config{Mailbox: s.Mailbox, Recipients: people, Now: time.Now}),
		Objects: s.Objects, Topics: s.Topics, Requests: s.Requests, Recipients: people, Events: s.Events, Endpoints: s.Endpoints,
		Campaigns: s.Campaigns, Templates: s.Templates, Segments: s.Segments, Log: s.Log, PublishLimit: s.PublishLimit, Draining: s.Draining, Node: s.Node,
	})
	p := public.New(public.Parts{
		Access: s.Access, Apps: s.Apps, Mailbox: s.Mailbox, Endpoints: s.Endpoints, Campaigns: s.Campaigns, Channels: s.Channels,
		Log: s.Log, Signups: s.Signups, Receipts: s.Receipts, AckLimit: s.AckLimit, Preferences: s.Preferences,
	})
	o := operator.New(operator.Parts{
		Mailbox: s.Mailbox, Presence: s.Presence, Management: operator.Management{Keys: s.Keys, Apps: s.Server, OperatorFile: s.KeyFile}, Channels: s.Channels, Feeds: operator.Feeds{Hooks: s.Hooks, Sources: s.Sources, Sinks: s.Sinks}, Segments: s.Segments, Gateway: s.Services, Settings: s.Settings,
		Audit: s.Audit, Log: s.Log, Registry: s.Registry, Figures: s.Figures, Cluster: s.Cluster, Forget: s.Forget, Draining: s.Draining, Ready: s.Ready, Version: s.Version, Node: s.Node, Watch: seen,
	})
	return b, slices.Concat(b.Routes(), p.Routes(), o.Routes())
}

// handler makes the API of these parts.
func (s *setup) handler() http.Handler {
	seen := watch.Alone(watch.New(), s.Node)
	b, routes := s.calls(seen)
	return httpapi.New(httpapi.Config{
		Routes: routes, Access: s.Access, Operators: s.Operator, OperatorLimit: s.Limit, Audit: s.Audit, Log: s.Log, Registry: s.Registry, Watch: seen, Mount: s.Mount,
		Direct: s.Direct, Posts: b, Gateway: s.Gateway,
	})
}

// routes returns the routes of an API without parts.
func routes() []call.Route {
	_, all := new(setup).calls(nil)
	return all
}
