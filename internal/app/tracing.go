package app

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/tracing"
)

// tracePatience is how long a stop waits for the collector.
const tracePatience = 2 * time.Second

// startTracing starts what follows publishes, if somebody has named a collector.
func (a *App) startTracing(ctx context.Context) error {
	if !tracing.Wanted(a.cfg.OTLP) {
		return nil
	}
	to, err := tracing.Exporter(ctx, a.cfg.OTLP)
	if err != nil {
		return err
	}
	keeper, err := store.OpenTraces(a.cfg.Data)
	if err != nil {
		return err
	}
	a.tracer, err = tracing.New(ctx, tracing.Config{Exporter: to, Keeper: keeper, Version: a.opts.Version, Node: a.node(), Now: a.clock, Log: a.log})
	if err != nil {
		return err
	}
	a.registry.MustRegister(a.tracer)
	a.steps.addPolite("last traces", tracePatience, a.tracer.Close)
	a.steps.addRun("traces", storePatience, a.tracer.Run, a.fail)
	return nil
}
