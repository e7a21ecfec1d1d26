package escalation

import (
	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/dispatch"
)

type metrics struct{ steps *prometheus.CounterVec }

func newMetrics() *metrics {
	return &metrics{steps: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "godwit_escalation_steps_total", Help: "Sends of escalation steps that have ended since start, by what became of them; skipped: a step reached nobody.",
	}, []string{"channel", "outcome"})}
}

func (m *metrics) count(results []dispatch.Result) {
	for i := range results {
		if o := results[i].Outcome; o != dispatch.Pending {
			m.steps.WithLabelValues(string(results[i].Channel), o.String()).Inc()
		}
	}
}

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) { s.metrics.steps.Describe(ch) }

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) { s.metrics.steps.Collect(ch) }
