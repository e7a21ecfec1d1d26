package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

// The interval of reports, and the limit of a report including the gathering of figures, unless the environment sets others:
// OpenTelemetry's defaults.
const (
	reportEvery  = time.Minute
	reportWithin = 30 * time.Second
	least        = time.Second // the shortest interval that the environment may set, since some metrics need a query to the stores
	most         = 24 * time.Hour
)

// ReporterConfig holds the parts of a Reporter.
type ReporterConfig struct {
	Exporter metric.Exporter // the Reporter shuts it down; see FigureExporter
	Figures  prometheus.Gatherer
	Version  string
	Node     string
	Log      *slog.Logger
}

// Reporter sends all figures of a registry to a collector: each minute, or at the interval in OTEL_METRIC_EXPORT_INTERVAL, and once more at
// the end. One report is under way at a time, for at most OTEL_METRIC_EXPORT_TIMEOUT. Reports due meanwhile are omitted, since the next one
// has all counters.
type Reporter struct {
	cfg           ReporterConfig
	of            *resource.Resource
	from          metric.Producer
	every, within time.Duration
	began         bool
	amiss         bool // some figures could not be gathered last time
	failing       bool // the collector refused the last report

	sent, failed atomic.Uint64
}

// NewReporter makes a Reporter.
func NewReporter(ctx context.Context, cfg ReporterConfig) (*Reporter, error) {
	of, err := describe(ctx, cfg.Version, cfg.Node)
	if err != nil {
		return nil, fmt.Errorf("start sending figures: %w", err)
	}
	r := &Reporter{cfg: cfg, of: of}
	r.every = milliseconds("OTEL_METRIC_EXPORT_INTERVAL", reportEvery, cfg.Log)
	r.within = milliseconds("OTEL_METRIC_EXPORT_TIMEOUT", reportWithin, cfg.Log)
	r.from = bridge.NewMetricProducer(bridge.WithGatherer(prometheus.GathererFunc(r.gather)))
	return r, nil
}

// milliseconds reads an environment variable. It logs and ignores an impossible value, as OpenTelemetry requires: the value may be meant
// for other programs.
func milliseconds(name string, otherwise time.Duration, log *slog.Logger) time.Duration {
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < least.Milliseconds() || n > most.Milliseconds() {
		log.Warn("a variable of OpenTelemetry is not a number of milliseconds that holds here, and is left out", "variable", name, "value", v,
			"least", least.Milliseconds(), "most", most.Milliseconds(), "instead", otherwise.Milliseconds())
		return otherwise
	}
	return time.Duration(n) * time.Millisecond
}

// Run sends reports until ctx ends, the first one after the first interval. Its error is always nil.
func (r *Reporter) Run(ctx context.Context) error {
	r.began = true
	due := time.NewTicker(r.every)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-due.C:
			r.report(ctx)
		}
	}
}

// Close sends the last report, until ctx ends. It is called after Run has returned, and before the parts with metrics are closed.
func (r *Reporter) Close(ctx context.Context) error {
	if r.began {
		r.report(ctx)
	}
	return r.cfg.Exporter.Shutdown(ctx)
}

// report gathers all figures and sends them.
func (r *Reporter) report(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.within, fmt.Errorf("the collector did not answer in %s", r.within))
	defer cancel()
	scopes, err := r.from.Produce(ctx)
	if err == nil {
		err = r.cfg.Exporter.Export(ctx, &metricdata.ResourceMetrics{Resource: r.of, ScopeMetrics: scopes})
	}
	switch {
	case err == nil:
		r.sent.Add(1)
		if r.failing {
			r.cfg.Log.InfoContext(ctx, "figures are sent again")
		}
	case errors.Is(ctx.Err(), context.Canceled): // the server stops: the last report follows at once
		return
	default:
		r.failed.Add(1)
		if !r.failing {
			r.cfg.Log.WarnContext(ctx, "figures could not be sent; further failures are counted in godwit_otlp_reports_total", "error", collectorCause(ctx, err))
		}
	}
	r.failing = err != nil
}

// gather collects metrics; failing ones do not hold up the others.
func (r *Reporter) gather() ([]*dto.MetricFamily, error) {
	families, err := r.cfg.Figures.Gather()
	if err != nil && !r.amiss {
		r.cfg.Log.Warn("some figures could not be gathered for the collector; the others are sent", "error", err)
	}
	r.amiss = err != nil
	return families, nil
}

// Describe implements prometheus.Collector.
func (r *Reporter) Describe(ch chan<- *prometheus.Desc) { ch <- descReports }

// Collect implements prometheus.Collector.
func (r *Reporter) Collect(ch chan<- prometheus.Metric) {
	for outcome, n := range map[string]uint64{"sent": r.sent.Load(), "failed": r.failed.Load()} {
		ch <- prometheus.MustNewConstMetric(descReports, prometheus.CounterValue, float64(n), outcome)
	}
}
