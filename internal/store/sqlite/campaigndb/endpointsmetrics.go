package campaigndb

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// EndpointMetrics show how many endpoints there are, of all apps together.
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
	err := m.s.db.Read(ctx, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT channel, active, sum(n) FROM endpoint_count GROUP BY channel, active", nil, func(row *sqlite.Stmt) error {
			status := "disabled"
			if row.ColumnInt64(1) == 1 {
				status = "active"
			}
			ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, row.ColumnFloat(2), row.ColumnText(0), status)
			return nil
		})
	})
	if err != nil {
		m.s.cfg.Log.Warn("endpoints could not be counted for metrics", "error", known(err))
	}
}
