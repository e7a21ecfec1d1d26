package tracing

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// mostEarly bounds what is remembered of copies that are not traced, as far as this node knows.
const mostEarly = 256

// latest remembers the latest values.
type latest[T any] struct {
	list [mostEarly]T
	n    int
}

func (l *latest[T]) add(v T) {
	l.list[l.n%mostEarly] = v
	l.n++
}

// take removes the values that match, and returns them.
func (l *latest[T]) take(match func(*T) bool) (found []T) {
	for i := range min(l.n, mostEarly) {
		if match(&l.list[i]) {
			found = append(found, l.list[i])
			var none T
			l.list[i] = none
		}
	}
	return found
}

// early holds what this node did last with copies that it does not trace. Another node says which ones it traces before it passes them on, but the two
// messages may be handled in the other order.
type early struct {
	written latest[mailbox.Mark]
	settled latest[mailbox.Settled]
}

// idle reports whether there is nothing to trace, nor to remember.
func (t *Tracer) idle() bool { return t.open.Load() == 0 && t.others.Load() == nil }

// writtenEarly returns the parent span of a delivery; false: the copy is not traced so far.
func (t *Tracer) writtenEarly(mk *mailbox.Mark) (trace.SpanContext, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.followed[Copy{mk.App, mk.Recipient, mk.ID}]; f != nil {
		return f.span, true
	}
	if t.others.Load() != nil {
		t.early.written.add(*mk)
	}
	return trace.SpanContext{}, false
}

// settledEarly remembers the end of a copy that is not traced so far.
func (t *Tracer) settledEarly(s *mailbox.Settled) {
	if t.others.Load() == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.early.settled.add(*s)
}

// caughtUp adds the spans of this node's deliveries and acknowledgements of a copy that came before the message that the copy is traced.
func (t *Tracer) caughtUp(c Copy, now time.Time) {
	t.mu.Lock()
	f := t.followed[c]
	written := t.early.written.take(func(m *mailbox.Mark) bool { return c == Copy{m.App, m.Recipient, m.ID} })
	settled := t.early.settled.take(func(s *mailbox.Settled) bool { return c == Copy{s.App, s.Recipient, s.ID} })
	t.mu.Unlock()
	if f == nil {
		return
	}
	for i := range written {
		t.delivered(f.span, &written[i], now)
	}
	for i := range settled {
		if t.settled(&settled[i], now) {
			t.tell(nil, []Copy{c})
		}
	}
}

// delivered adds the span of a delivery.
func (t *Tracer) delivered(of trace.SpanContext, mk *mailbox.Mark, now time.Time) {
	at := now
	if mk.Attempts <= 1 && !mk.DeliveredAt.IsZero() && mk.DeliveredAt.Before(now) {
		at = mk.DeliveredAt
	}
	_, one := t.spans.Start(under(of), "deliver "+mk.App, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(at),
		message(mk.App, mk.ID, "deliver", "send", attribute.String("godwit.channel", "live"), attribute.Int64("godwit.attempt", int64(mk.Attempts))))
	one.End(trace.WithTimestamp(at))
}
