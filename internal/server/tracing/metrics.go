package tracing

import "github.com/prometheus/client_golang/prometheus"

var (
	descSpans    = prometheus.NewDesc("godwit_trace_spans_total", "Spans of traces since start: sent to the collector, failed to be sent, or dropped because too many waited.", []string{"outcome"}, nil)
	descFollowed = prometheus.NewDesc("godwit_trace_followed", "Copies of notifications that traces follow now.", nil, nil)
	descKept     = prometheus.NewDesc("godwit_trace_unsaved", "Copies that are followed, or not any more, of which a restart would not know yet.", nil, nil)
	descFull     = prometheus.NewDesc("godwit_trace_not_followed_total", "Copies of sampled publishes since start that are not followed because too many are.", nil, nil)
	descReports  = prometheus.NewDesc("godwit_otlp_reports_total", "Times since start that all figures were sent to the collector of OpenTelemetry, or could not be.", []string{"outcome"}, nil)
)

var (
	_ prometheus.Collector = (*Tracer)(nil)
	_ prometheus.Collector = (*Reporter)(nil)
)

// Describe describes the metrics of traces and reports, even if both are off.
func Describe(ch chan<- *prometheus.Desc) {
	(*Tracer)(nil).Describe(ch)
	(*Reporter)(nil).Describe(ch)
}

// Describe implements prometheus.Collector.
func (t *Tracer) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSpans, descFollowed, descKept, descFull} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (t *Tracer) Collect(ch chan<- prometheus.Metric) {
	for outcome, n := range map[string]uint64{"sent": t.queue.sent.Load(), "failed": t.queue.failed.Load(), "dropped": t.queue.dropped.Load()} {
		ch <- prometheus.MustNewConstMetric(descSpans, prometheus.CounterValue, float64(n), outcome)
	}
	t.mu.Lock()
	unsaved := len(t.add) + len(t.drop) + t.saving
	t.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(descFollowed, prometheus.GaugeValue, float64(t.open.Load()))
	ch <- prometheus.MustNewConstMetric(descKept, prometheus.GaugeValue, float64(unsaved))
	ch <- prometheus.MustNewConstMetric(descFull, prometheus.CounterValue, float64(t.full.Load()))
}
