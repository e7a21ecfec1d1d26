package httpapi

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"godwit.dev/godwit/internal/problem"
)

// healthz says that the process lives.
func (a *api) healthz(c *call) error {
	return c.json(http.StatusOK, []byte("{\"status\":\"ok\"}\n"))
}

// readyz says whether a publish could be stored now.
func (a *api) readyz(c *call) error {
	select {
	case <-a.Draining:
		return notReady("the server is stopping")
	default:
	}
	if err := a.Mailbox.Ready(c.ctx); err != nil {
		return notReady(problem.From(err).Detail)
	}
	return c.json(http.StatusOK, []byte("{\"status\":\"ready\"}\n"))
}

func notReady(detail string) error {
	return problem.NotReady.With(detail)
}

func (a *api) serveMetrics() func(c *call) error {
	h := promhttp.HandlerFor(a.Registry, promhttp.HandlerOpts{Timeout: requestPatience})
	return func(c *call) error {
		c.status = http.StatusOK
		h.ServeHTTP(c.w, c.r)
		return nil
	}
}
