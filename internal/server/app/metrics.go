package app

//go:generate go run ../../../tools/genboard -o ../../../deploy -page ../../../docs/reference/metrics.md

import (
	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/server/metrics"
	"godwit.dev/godwit/internal/server/tracing"
	"godwit.dev/godwit/internal/store"
)

// Metrics lists the metrics that servers offer to Prometheus: this server's, and those added by TLS, PostgreSQL and a cluster. It omits the
// metrics of a service that Godwit can replace.
func (a *App) Metrics() []metrics.Described {
	return metrics.Describe(a.registry.Describe, store.DescribePostgres, cluster.Describe, tracing.Describe, func(ch chan<- *prometheus.Desc) {
		ch <- prometheus.NewDesc(expiryName, expiryHelp, []string{"to"}, nil)
	})
}

// countLost exports the number of lost log lines as a metric.
func (a *App) countLost() {
	a.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "godwit_log_lines_dropped_total", Help: "Lines of the log that were lost: who reads it stands still or is gone.",
	}, func() float64 {
		if a.opts.LogLost == nil {
			return 0
		}
		return float64(a.opts.LogLost())
	}))
}
