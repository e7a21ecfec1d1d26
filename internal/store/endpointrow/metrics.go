package endpointrow

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics exports the numbers of endpoints, summed over all apps.
type metrics struct {
	desc  *prometheus.Desc
	count func(ctx context.Context, each func(Count, float64)) error
	log   *slog.Logger
}

// Metrics returns the figures of endpoints for a registry. count calls each with the sums over all apps. The sums are stored beside the
// endpoints, so a scrape counts nothing.
func Metrics(log *slog.Logger, count func(ctx context.Context, each func(Count, float64)) error) prometheus.Collector {
	return &metrics{prometheus.NewDesc("godwit_endpoints", "Push addresses, by channel and whether they are sent to.", []string{"channel", "status"}, nil), count, log}
}

// SumCounts reads the counters of all apps.
const SumCounts = "SELECT channel, active, sum(n) FROM endpoint_count GROUP BY channel, active"

// metricPatience limits the time for which the figures may delay a scrape.
const metricPatience = time.Second

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.desc }

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), metricPatience)
	defer cancel()
	err := m.count(ctx, func(c Count, n float64) {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, n, c.Channel, string(StatusOf(c.Active)))
	})
	if err != nil {
		m.log.Warn("endpoints could not be counted for metrics", "error", err)
	}
}
