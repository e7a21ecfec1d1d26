package pghealth

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

type descriptions struct{ up, seconds, behind, live, dead, wal, copies, connections *prometheus.Desc }

func newDescriptions() descriptions {
	return descriptions{
		up:          prometheus.NewDesc("godwit_postgres_up", "1 if PostgreSQL answered just now; else 0, and nothing else of it is known.", nil, nil),
		seconds:     prometheus.NewDesc("godwit_postgres_horizon_seconds", "For how long the oldest of a kind has kept PostgreSQL from removing dead rows; 0 if none does, and of slots, which do not tell.", []string{"holder"}, nil),
		behind:      prometheus.NewDesc("godwit_postgres_horizon_transactions", "How many transactions have begun since the oldest of a kind keeps PostgreSQL from removing dead rows.", []string{"holder"}, nil),
		live:        prometheus.NewDesc("godwit_postgres_live_rows", "Rows in the tables of a schema, as far as PostgreSQL has counted.", []string{"schema"}, nil),
		dead:        prometheus.NewDesc("godwit_postgres_dead_rows", "Rows of a schema's tables that were deleted or replaced and are not removed yet.", []string{"schema"}, nil),
		wal:         prometheus.NewDesc("godwit_postgres_wal_bytes_total", "Write-ahead log that the PostgreSQL server has written, for whomever.", nil, nil),
		copies:      prometheus.NewDesc("godwit_postgres_copies_total", "Recipients' copies of notifications that all nodes have stored.", nil, nil),
		connections: prometheus.NewDesc("godwit_postgres_connections", "Connections of clients to the PostgreSQL server, of whomever.", nil, nil),
	}
}

var _ prometheus.Collector = (*Health)(nil)

// Describe implements prometheus.Collector.
func (h *Health) Describe(ch chan<- *prometheus.Desc) { h.desc.all(ch) }

// Describe describes the metrics of PostgreSQL. It needs no connection, and serves also a server without PostgreSQL.
func Describe(ch chan<- *prometheus.Desc) {
	d := newDescriptions()
	d.all(ch)
}

func (d *descriptions) all(ch chan<- *prometheus.Desc) {
	for _, one := range []*prometheus.Desc{d.up, d.seconds, d.behind, d.live, d.dead, d.wal, d.copies, d.connections} {
		ch <- one
	}
}

// Collect implements prometheus.Collector.
func (h *Health) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	f, err := h.Look(context.Background())
	if err != nil {
		h.log.Debug("PostgreSQL did not tell how it is", "error", err)
		gauge(h.desc.up, 0)
		return
	}
	gauge(h.desc.up, 1)
	gauge(h.desc.connections, float64(f.Connections))
	for _, kind := range []string{Backend, Replica, Slot, Prepared} {
		var seconds, behind float64
		for i := range f.Holders {
			if o := &f.Holders[i]; o.Kind == kind && !o.Catalog {
				seconds, behind = max(seconds, o.Since.Seconds()), max(behind, float64(o.Behind))
			}
		}
		gauge(h.desc.seconds, seconds, kind)
		gauge(h.desc.behind, behind, kind)
	}
	for _, r := range f.Rows {
		gauge(h.desc.live, float64(r.Live), r.Schema)
		gauge(h.desc.dead, float64(r.Dead), r.Schema)
	}
	ch <- prometheus.MustNewConstMetric(h.desc.wal, prometheus.CounterValue, float64(f.WALBytes))
	ch <- prometheus.MustNewConstMetric(h.desc.copies, prometheus.CounterValue, float64(f.Copies))
}
