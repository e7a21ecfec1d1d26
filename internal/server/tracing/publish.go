package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// parent reads a publisher's trace context; an invalid one counts as absent.
func parent(traceparent, tracestate string) context.Context {
	ctx := context.Background()
	if traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent, "tracestate": tracestate})
}

// headers writes a span in the form of W3C's headers.
func headers(span trace.SpanContext) (traceparent, tracestate string) {
	to := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), span), to)
	return to["traceparent"], to["tracestate"]
}

// message returns a notification's attributes, by the conventions for messaging.
func message(app, id, operation, kind string, more ...attribute.KeyValue) trace.SpanStartEventOption {
	return trace.WithAttributes(append(more,
		attribute.String("messaging.system", "godwit"), attribute.String("messaging.destination.name", app), attribute.String("messaging.message.id", id),
		attribute.String("messaging.operation.name", operation), attribute.String("messaging.operation.type", kind))...)
}

// Publishing begins a span for each publish that is passed to the store now, and traces its copies; of holds the publishers' trace
// contexts. The returned function ends the spans when the store has answered.
func (t *Tracer) Publishing(batch []*mailbox.Append, of []notification.Trace) (done func(error)) {
	spans := make([]trace.Span, len(batch))
	now := t.cfg.Now()
	for i, a := range batch {
		_, spans[i] = t.spans.Start(parent(of[i].Parent, of[i].State), "publish "+a.N.App, trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(now),
			message(a.N.App, a.N.ID, "publish", "send", attribute.Int("messaging.batch.message_count", len(a.To))))
		if spans[i].SpanContext().IsSampled() {
			t.follow(a, spans[i].SpanContext(), &followed{begun: now, until: a.N.ExpiresAt.Add(lingers)})
		}
	}
	return func(err error) {
		for i, a := range batch {
			t.published(a, spans[i], err)
		}
	}
}

// follow begins to trace the copies of a publish, except copies traced already, which belong to a repeated publish.
func (t *Tracer) follow(a *mailbox.Append, span trace.SpanContext, as *followed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, to := range a.To {
		c := Copy{a.N.App, to, a.N.ID}
		if t.followed[c] != nil {
			continue
		}
		if len(t.followed) >= maxFollowed {
			t.full.Add(1)
			continue
		}
		f := *as
		f.span = span
		t.followed[c] = &f
		t.open.Add(1)
	}
}

// published ends a publish's span. Copies that the store refused are not traced.
func (t *Tracer) published(a *mailbox.Append, span trace.Span, err error) {
	sc := span.SpanContext()
	duplicates := 0
	for i, to := range a.To {
		failed := err
		if err == nil {
			r := &a.Results[i]
			failed = r.Err
			if r.Duplicate {
				duplicates++
			}
		}
		if failed != nil {
			span.SetStatus(codes.Error, failed.Error())
		}
		if sc.IsSampled() && (failed != nil || a.Results[i].Duplicate) {
			t.unfollow(Copy{a.N.App, to, a.N.ID}, sc)
		}
	}
	if duplicates > 0 {
		span.SetAttributes(attribute.Int("godwit.duplicates", duplicates))
	}
	span.End(trace.WithTimestamp(t.cfg.Now()))
}

// unfollow stops tracing a copy that is traced only for this publish.
func (t *Tracer) unfollow(c Copy, by trace.SpanContext) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.followed[c]; f != nil && f.span.SpanID() == by.SpanID() && !f.kept {
		t.forget(c, f)
	}
}
