package tracing

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Topics and requests carry their trace context in their headers, since nothing of them is stored. A span that is not sampled changes no
// header.

// Sending begins the span of a message to a topic. It returns the traceparent that travels with the message, and the function that ends the
// span.
func (t *Tracer) Sending(app, topic, traceparent string) (sent string, done func(error)) {
	_, span := t.begin(parent(traceparent, ""), "publish "+app, trace.SpanKindProducer, t.cfg.Now(), topicOf(app, topic, "publish")...)
	if sent = traceparent; span.SpanContext().IsSampled() {
		sent, _ = headers(span.SpanContext())
	}
	return sent, func(err error) { t.end(span, err) }
}

// Spread adds the span of a topic's message that was written to sessions of this node, if its publisher's trace is sampled.
func (t *Tracer) Spread(app, topic, traceparent string, begun time.Time, sessions int) {
	of := parent(traceparent, "")
	if !trace.SpanContextFromContext(of).IsSampled() {
		return
	}
	_, span := t.begin(of, "deliver "+app, trace.SpanKindClient, begun, append(topicOf(app, topic, "deliver"), attribute.Int("godwit.sessions", sessions))...)
	t.end(span, nil)
}

// Now is the time of spans.
func (t *Tracer) Now() time.Time { return t.cfg.Now() }

// Asking begins the span of a request. It returns the headers that travel with the request, and the function that ends the span.
func (t *Tracer) Asking(app, subject string, h map[string][]string) (sent map[string][]string, done func(status int, err error)) {
	return t.exchange(carried(h), "request "+app, trace.SpanKindServer, h, subjectOf(app, subject)...)
}

// Answering begins the span of a request that a worker of this node gets, as Asking does, if the asker's trace is sampled. done is nil if it
// is not.
func (t *Tracer) Answering(app, subject string, h map[string][]string) (sent map[string][]string, done func(status int, err error)) {
	of := carried(h)
	if !trace.SpanContextFromContext(of).IsSampled() {
		return h, nil
	}
	return t.exchange(of, "answer "+app, trace.SpanKindClient, h, subjectOf(app, subject)...)
}

// Calling begins the span of a call through the gateway, and writes it into the call's headers.
func (t *Tracer) Calling(service, method string, h http.Header) (done func(status int)) {
	sent, ended := t.exchange(carried(h), "gateway "+service, trace.SpanKindServer, h,
		attribute.String("http.request.method", method), attribute.String("http.route", "/gw/"+service+"/{path}"))
	maps.Copy(h, sent)
	return func(status int) { ended(status, nil) }
}

// exchange begins the span of a call that ends with a status or an error.
func (t *Tracer) exchange(of context.Context, name string, kind trace.SpanKind, h map[string][]string, more ...attribute.KeyValue) (sent map[string][]string, done func(int, error)) {
	_, span := t.begin(of, name, kind, t.cfg.Now(), more...)
	if sent = h; span.SpanContext().IsSampled() {
		sent = carry(h, span.SpanContext())
	}
	return sent, func(status int, err error) {
		if status != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", status))
		}
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(status))
		}
		t.end(span, err)
	}
}

func (t *Tracer) begin(of context.Context, name string, kind trace.SpanKind, at time.Time, more ...attribute.KeyValue) (context.Context, trace.Span) {
	return t.spans.Start(of, name, trace.WithSpanKind(kind), trace.WithTimestamp(at), trace.WithAttributes(more...))
}

func (t *Tracer) end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End(trace.WithTimestamp(t.cfg.Now()))
}

// topicOf returns the attributes of a topic's message.
func topicOf(app, topic, operation string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "godwit"), attribute.String("messaging.destination.name", app), attribute.String("godwit.topic", topic),
		attribute.String("messaging.operation.name", operation), attribute.String("messaging.operation.type", "send"),
	}
}

// subjectOf returns the attributes of a request.
func subjectOf(app, subject string) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("godwit.app", app), attribute.String("godwit.subject", subject)}
}

// Names of W3C's headers, which may have any case.
const (
	headParent = "Traceparent"
	headState  = "Tracestate"
)

// carried reads the trace context in headers.
func carried(h map[string][]string) context.Context {
	var of, state string
	for name, values := range h {
		switch {
		case len(values) == 0 || len(name) < len(headState):
		case strings.EqualFold(name, headParent):
			of = values[0]
		case strings.EqualFold(name, headState):
			state = strings.Join(values, ",")
		}
	}
	return parent(of, state)
}

// carry returns headers with a span in place of the trace context. The name keeps its case, which some readers look for.
func carry(h map[string][]string, span trace.SpanContext) map[string][]string {
	name := headParent
	sent := make(map[string][]string, len(h)+1)
	for key, values := range h {
		switch {
		case strings.EqualFold(key, headParent):
			name = key
		case !strings.EqualFold(key, headState):
			sent[key] = values
		}
	}
	of, state := headers(span)
	sent[name] = []string{of}
	if state != "" {
		sent[headState] = []string{state}
	}
	return sent
}
