// Package httpapi is the HTTP API: how calls are authorized and counted, and how failed calls are answered. The packages below contain the
// routes, their roles and their handlers, one package for each kind of caller: back ends, the public, operators. It also mounts the
// handlers of the client gateways, and leaves those requests alone.
package httpapi

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/gateway/httphead"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/direct"
	"godwit.dev/godwit/internal/server/metrics"
	"godwit.dev/godwit/internal/server/problem"
	"godwit.dev/godwit/internal/server/watch"
)

// Config holds the parts of the API.
type Config struct {
	Routes []call.Route // of all capabilities
	Access access.Access
	// Operators recognises the operator key. Nil: there is none.
	Operators Operators
	// OperatorLimit limits the calls with an operator key from one address; nil: nothing does.
	OperatorLimit *limit.Addrs
	Audit         *audit.Log // nil: nothing is remembered
	Log           *slog.Logger
	// Registry receives the HTTP metrics.
	Registry *prometheus.Registry
	// Watch records the server's refusals.
	Watch *watch.Server
	// Mount adds handlers of the client gateways and the web page by mux pattern. They get the bare connection: no deadline, no wrapped
	// writer, no body limit.
	Mount map[string]http.Handler
	// Direct takes over connections after their first publish, and Posts answers further publishes on them. Nil: net/http keeps the
	// connections.
	Direct *direct.Server
	Posts  *backend.API
	// Gateway handles paths below /gw/, and gets the path unchanged. Calls answers further calls on connections that Direct has taken over,
	// without waiting; nil: net/http keeps the connections of callers.
	Gateway http.Handler
	Calls   func([]*direct.Call)
	// Serves returns the parts that a request may use. Nil: the gateway and the rest share an origin.
	Serves func(*http.Request) Parts
}

type api struct {
	log    *slog.Logger
	access access.Access

	operators     Operators
	operatorLimit *limit.Addrs

	audit   *audit.Log     // nil: none
	direct  *direct.Server // nil: none
	posts   *backend.API   // of direct
	mux     *http.ServeMux
	metrics *metrics.HTTP
	watch   *watch.Server
	serves  func(*http.Request) Parts
}

// New makes the handler of the whole HTTP listener.
func New(cfg Config) http.Handler {
	a := &api{log: cfg.Log, access: cfg.Access, operators: cfg.Operators, operatorLimit: cfg.OperatorLimit, audit: cfg.Audit, direct: cfg.Direct, posts: cfg.Posts, watch: cfg.Watch, mux: http.NewServeMux(), metrics: metrics.NewHTTP(cfg.Registry), serves: cfg.Serves}
	if a.serves == nil {
		a.serves = func(*http.Request) Parts { return Parts{Gateway: cfg.Gateway != nil, Rest: true} }
	}
	for _, rt := range cfg.Routes {
		a.handle(rt)
	}
	a.handle(call.Route{Pattern: "/", Serve: a.notFound})
	for pattern, h := range cfg.Mount {
		a.mount(pattern, h)
	}
	tidy := a.tidy(a.mux)
	if cfg.Gateway == nil {
		return tidy
	}
	return a.beside(cfg.Gateway, tidy, cfg.Calls)
}

// Parts says which parts are served at a request's origin.
type Parts struct {
	Gateway bool // paths below /gw/
	Rest    bool // the web page, the API and everything else
	Stays   bool // net/http keeps the connection: its listener is not the one to which Direct gives connections back
}

// beside serves the gateway's paths apart from the rest, whose mux would redirect paths that are not in canonical form.
func (a *api) beside(gateway, rest http.Handler, calls func([]*direct.Call)) http.Handler {
	m := a.metrics.Route(gatewayPrefix)
	handsOver := a.direct != nil && calls != nil
	if handsOver {
		a.direct.CallWith(calls, m.Observe)
	}
	elsewhere := a.elsewhere()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forGateway, parts := strings.HasPrefix(r.URL.Path, gatewayPrefix), a.serves(r)
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
		takes := handsOver && !parts.Stays && a.direct.Takes(r)
		gateway.ServeHTTP(c, r)
		m.Observe(c.status, time.Since(begun))
		if takes && c.whole(r) {
			a.direct.TakeOver(w, r, kinds(parts))
		}
	})
}

// elsewhere refuses requests to the wrong origin. A redirect would send a caller's credentials to the other origin.
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

// answered records the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *answered) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// whole reports whether the call was read whole and its answer is sent whole with its length, so that the connection may be taken over. Of a
// call with a body only an answer without an error shows that: it came from a worker, which got the body.
func (w *answered) whole(r *http.Request) bool {
	return w.status != 0 && r.Method != http.MethodHead && len(w.Header()["Content-Length"]) == 1 &&
		(r.ContentLength == 0 || r.ContentLength <= frame.MaxBody && w.status < http.StatusBadRequest)
}

// kinds are the requests that are answered without net/http at an origin.
func kinds(at Parts) direct.Kinds { return direct.Kinds{Publishes: at.Rest, Calls: at.Gateway} }

// Unwrap lets http.ResponseController find the wrapped writer.
func (w *answered) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Limits of every connection. They cut off a slow or hostile client before any handler sees its request.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second // for a whole request of at most 256 KB
	writeTimeout      = 60 * time.Second // from the request's headers to the end of the answer; feeds remove this limit
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10 // in bytes: tokens travel in headers; nothing of ours needs more
)

// Limit sets timeouts and header limits on the server that carries the handler of New.
func Limit(s *http.Server) {
	s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout = readHeaderTimeout, readTimeout, writeTimeout
	s.IdleTimeout, s.MaxHeaderBytes = idleTimeout, maxHeaderBytes
}
