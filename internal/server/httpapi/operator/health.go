package operator

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/problem"
)

// Healthz answers that the process is alive.
func (a *API) Healthz(c *call.Call) error {
	return c.JSON(http.StatusOK, []byte("{\"status\":\"ok\"}\n"))
}

// Readyz answers whether a publish could be stored now.
func (a *API) Readyz(c *call.Call) error {
	select {
	case <-a.Draining:
		return notReady("the server is stopping")
	default:
	}
	if err := a.Mailbox.Ready(c.Ctx); err != nil {
		if errors.Is(err, mailbox.ErrAway) || c.Ctx.Err() != nil {
			return notReady(mailbox.ErrAway.Error()) // the error of a failed store does not fit, since this request stores nothing
		}
		return notReady(problem.From(err).Detail)
	}
	if a.Ready != nil {
		if err := a.Ready(c.Ctx); err != nil {
			a.Log.DebugContext(c.Ctx, "not ready", "error", err)
			return notReady("Redis is away, whose streams this server brings to their clients")
		}
	}
	return c.JSON(http.StatusOK, []byte("{\"status\":\"ready\"}\n"))
}

func notReady(detail string) error {
	return problem.NotReady.With(detail)
}

// Metrics makes GET /metrics.
func (a *API) Metrics() func(c *call.Call) error {
	h := promhttp.HandlerFor(a.Registry, promhttp.HandlerOpts{Timeout: call.Patience})
	return func(c *call.Call) error {
		c.Status = http.StatusOK
		h.ServeHTTP(c.W, c.R)
		return nil
	}
}
