package campaigndb

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// EndpointMetrics show how many endpoints there are, of all apps together and on all nodes alike.
type EndpointMetrics struct {
	s    *Store
	desc *prometheus.Desc
}

// EndpointMetrics returns the figures of endpoints for a registry.
func (s *Store) EndpointMetrics() *EndpointMetrics {
	return &EndpointMetrics{s, prometheus.NewDesc("godwit_endpoints", "Push addresses, by channel and whether they are sent to.", []string{"channel", "status"}, nil)}
}

var _ prometheus.Collector = (*EndpointMetrics)(nil)

// metricPatience bounds how long figures may keep a scrape waiting.
const metricPatience = time.Second

// Describe implements prometheus.Collector.
func (m *EndpointMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.desc }

// Collect implements prometheus.Collector. The counts are kept beside the endpoints, so nothing is counted here.
func (m *EndpointMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), metricPatience)
	defer cancel()
	const query = "SELECT channel, active, sum(n)::bigint FROM endpoint_count GROUP BY channel, active"
	err := m.s.db.Each(ctx, "count endpoints", query, nil, func(rows pgx.Rows) error {
		var channel string
		var active bool
		var n int64
		if err := rows.Scan(&channel, &active, &n); err != nil {
			return err
		}
		status := "disabled"
		if active {
			status = "active"
		}
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(n), channel, status)
		return nil
	})
	if err != nil {
		m.s.log.Warn("endpoints could not be counted for metrics", "error", err)
	}
}
