package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Committed adds one span for a commit, in the trace of its first traced publish, with links to the others.
func (t *Tracer) Committed(b *mailbox.Batch) {
	if t.idle() {
		return
	}
	now := t.cfg.Now()
	var links []trace.Link
	var stored []Kept
	begun := now
	t.mu.Lock()
	for i := range b.Stored {
		it := &b.Stored[i]
		c := Copy{it.N.App, it.Recipient, it.N.ID}
		f := t.followed[c]
		if f == nil || f.kept {
			continue
		}
		if begun.After(f.begun) {
			begun = f.begun
		}
		if n := len(links); n < maxLinks && (n == 0 || links[n-1].SpanContext.SpanID() != f.span.SpanID()) {
			links = append(links, trace.Link{SpanContext: f.span})
		}
		f.kept = true
		k := Kept{Copy: c, Until: f.until}
		k.Parent, k.State = headers(f.span)
		t.add[c] = k
		delete(t.drop, c)
		t.touch()
		stored = append(stored, k)
	}
	t.mu.Unlock()
	if len(links) > 0 {
		_, span := t.spans.Start(under(links[0].SpanContext), "commit", trace.WithLinks(links...), trace.WithTimestamp(begun),
			trace.WithAttributes(attribute.String("messaging.system", "godwit"), attribute.Int("godwit.commit.stored", len(b.Stored)), attribute.Int("godwit.commit.settled", len(b.Settled))))
		span.End(trace.WithTimestamp(now))
	}
	var done []Copy
	for i := range b.Settled {
		if s := &b.Settled[i]; t.settled(s, now) {
			done = append(done, Copy{s.App, s.Recipient, s.ID})
		}
	}
	t.tell(stored, done)
}

func under(span trace.SpanContext) context.Context {
	return trace.ContextWithSpanContext(context.Background(), span)
}

// settled ends the trace of a copy, if there is one. Spans of hooks follow a moment later.
func (t *Tracer) settled(s *mailbox.Settled, now time.Time) bool {
	f := t.ended(Copy{s.App, s.Recipient, s.ID}, now)
	if f == nil {
		t.settledEarly(s)
		return false
	}
	operation := s.As.String() // expired, recalled, …
	if s.As == notification.Acked || s.As == notification.Replied {
		operation = "ack"
	}
	at := s.At
	if at.IsZero() || at.After(now) {
		at = now
	}
	_, span := t.spans.Start(under(f.span), operation+" "+s.App, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(at),
		message(s.App, s.ID, operation, "settle", attribute.String("godwit.status", s.As.String()), attribute.String("godwit.device", s.Device)))
	span.End(trace.WithTimestamp(now))
	return true
}

// Delivered adds spans for copies that were written to connections.
func (t *Tracer) Delivered(marks []mailbox.Mark) {
	if t.idle() {
		return
	}
	now := t.cfg.Now()
	for i := range marks {
		if span, ok := t.writtenEarly(&marks[i]); ok {
			t.delivered(span, &marks[i], now)
		}
	}
}

// Pushing begins the span of an attempt to send a copy over a channel, and returns the function that ends it; nil: the copy is not traced.
func (t *Tracer) Pushing(app, recipient, id, channel string, attempt int) (done func(error)) {
	return t.sending(Copy{app, recipient, id}, "push", channel, attribute.String("godwit.channel", channel), attribute.Int("godwit.attempt", attempt))
}

// Posting begins the span of an attempt to post an event to a hook, as Pushing does.
func (t *Tracer) Posting(app, recipient, id, hook, event string) (done func(error)) {
	return t.sending(Copy{app, recipient, id}, "hook", hook, attribute.String("godwit.hook", hook), attribute.String("godwit.event", event))
}

func (t *Tracer) sending(c Copy, operation, to string, more ...attribute.KeyValue) (done func(error)) {
	of, ok := t.of(c)
	if !ok {
		return nil
	}
	_, span := t.spans.Start(under(of), operation+" "+to, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(t.cfg.Now()),
		message(c.App, c.ID, operation, "send", more...))
	return func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, push.ForLog(err))
		}
		span.End(trace.WithTimestamp(t.cfg.Now()))
	}
}
