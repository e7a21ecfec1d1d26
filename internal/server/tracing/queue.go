package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"godwit.dev/godwit/internal/engine/pause"
)

// Limits of the queue to the collector.
const (
	maxWaiting  = 4096        // spans; further ones are dropped
	maxTogether = 512         // spans in a request
	gatherFor   = time.Second // wait before a request that is not full is sent
	sendWithin  = 10 * time.Second
	restFor     = 5 * time.Second // pause after the collector refused something
	stopWithin  = 2 * time.Second // limits the request under way when the server stops
)

// queue is a span processor that never waits and counts dropped spans; the library's own processor does not count them.
type queue struct {
	to      sdk.SpanExporter
	log     *slog.Logger
	waiting chan sdk.ReadOnlySpan
	failing bool // of run's goroutine

	sent, dropped, failed atomic.Uint64
}

var _ sdk.SpanProcessor = (*queue)(nil)

func newQueue(to sdk.SpanExporter, log *slog.Logger) *queue {
	return &queue{to: to, log: log, waiting: make(chan sdk.ReadOnlySpan, maxWaiting)}
}

// OnStart implements SpanProcessor.
func (q *queue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements SpanProcessor.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	select {
	case q.waiting <- s:
	default:
		q.dropped.Add(1)
	}
}

// ForceFlush implements SpanProcessor. It does nothing: run and flush send the spans.
func (q *queue) ForceFlush(context.Context) error { return nil }

// Shutdown implements SpanProcessor.
func (q *queue) Shutdown(ctx context.Context) error { return q.to.Shutdown(ctx) }

// run sends waiting spans until ctx ends.
func (q *queue) run(ctx context.Context) {
	lot := make([]sdk.ReadOnlySpan, 0, maxTogether)
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-q.waiting:
			lot = append(lot[:0], s)
		}
		full := time.NewTimer(gatherFor)
		for gathering := true; gathering && len(lot) < maxTogether; {
			select {
			case s := <-q.waiting:
				lot = append(lot, s)
			case <-full.C:
				gathering = false
			case <-ctx.Done():
				gathering = false
			}
		}
		full.Stop()
		sending, done := lasting(ctx)
		q.send(sending, lot)
		done()
		if q.failing {
			pause.For(ctx, restFor)
		}
	}
}

// lasting makes a context that ends stopWithin after ctx.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	undo := context.AfterFunc(ctx, func() {
		late := time.NewTimer(stopWithin)
		defer late.Stop()
		select {
		case <-longer.Done():
		case <-late.C:
			cancel(fmt.Errorf("the server stops, and the collector did not answer in %s", stopWithin))
		}
	})
	return longer, func() { undo(); cancel(nil) }
}

// flush sends the waiting spans, until ctx ends.
func (q *queue) flush(ctx context.Context) error {
	for ctx.Err() == nil {
		lot := make([]sdk.ReadOnlySpan, 0, min(len(q.waiting), maxTogether))
		for range cap(lot) {
			lot = append(lot, <-q.waiting)
		}
		if len(lot) == 0 {
			return nil
		}
		q.send(ctx, lot)
		if q.failing { // the collector would refuse the others too
			q.dropped.Add(uint64(len(q.waiting)))
			return nil
		}
	}
	return context.Cause(ctx)
}

// send sends spans to the collector. It does not retry failed spans, since newer ones would have to wait.
func (q *queue) send(ctx context.Context, lot []sdk.ReadOnlySpan) {
	ctx, cancel := context.WithTimeoutCause(ctx, sendWithin, fmt.Errorf("the collector did not answer in %s", sendWithin))
	defer cancel()
	err := q.to.ExportSpans(ctx, lot)
	if err != nil {
		q.failed.Add(uint64(len(lot)))
		if !q.failing {
			q.log.WarnContext(ctx, "traces could not be sent; further ones are counted in godwit_trace_spans_total", "error", collectorCause(ctx, err))
		}
	} else {
		q.sent.Add(uint64(len(lot)))
		if q.failing {
			q.log.InfoContext(ctx, "traces are sent again")
		}
	}
	q.failing = err != nil
}
