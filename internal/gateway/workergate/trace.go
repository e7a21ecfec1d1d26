package workergate

import "net/http"

// Tracer follows calls by the trace context in their headers.
type Tracer interface {
	// Calling begins the span of a call, writes it into the call's headers, and returns the function that ends it.
	Calling(service, method string, h http.Header) (done func(status int))
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
