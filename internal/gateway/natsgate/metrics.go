package natsgate

import "github.com/prometheus/client_golang/prometheus"

var (
	descLive    = prometheus.NewDesc("godwit_nats_connections", "Connections of NATS clients.", nil, nil)
	descOpened  = prometheus.NewDesc("godwit_nats_connections_opened_total", "NATS clients let in since start.", nil, nil)
	descUnknown = prometheus.NewDesc("godwit_nats_connections_refused_total", "NATS clients not let in since start, for want of valid credentials or because they said nothing in time.", nil, nil)
	descRefused = prometheus.NewDesc("godwit_nats_operations_refused_total", "Subscriptions and messages of NATS clients since start that their rights do not allow.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect implements prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	live := len(s.conns)
	s.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(descLive, prometheus.GaugeValue, float64(live))
	ch <- prometheus.MustNewConstMetric(descOpened, prometheus.CounterValue, float64(s.counts.opened.Load()))
	ch <- prometheus.MustNewConstMetric(descUnknown, prometheus.CounterValue, float64(s.counts.unknown.Load()))
	ch <- prometheus.MustNewConstMetric(descRefused, prometheus.CounterValue, float64(s.counts.refused.Load()))
}
