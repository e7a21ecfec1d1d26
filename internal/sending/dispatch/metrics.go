package dispatch

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/sending/push"
)

var descRefused = prometheus.NewDesc("godwit_push_refused_credentials", "Credentials, by channel, that their provider refused: nothing is sent with them until a person has looked.", []string{"channel"}, nil)

// metrics of the package. The number of labels is bounded: channels and outcomes.
type metrics struct {
	deliveries *prometheus.CounterVec
	putOff     *prometheus.CounterVec
	ended      map[push.Channel]*[outcomes]atomic.Uint64 // the same numbers as deliveries, in a readable form
}

func newMetrics(channels []push.Channel) *metrics {
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_push_results_total", Help: "Results of push deliveries since start, by channel and outcome. pending is what godwit_push_put_off_total counts, and goes with the next version.",
		}, []string{"channel", "outcome"}),
		putOff: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_push_put_off_total", Help: "Attempts of push deliveries that ended with another one to come, since start, by channel.",
		}, []string{"channel"}),
		ended: make(map[push.Channel]*[outcomes]atomic.Uint64, len(channels)),
	}
	for _, c := range channels { // present from the start, so that the first event of an outcome shows as an increase
		for o := range outcomes {
			if o != Sending {
				m.deliveries.WithLabelValues(string(c), o.String())
			}
		}
		m.putOff.WithLabelValues(string(c))
		m.ended[c] = new([outcomes]atomic.Uint64)
	}
	return m
}

func (m *metrics) count(results []Result) {
	for i := range results {
		m.deliveries.WithLabelValues(string(results[i].Channel), results[i].Outcome.String()).Inc()
		if ended := m.ended[results[i].Channel]; ended != nil && results[i].Outcome < outcomes {
			ended[results[i].Outcome].Add(1)
		}
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

// Refused counts the credentials of each channel that their provider refused.
func (d *Dispatcher) Refused() map[push.Channel]int { return d.paces.Blocked() }

// Ended is a channel with an outcome of its messages.
type Ended struct {
	Channel push.Channel
	Outcome Outcome
}

// Counts returns how many messages have ended since the start. A message postponed to a later attempt has not ended.
func (d *Dispatcher) Counts() map[Ended]uint64 {
	counts := make(map[Ended]uint64)
	for _, c := range d.channels {
		for o := range outcomes {
			if o == Sending || o == Pending {
				continue
			}
			counts[Ended{c, o}] = d.metrics.ended[c][o].Load()
		}
	}
	return counts
}
