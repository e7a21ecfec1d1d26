package eventdb

import "github.com/prometheus/client_golang/prometheus"

// descriptions of the log's metrics.
type descriptions struct{ written, dropped, queued *prometheus.Desc }

func newDescriptions() descriptions {
	return descriptions{
		written: prometheus.NewDesc("godwit_events_written_total", "Events stored in the event log.", nil, nil),
		dropped: prometheus.NewDesc("godwit_events_dropped_total", "Events lost because the event log could not be written fast enough or at all.", nil, nil),
		queued:  prometheus.NewDesc("godwit_events_queued_bytes", "Size of the events waiting to be written.", nil, nil),
	}
}

var _ prometheus.Collector = (*Log)(nil)

// Describe implements prometheus.Collector.
func (l *Log) Describe(ch chan<- *prometheus.Desc) {
	ch <- l.desc.written
	ch <- l.desc.dropped
	ch <- l.desc.queued
}

// Collect implements prometheus.Collector.
func (l *Log) Collect(ch chan<- prometheus.Metric) {
	s := l.Stats()
	ch <- prometheus.MustNewConstMetric(l.desc.written, prometheus.CounterValue, float64(s.Written))
	ch <- prometheus.MustNewConstMetric(l.desc.dropped, prometheus.CounterValue, float64(s.Dropped))
	ch <- prometheus.MustNewConstMetric(l.desc.queued, prometheus.GaugeValue, float64(s.QueuedBytes))
}
