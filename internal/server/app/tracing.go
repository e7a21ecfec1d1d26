package app

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/server/tracing"
	"godwit.dev/godwit/internal/store"
)

// collectorPatience is how long a stop waits for the collector to take the last traces, and as long again for the last
// figures.
const collectorPatience = 2 * time.Second

// startTracing starts tracing publishes, if the settings name a collector.
func (a *App) startTracing(ctx context.Context) error {
	if !tracing.WantsTraces(a.cfg.OTLP) {
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
	a.steps.addPolite("last traces", collectorPatience, a.tracer.Close)
	a.steps.addRun("traces", storePatience, a.tracer.Run, a.fail)
	return nil
}

// prepareReports prepares sending figures, if somebody has named a collector. The last are sent when all that they tell of has ended, but for the stores.
func (a *App) prepareReports(ctx context.Context) error {
	if !tracing.WantsFigures(a.cfg.OTLP) {
		return nil
	}
	to, err := tracing.FigureExporter(ctx, a.cfg.OTLP)
	if err != nil {
		return err
	}
	a.reporter, err = tracing.NewReporter(ctx, tracing.ReporterConfig{Exporter: to, Figures: a.registry, Version: a.opts.Version, Node: a.node(), Log: a.log})
	if err != nil {
		return err
	}
	a.registry.MustRegister(a.reporter)
	a.steps.addPolite("last figures", collectorPatience, a.reporter.Close)
	return nil
}

// startReports has figures sent, now that all of them are there.
func (a *App) startReports(context.Context) error {
	if a.reporter != nil {
		a.steps.addRun("reports of figures", storePatience, a.reporter.Run, a.fail)
	}
	return nil
}
