package campaign

import "github.com/prometheus/client_golang/prometheus"

// metrics of the package. Labels are bounded: reactions.
type metrics struct {
	reactions *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		reactions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_push_reactions_total", Help: "Messages of campaigns first reported as shown, clicked or dismissed since start.",
		}, []string{"reaction"}),
	}
}

func (m *metrics) react(r Reaction) { m.reactions.WithLabelValues(r.String()).Inc() }

var _ prometheus.Collector = (*Service)(nil)

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) { s.metrics.reactions.Describe(ch) }

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) { s.metrics.reactions.Collect(ch) }
