package workergate

import (
	"net/http"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/server/problem"
)

// Tracer follows calls by the trace context in their headers.
type Tracer interface {
	// Calling begins the span of a call, writes it into the call's headers, and returns the function that ends it.
	Calling(service, method string, h http.Header) (done func(status int))
}

// traced carries out a call within its span, if calls are traced.
func (g *Gate) traced(w http.ResponseWriter, r *http.Request, service, path string, claimed access.Claim) error {
	if g.cfg.Tracer == nil {
		return g.call(w, r, service, path, claimed)
	}
	noted := &notedStatus{ResponseWriter: w}
	done := g.cfg.Tracer.Calling(service, r.Method, r.Header)
	err := g.call(noted, r, service, path, claimed)
	if err != nil && r.Context().Err() == nil {
		noted.status = problem.From(err).Status
	}
	done(noted.status)
	return err
}

// notedStatus notes the status of an answer, for the call's span.
type notedStatus struct {
	http.ResponseWriter
	status int // 0: there was no answer, since the caller had gone
}

// WriteHeader implements http.ResponseWriter.
func (n *notedStatus) WriteHeader(status int) {
	n.status = status
	n.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController set deadlines.
func (n *notedStatus) Unwrap() http.ResponseWriter { return n.ResponseWriter }
