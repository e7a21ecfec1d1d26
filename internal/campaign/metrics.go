package campaign

import (
	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/push"
)

// metrics of the package. Labels are bounded: channels, outcomes, reactions.
type metrics struct {
	deliveries *prometheus.CounterVec
	reactions  *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_push_results_total", Help: "Results of push deliveries since start, by channel and outcome; pending: put off.",
		}, []string{"channel", "outcome"}),
		reactions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_push_reactions_total", Help: "Messages of campaigns first reported as shown, clicked or dismissed since start.",
		}, []string{"reaction"}),
	}
}

func (m *metrics) count(ch push.Channel, o Outcome) {
	m.deliveries.WithLabelValues(string(ch), o.String()).Inc()
}

func (m *metrics) react(r Reaction) { m.reactions.WithLabelValues(r.String()).Inc() }

var _ prometheus.Collector = (*Service)(nil)

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	s.metrics.deliveries.Describe(ch)
	s.metrics.reactions.Describe(ch)
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	s.metrics.deliveries.Collect(ch)
	s.metrics.reactions.Collect(ch)
}
