package dispatch

import (
	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/push"
)

var descRefused = prometheus.NewDesc("godwit_push_refused_credentials", "Credentials, by channel, that their provider refused: nothing is sent with them until a person has looked.", []string{"channel"}, nil)

// metrics of the package. Labels are bounded: channels, outcomes.
type metrics struct {
	deliveries *prometheus.CounterVec
	putOff     *prometheus.CounterVec
}

func newMetrics(channels []push.Channel) *metrics {
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_push_results_total", Help: "Results of push deliveries since start, by channel and outcome. pending is what godwit_push_put_off_total counts, and goes with the next version.",
		}, []string{"channel", "outcome"}),
		putOff: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_push_put_off_total", Help: "Attempts of push deliveries that ended with another one to come, since start, by channel.",
		}, []string{"channel"}),
	}
	for _, c := range channels { // from the start, so that the first of an outcome is seen as one more
		for o := range outcomes {
			if o != Sending {
				m.deliveries.WithLabelValues(string(c), o.String())
			}
		}
		m.putOff.WithLabelValues(string(c))
	}
	return m
}

func (m *metrics) count(results []Result) {
	for i := range results {
		m.deliveries.WithLabelValues(string(results[i].Channel), results[i].Outcome.String()).Inc()
		if results[i].Outcome == Pending {
			m.putOff.WithLabelValues(string(results[i].Channel)).Inc()
		}
	}
}

var _ prometheus.Collector = (*Dispatcher)(nil)

// Describe implements prometheus.Collector.
func (d *Dispatcher) Describe(ch chan<- *prometheus.Desc) {
	d.metrics.deliveries.Describe(ch)
	d.metrics.putOff.Describe(ch)
	ch <- descRefused
}

// Collect implements prometheus.Collector.
func (d *Dispatcher) Collect(ch chan<- prometheus.Metric) {
	d.metrics.deliveries.Collect(ch)
	d.metrics.putOff.Collect(ch)
	refused := d.paces.Blocked()
	for _, c := range d.channels {
		ch <- prometheus.MustNewConstMetric(descRefused, prometheus.GaugeValue, float64(refused[c]), string(c))
	}
}
