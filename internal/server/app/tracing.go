package app

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/tracing"
	"godwit.dev/godwit/internal/store"
)

// collectorPatience limits the wait of a stop for the collector to accept the last traces, and again for the last figures.
const collectorPatience = 2 * time.Second

// startTracing starts tracing publishes, if the settings name a collector.
func startTracing(ctx context.Context, g *ground.Ground) (*tracing.Tracer, error) {
	if !tracing.WantsTraces(g.Settings.OTLP) {
		return nil, nil
	}
	to, err := tracing.Exporter(ctx, g.Settings.OTLP)
	if err != nil {
		return nil, err
	}
	keeper, err := store.OpenTraces(g.Settings.Data)
	if err != nil {
		return nil, err
	}
	tracer, err := tracing.New(ctx, tracing.Config{Exporter: to, Keeper: keeper, Version: g.Version, Node: g.Node, Now: g.Stores.Clock, Log: g.Log})
	if err != nil {
		return nil, err
	}
	g.Registry.MustRegister(tracer)
	g.Steps.AddPolite("last traces", collectorPatience, tracer.Close)
	g.Steps.AddRun("traces", ground.StorePatience, tracer.Run)
	return tracer, nil
}

// prepareReports prepares the export of metrics, if a collector is configured. The last report is sent when all measured parts except the
// stores have ended.
func prepareReports(ctx context.Context, g *ground.Ground) (*tracing.Reporter, error) {
	if !tracing.WantsFigures(g.Settings.OTLP) {
		return nil, nil
	}
	to, err := tracing.FigureExporter(ctx, g.Settings.OTLP)
	if err != nil {
		return nil, err
	}
	reporter, err := tracing.NewReporter(ctx, tracing.ReporterConfig{Exporter: to, Figures: g.Registry, Version: g.Version, Node: g.Node, Log: g.Log})
	if err != nil {
		return nil, err
	}
	g.Registry.MustRegister(reporter)
	g.Steps.AddPolite("last figures", collectorPatience, reporter.Close)
	return reporter, nil
}
