package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/metrics"
	"godwit.dev/godwit/internal/server/problem"
)

func (a *api) handle(rt call.Route) {
	m := a.metrics.Route(rt.Pattern)
	handsOver := a.direct != nil && rt.Pattern == backend.PublishPattern
	if handsOver {
		a.answerDirect(rt, m)
	}
	a.mux.HandleFunc(rt.Pattern, func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		c := &call.Call{W: w, R: r, Ctx: r.Context()}
		c.Sized = handsOver && r.ContentLength > 0 && a.direct.Takes(r)
		secure(w.Header())
		defer a.finish(c, m, start)
		if !rt.Stream {
			ctx, cancel := context.WithTimeout(c.Ctx, call.Patience)
			defer cancel()
			c.Ctx = ctx
		}
		err := a.serve(c, rt)
		a.tell(c, rt, err)
		if err != nil {
			a.fail(c, err)
		} else if c.Sized {
			a.direct.TakeOver(w, r, kinds(a.serves(r)))
		}
	})
}

func (a *api) serve(c *call.Call, rt call.Route) error {
	if rt.Role != 0 || rt.Operator == call.ServerWide {
		if err := a.authenticate(c, rt); err != nil {
			return err
		}
	}
	return rt.Serve(c)
}

// tell records an action in the audit log, before its answer is sent: of an operator who names no app, in that of the server. It omits
// calls without a known caller, and calls that fail because of
// the caller, except for a missing right: they change nothing.
func (a *api) tell(c *call.Call, rt call.Route, err error) {
	if rt.Action == "" || a.audit == nil || c.Key.App == "" && !c.Key.Operator {
		return
	}
	outcome, status := audit.Done, c.Status
	if err != nil {
		status = problem.From(err).Status
	}
	switch {
	case status == http.StatusForbidden:
		outcome = audit.Refused
	case status >= http.StatusInternalServerError:
		outcome = audit.Failed
	case err != nil || status >= http.StatusBadRequest:
		return
	}
	action, object := audit.Of(c.R, rt.Pattern, rt.Action)
	if object == "" {
		object = c.Made
	}
	address, _, _ := net.SplitHostPort(c.R.RemoteAddr) // what is none stays empty
	a.audit.Note(c.R.Context(), audit.Entry{App: c.Key.App, By: c.Key.Key, Way: audit.API, Address: address, Action: action, Object: object, Outcome: outcome})
}

// authenticate finds the app of the key. A call that also names an app must name the same app.
func (a *api) authenticate(c *call.Call, rt call.Route) error {
	secret := access.Bearer(c.R.Header)
	if rt.Basic && secret == "" {
		_, secret, _ = c.R.BasicAuth()
	}
	if a.operators != nil && access.IsOperatorKey(secret) {
		return a.authenticateOperator(c, rt, secret)
	}
	key, err := a.key(c.Ctx, secret, rt.Role)
	if err == nil && rt.Operator == call.ServerWide {
		err = problem.Forbidden.With(needsOperator)
	}
	if err != nil {
		c.Key = key // a call without the right is recorded under its key
		return err
	}
	if c.R.URL.RawQuery != "" {
		switch q := c.Query(); {
		case !q.Has("app"), q.Get("app") == key.App:
		case q.Get("app") == "":
			return notification.BadField("app", "is empty: leave it out, or name the app of the key")
		default:
			return call.OtherApp()
		}
	}
	c.Key = key
	return nil
}

// key returns the key of a secret, if the key has the role.
func (a *api) key(ctx context.Context, secret string, role access.Role) (key access.Principal, err error) {
	if secret == "" {
		return key, access.ErrUnauthenticated
	}
	if key, err = a.access.Key(ctx, secret); err != nil {
		return key, err
	}
	if !key.Roles.Has(role) {
		return key, call.NeedRole(role)
	}
	return key, nil
}

// finish counts the request and turns a panic into a 500 without details.
func (a *api) finish(c *call.Call, m *metrics.Route, start time.Time) {
	if p := recover(); p != nil {
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		a.log.ErrorContext(c.R.Context(), "handler panicked", "route", c.R.Pattern, "panic", p, "stack", string(debug.Stack()))
		if c.Status != 0 { // the answer has begun, too late for a problem: cut it off, so that the client does not take it for a whole one
			m.Observe(http.StatusInternalServerError, time.Since(start))
			panic(http.ErrAbortHandler)
		}
		a.fail(c, errPanicked)
	}
	took := time.Since(start)
	m.Observe(c.Status, took)
	a.noteRequest(c.R.Context(), c.R.Method, c.R.URL.Path, c.R.URL.RawQuery, c.Status, took, c.Key.Key)
}

func (a *api) noteRequest(ctx context.Context, method, path, query string, status int, took time.Duration, key string) {
	if a.log.Enabled(ctx, slog.LevelDebug) {
		a.log.DebugContext(ctx, "request", "method", method, "path", path, "query", masked(query), "status", status, "took", took, "key", key)
	}
}

var errPanicked = errors.New("handler panicked")

// mount adds a gateway's handler. It removes the server's deadlines, since gateways' connections live long.
func (a *api) mount(pattern string, h http.Handler) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(time.Time{})  // fails only for a writer without deadlines
		_ = rc.SetWriteDeadline(time.Time{}) // the same
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				a.log.ErrorContext(r.Context(), "gateway panicked", "route", pattern, "panic", p, "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler) // the connection is in an unknown state
		}()
		h.ServeHTTP(w, r)
	})
}

// Header values are shared slices, which net/http only reads; each saves an allocation for every answer.
var (
	valNoSniff  = []string{"nosniff"}
	valCSP      = []string{"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"}
	valReferrer = []string{"no-referrer"}
	valNoStore  = []string{"no-store"}
)

func secure(h http.Header) {
	h["X-Content-Type-Options"] = valNoSniff
	h["Content-Security-Policy"] = valCSP
	h["Referrer-Policy"] = valReferrer
	h["Cache-Control"] = valNoStore
}

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

// fail answers with the problem of an error.
func (a *api) fail(c *call.Call, err error) {
	p := problem.From(err)
	a.note(c.R.Context(), c.R.Pattern, c.Key.App, p, err)
	if c.Status != 0 {
		return // the answer has begun, and cannot become an error
	}
	_ = c.Send(p.Status, refusal(c.W.Header(), p))
}

// note logs the server's own errors. It does not log errors of clients, nor refusals because of a full disk, which are counted: the full
// disk itself is logged once. Nor does it log what workers or clients failed to answer. The last errors are stored for display.
func (a *api) note(ctx context.Context, route, app string, p *problem.Problem, err error) {
	if p.OfServer() && !errors.Is(err, context.Canceled) && !errors.Is(err, errPanicked) && !errors.Is(err, mailbox.ErrNoSpace) {
		a.log.WarnContext(ctx, "request failed", "route", route, "status", p.Status, "app", app, "error", err)
		a.watch.Fail()
		return
	}
	text := p.Title
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	a.watch.Refuse(app, route, p.Status, text)
}

// refusal sets the headers of a problem and returns the body.
func refusal(h http.Header, p *problem.Problem) []byte {
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="godwit"`)
	}
	if p.Status == http.StatusRequestEntityTooLarge {
		h.Set("Connection", "close") // the rest of the body may be long: nothing follows it
	}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetrySeconds()))
	}
	h.Set("Content-Type", "application/problem+json")
	return append(call.AppendProblem(nil, p), '\n')
}
