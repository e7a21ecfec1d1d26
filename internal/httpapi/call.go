package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/metrics"
	"godwit.dev/godwit/internal/problem"
)

// call is one request on its way through a handler.
type call struct {
	w   http.ResponseWriter
	r   *http.Request
	ctx context.Context  // of the request, with a deadline unless the route streams
	key access.Principal // of routes with a role

	status int // of the answer; 0: none yet
}

// requestPatience bounds how long an ordinary request may take; a publish that has not been stored by then gets
// 503 and may be retried with the same id. It is shorter than the connection's write timeout.
const requestPatience = 15 * time.Second

func (a *api) handle(rt route) {
	m := a.metrics.Route(rt.pattern)
	a.mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		c := &call{w: w, r: r, ctx: r.Context()}
		secure(w.Header())
		defer a.finish(c, m, start)
		if !rt.stream {
			ctx, cancel := context.WithTimeout(c.ctx, requestPatience)
			defer cancel()
			c.ctx = ctx
		}
		if err := a.serve(c, rt); err != nil {
			a.fail(c, err)
		}
	})
}

func (a *api) serve(c *call, rt route) error {
	if rt.role != 0 {
		if err := a.authenticate(c, rt.role); err != nil {
			return err
		}
	}
	return rt.serve(c)
}

// authenticate finds the app of the key. A call that also names an app must name the same one.
func (a *api) authenticate(c *call, role access.Role) error {
	secret := access.Bearer(c.r.Header)
	if secret == "" {
		return access.ErrUnauthenticated
	}
	key, err := a.Access.Key(c.ctx, secret)
	if err != nil {
		return err
	}
	if !key.Roles.Has(role) {
		return needRole(role)
	}
	if c.r.URL.RawQuery != "" {
		if app := c.query().Get("app"); app != "" && app != key.App {
			return errOtherApp()
		}
	}
	c.key = key
	return nil
}

func errOtherApp() error {
	return problem.Forbidden.With("app: the key belongs to another app").In("app")
}

// finish counts the request and turns a panic into a 500 that tells the client nothing.
func (a *api) finish(c *call, m *metrics.Route, start time.Time) {
	if p := recover(); p != nil {
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		a.Log.ErrorContext(c.r.Context(), "handler panicked", "route", c.r.Pattern, "panic", p, "stack", string(debug.Stack()))
		if c.status != 0 { // too late for a problem: cut the answer so that it is not taken for a whole one
			m.Observe(http.StatusInternalServerError, time.Since(start))
			panic(http.ErrAbortHandler)
		}
		a.fail(c, errPanicked)
	}
	took := time.Since(start)
	m.Observe(c.status, took)
	if a.Log.Enabled(c.r.Context(), slog.LevelDebug) {
		a.Log.DebugContext(c.r.Context(), "request", "method", c.r.Method, "path", c.r.URL.Path, "query", masked(c.r.URL.RawQuery),
			"status", c.status, "took", took, "key", c.key.Key)
	}
}

var errPanicked = errors.New("handler panicked")

// mount adds a gateway's handler. It lifts the server's deadlines, since its connections live long.
func (a *api) mount(pattern string, h http.Handler) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(time.Time{})  // a writer without deadlines has none to lift
		_ = rc.SetWriteDeadline(time.Time{}) // the same
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				a.Log.ErrorContext(r.Context(), "gateway panicked", "route", pattern, "panic", p, "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler) // the connection is in an unknown state
		}()
		h.ServeHTTP(w, r)
	})
}

// Header values are shared slices: net/http only reads them, and this saves an allocation each on every answer.
var (
	valNoSniff  = []string{"nosniff"}
	valCSP      = []string{"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"}
	valReferrer = []string{"no-referrer"}
	valNoStore  = []string{"no-store"}
	valJSON     = []string{"application/json"}
	valNDJSON   = []string{"application/x-ndjson"}
)

func secure(h http.Header) {
	h["X-Content-Type-Options"] = valNoSniff
	h["Content-Security-Policy"] = valCSP
	h["Referrer-Policy"] = valReferrer
	h["Cache-Control"] = valNoStore
}

// query parses the query; parameters that cannot be parsed are dropped as url.ParseQuery does.
func (c *call) query() url.Values { return c.r.URL.Query() }

// masked hides the secrets of a query before it is logged.
func masked(query string) string {
	if query == "" {
		return ""
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return "unreadable"
	}
	for _, name := range []string{"token", "session", "key", "access_token"} {
		if q.Has(name) {
			q.Set(name, "***")
		}
	}
	return q.Encode()
}

// json answers with a body that is JSON already.
func (c *call) json(status int, body []byte) error {
	c.w.Header()["Content-Type"] = valJSON
	return c.send(status, body)
}

// send answers. A failed write means that the client is gone, which is nobody's error.
func (c *call) send(status int, body []byte) error {
	c.status = status
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body)
	return nil
}

func (c *call) noContent() error {
	c.status = http.StatusNoContent
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
