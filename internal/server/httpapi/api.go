// Package httpapi is the HTTP API: the list of all routes, who may call them, and how a call is admitted, counted and
// answered when it fails. The packages below have the routes' handlers, one package for each kind of caller: back ends,
// the public, operators. It also carries the handlers of the client gateways, which it mounts and otherwise leaves
// alone.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/gateway/httphead"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/direct"
	"godwit.dev/godwit/internal/server/httpapi/operator"
	"godwit.dev/godwit/internal/server/httpapi/public"
	"godwit.dev/godwit/internal/server/metrics"
	"godwit.dev/godwit/internal/server/problem"
	"godwit.dev/godwit/internal/server/watch"
)

// Mailbox is what the API reads and changes of mailboxes.
type Mailbox interface {
	backend.Mailbox
	recipient.Mailbox
	public.Mailbox
	operator.Mailbox
}

// Objects are an app's, and who is registered for them.
type Objects interface {
	backend.Objects
	recipient.Objects
}

// Presence knows the live sessions.
type Presence interface {
	recipient.Presence
	operator.Presence
}

// Campaigns are the operations on an app's campaigns, and the reports of receivers about them.
type Campaigns interface {
	backend.Campaigns
	public.Campaigns
}

// Channels are an app's ways to reach people outside.
type Channels interface {
	operator.Channels
	public.Channels
}

// Config are the parts of the API.
type Config struct {
	Publisher backend.Publisher
	Mailbox   Mailbox
	Timelines *timeline.Service // nil: one of Mailbox and Presence, without steps beyond live
	Receipts  public.Receipts   // nil: there are none to take
	Objects   Objects
	Topics    backend.Topics
	Requests  backend.Requests
	Services  operator.Gateway // how they are called through Gateway
	Presence  Presence
	Traces    recipient.Traces // of erased recipients; nil: nobody looks for them
	Events    event.Log
	Access    access.Access
	Audit     *audit.Log // nil: nothing is remembered
	Keys      operator.Keys
	Apps      public.Apps
	Channels  Channels
	Endpoints *endpoint.Service
	// Preferences are those of recipients, and Categories what apps say of theirs.
	Preferences public.Preferences
	Categories  operator.Categories
	Campaigns   Campaigns
	Templates   backend.Templates
	Hooks       operator.Hooks
	Sinks       operator.Sinks
	Sources     operator.Sources
	Log         *slog.Logger

	// Registry receives the HTTP metrics and is what /metrics shows.
	Registry *prometheus.Registry
	// PublishLimit takes n publishes of a key from its budget; wait > 0: refused, come back after it. Nil: no limit.
	PublishLimit func(key string, n int) (wait time.Duration)
	// Figures are asked for by GET /v1/stats. Nil: there are none.
	Figures func() operator.Figures
	// Watch remembers the server's figures, and what it has refused and warned of. Nil: nobody looks.
	Watch *watch.Server
	// Signups limits registrations without a token by address. Nil: no limit.
	Signups *limit.Addrs
	// AckLimit limits acknowledgements by token by address. Nil: no limit.
	AckLimit *limit.Addrs
	// Mount adds handlers of the client gateways by mux pattern. They get the connection as it is: no deadline,
	// no wrapped writer, no body limit.
	Mount map[string]http.Handler
	// Direct takes connections over that have published, and answers further publishes there. Nil: net/http keeps them.
	Direct *direct.Server
	// Gateway takes what is below /gw/, with its path as it was sent.
	Gateway http.Handler
	// Serves says what of both is served to a request. Nil: the gateway shares its origin with the rest.
	Serves  func(*http.Request) Parts
	Cluster operator.Clusters // what is known of other nodes; nil: there are none
	// Forget takes a node off the list that was lost; nil: there are no other nodes.
	Forget func(ctx context.Context, node string) error
	// Draining, when closed, ends event feeds so that the server can stop.
	Draining <-chan struct{}
	// Ready says why something else that the server is there for cannot be done now. Nil: there is nothing else.
	Ready   func(ctx context.Context) error
	Version string
	Node    string // this server's name, shown with its sessions
}

type api struct {
	log     *slog.Logger
	access  access.Access
	audit   *audit.Log     // nil: none
	direct  *direct.Server // nil: none
	mux     *http.ServeMux
	metrics *metrics.HTTP
	watch   *watch.Server
}

// New makes the handler of the whole HTTP listener.
func New(cfg Config) http.Handler {
	if cfg.Watch == nil {
		cfg.Watch = watch.Alone(watch.New(), cfg.Node)
	}
	a := &api{log: cfg.Log, access: cfg.Access, audit: cfg.Audit, direct: cfg.Direct, watch: cfg.Watch, mux: http.NewServeMux(), metrics: metrics.NewHTTP(cfg.Registry)}
	for _, rt := range routes(&cfg) {
		a.handle(rt)
	}
	a.handle(route{pattern: "/", serve: a.notFound})
	for pattern, h := range cfg.Mount {
		a.mount(pattern, h)
	}
	tidy := a.tidy(a.mux)
	if cfg.Gateway == nil {
		return tidy
	}
	if cfg.Serves == nil {
		cfg.Serves = func(*http.Request) Parts { return Parts{Gateway: true, Rest: true} }
	}
	return a.beside(cfg.Gateway, tidy, cfg.Serves)
}

// Parts are what the origin of a request has.
type Parts struct {
	Gateway bool // paths below /gw/
	Rest    bool // the web page, the API and all else
}

// beside puts the gateway beside the rest, which would answer paths that it finds untidy with a redirect.
func (a *api) beside(gateway, rest http.Handler, serves func(*http.Request) Parts) http.Handler {
	m := a.metrics.Route(gatewayPrefix)
	elsewhere := a.elsewhere()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forGateway, parts := strings.HasPrefix(r.URL.Path, gatewayPrefix), serves(r)
		switch {
		case forGateway && !parts.Gateway, !forGateway && !parts.Rest:
			elsewhere(w, r)
			return
		case !forGateway:
			rest.ServeHTTP(w, r)
			return
		}
		begun := time.Now()
		c := &answered{ResponseWriter: w}
		gateway.ServeHTTP(c, r)
		m.Observe(c.status, time.Since(begun))
	})
}

// elsewhere refuses requests to the wrong origin. A redirect would take a caller's credentials along.
func (a *api) elsewhere() http.HandlerFunc {
	m := a.metrics.Route("elsewhere")
	return func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		c := &call.Call{W: w, R: r, Ctx: r.Context()}
		defer a.finish(c, m, begun)
		secure(w.Header())
		what := "the gateway has a host or listener of its own, which serves nothing but " + gatewayPrefix
		if strings.HasPrefix(r.URL.Path, gatewayPrefix) {
			what = "the gateway is not served here: it has a host or listener of its own (gateway_url, gateway_addr)"
		}
		a.fail(c, problem.NoSuchPath.With(what))
	}
}

const gatewayPrefix = httphead.GatewayPath

// answered remembers the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *answered) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find what is wrapped.
func (w *answered) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Limits of every connection. A slow or hostile client is cut off by them before any handler sees it.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second // a whole request of at most 256 KB
	writeTimeout      = 60 * time.Second // from the request's headers to the end of the answer; feeds lift it
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10 // tokens travel in headers; nothing of ours needs more
)

// Limit sets timeouts and header limits on the server that carries the handler of New.
func Limit(s *http.Server) {
	s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout = readHeaderTimeout, readTimeout, writeTimeout
	s.IdleTimeout, s.MaxHeaderBytes = idleTimeout, maxHeaderBytes
}
