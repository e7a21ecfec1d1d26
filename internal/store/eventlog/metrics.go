package eventlog

import "github.com/prometheus/client_golang/prometheus"

// descriptions of the queue's metrics.
type descriptions struct{ written, dropped, queued *prometheus.Desc }

func newDescriptions() descriptions {
	return descriptions{
		written: prometheus.NewDesc("godwit_events_written_total", "Events stored in the event log.", nil, nil),
		dropped: prometheus.NewDesc("godwit_events_dropped_total", "Events lost because the event log could not be written fast enough or at all.", nil, nil),
		queued:  prometheus.NewDesc("godwit_events_queued_bytes", "Size of the events waiting to be written.", nil, nil),
	}
}

var _ prometheus.Collector = (*Queue)(nil)

// Describe implements prometheus.Collector.
func (q *Queue) Describe(ch chan<- *prometheus.Desc) {
	ch <- q.desc.written
	ch <- q.desc.dropped
	ch <- q.desc.queued
}

// Collect implements prometheus.Collector.
func (q *Queue) Collect(ch chan<- prometheus.Metric) {
	s := q.Stats()
	ch <- prometheus.MustNewConstMetric(q.desc.written, prometheus.CounterValue, float64(s.Written))
	ch <- prometheus.MustNewConstMetric(q.desc.dropped, prometheus.CounterValue, float64(s.Dropped))
	ch <- prometheus.MustNewConstMetric(q.desc.queued, prometheus.GaugeValue, float64(s.QueuedBytes))
}
