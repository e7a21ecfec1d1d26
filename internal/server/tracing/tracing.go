// Package tracing traces single publishes with OpenTelemetry: one trace, which continues the publisher's, covers the publish, the commit,
// each delivery, push and hook, and the acknowledgement. Messages of topics, requests and calls through the gateway have spans as well. It
// also sends the server's metrics to the same collector. Only this package uses OpenTelemetry; others declare the interface that they need
// and get a Tracer, or nil if tracing is off. DESIGN.md gives the reasons.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"godwit.dev/godwit/internal/engine/pause"
)

// Limits.
const (
	maxFollowed = 100_000     // limits the traced copies of sampled publishes; further publishes get only their own span
	maxLinks    = 128         // of a commit's span
	lingers     = time.Minute // time for which an ended copy is still traced, for the spans of hooks
	saveEvery   = 20 * time.Millisecond
	sweepEvery  = 10 * time.Second
	saveWithin  = 5 * time.Second
)

// Config holds the parts of a Tracer.
type Config struct {
	Exporter sdk.SpanExporter // the Tracer shuts it down; see Exporter
	Keeper   Keeper           // nil: traces of pending copies end with a restart
	Version  string
	Node     string
	Now      func() time.Time // the stores' clock; nil: time.Now
	Log      *slog.Logger
}

// Keeper stores the list of traced copies across restarts. Only one goroutine calls it.
type Keeper interface {
	Load(ctx context.Context) ([]Kept, error)
	// Save adds, then drops. It is best effort: copies that a power cut loses are no longer traced.
	Save(ctx context.Context, add []Kept, drop []Copy) error
	Close() error
}

// Copy names one recipient's copy of a notification.
type Copy struct {
	App       string `json:"app"`
	Recipient string `json:"recipient"`
	ID        string `json:"id"`
}

// Kept is a traced copy, with the parent span of its later spans as W3C's headers write it.
type Kept struct {
	Copy
	Parent string    `json:"parent"`
	State  string    `json:"state,omitempty"`
	Until  time.Time `json:"until"` // the copy has ended by then
}

// Tracer traces publishes. No caller waits for a collector: spans that cannot be sent in time are dropped and counted.
type Tracer struct {
	cfg      Config
	provider *sdk.TracerProvider
	spans    trace.Tracer
	queue    *queue

	open atomic.Int64 // number of traced copies; callers see 0 without taking the lock
	full atomic.Uint64

	others atomic.Pointer[func(body []byte)] // sends to other nodes; nil: there are none

	mu       sync.Mutex
	followed map[Copy]*followed
	add      map[Copy]Kept
	drop     map[Copy]struct{}
	early    early
	saving   int // number of changes taken from these lists and not saved yet
	news     chan struct{}
}

// followed is a copy of a sampled publish.
type followed struct {
	span  trace.SpanContext
	begun time.Time // when the copy was passed to the store
	until time.Time // the end of its tracing
	kept  bool
}

// New makes a Tracer that continues with the stored copies. The environment decides which publishes without a sampled parent are sampled
// (OTEL_TRACES_SAMPLER; by default all), and adds attributes (OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME).
func New(ctx context.Context, cfg Config) (*Tracer, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	res, err := describe(ctx, cfg.Version, cfg.Node)
	if err != nil {
		return nil, fmt.Errorf("start tracing: %w", err)
	}
	t := &Tracer{
		cfg: cfg, queue: newQueue(cfg.Exporter, cfg.Log), followed: make(map[Copy]*followed),
		add: make(map[Copy]Kept), drop: make(map[Copy]struct{}), news: make(chan struct{}, 1),
	}
	t.provider = sdk.NewTracerProvider(sdk.WithResource(res), sdk.WithSpanProcessor(t.queue))
	t.spans = t.provider.Tracer("godwit.dev/godwit", trace.WithInstrumentationVersion(cfg.Version))
	if cfg.Keeper == nil {
		return t, nil
	}
	list, err := cfg.Keeper.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("start tracing: %w", err)
	}
	for i := range list {
		t.resume(&list[i])
	}
	return t, nil
}

// resume traces a stored copy again.
func (t *Tracer) resume(k *Kept) {
	span := trace.SpanContextFromContext(parent(k.Parent, k.State))
	if !span.IsValid() || !k.Until.After(t.cfg.Now()) {
		t.drop[k.Copy] = struct{}{}
		return
	}
	t.followed[k.Copy] = &followed{span: span, until: k.Until, kept: true}
	t.open.Add(1)
}

// Run sends spans and stores the list of traced copies until ctx ends. Its error is always nil.
func (t *Tracer) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { t.queue.run(ctx) })
	wg.Go(func() { t.keep(ctx) })
	wg.Wait()
	return nil
}

// Close sends the remaining spans and stores the list of traced copies. It is called after Run has returned, when no further spans are
// added.
func (t *Tracer) Close(ctx context.Context) error {
	err := t.queue.flush(ctx)
	if t.cfg.Keeper != nil {
		err = errors.Join(err, t.save(ctx), t.cfg.Keeper.Close())
	}
	return errors.Join(err, t.provider.Shutdown(ctx))
}

// keep stores changes a moment after they were made: a copy that is stored and ends within that moment costs nothing.
func (t *Tracer) keep(ctx context.Context) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			t.sweep()
			continue
		case <-t.news:
		}
		if !pause.For(ctx, saveEvery) {
			return
		}
		if err := t.save(ctx); err != nil && ctx.Err() == nil {
			t.cfg.Log.WarnContext(ctx, "whom traces follow could not be saved; a restart loses sight of them", "error", err)
		}
	}
}

func (t *Tracer) save(ctx context.Context) error {
	t.mu.Lock()
	add, drop := make([]Kept, 0, len(t.add)), make([]Copy, 0, len(t.drop))
	for _, k := range t.add {
		add = append(add, k)
	}
	for c := range t.drop {
		drop = append(drop, c)
	}
	clear(t.add)
	clear(t.drop)
	t.saving = len(add) + len(drop)
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.saving = 0
		t.mu.Unlock()
	}()
	if t.cfg.Keeper == nil || len(add)+len(drop) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), saveWithin, fmt.Errorf("saving took more than %s", saveWithin))
	defer cancel()
	return t.cfg.Keeper.Save(ctx, add, drop)
}

// sweep drops copies that ended more than a while ago.
func (t *Tracer) sweep() {
	now := t.cfg.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for c, f := range t.followed {
		if now.After(f.until) {
			t.forget(c, f)
		}
	}
}

// forget stops tracing a copy. The caller holds mu.
func (t *Tracer) forget(c Copy, f *followed) {
	delete(t.followed, c)
	t.open.Add(-1)
	t.unkeep(c, f)
}

// unkeep removes a copy from the stored list, so that a restart does not resume its tracing. The caller holds mu.
func (t *Tracer) unkeep(c Copy, f *followed) {
	if !f.kept {
		return
	}
	f.kept = false
	if _, unsaved := t.add[c]; unsaved {
		delete(t.add, c)
		return
	}
	t.drop[c] = struct{}{}
	t.touch()
}

// touch wakes the goroutine that stores changes.
func (t *Tracer) touch() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// of returns the parent span of a copy's later spans.
func (t *Tracer) of(c Copy) (trace.SpanContext, bool) {
	if t.open.Load() == 0 {
		return trace.SpanContext{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.followed[c]
	if f == nil {
		return trace.SpanContext{}, false
	}
	return f.span, true
}
