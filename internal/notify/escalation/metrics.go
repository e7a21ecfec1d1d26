package escalation

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

type metrics struct {
	accepted, failed atomic.Uint64 // of steps, over all channels

	steps *prometheus.CounterVec
	delay *prometheus.HistogramVec

	mu               sync.Mutex
	delivered, acked map[push.Channel]prometheus.Histogram // how long notifications took
}

func newMetrics() *metrics {
	return &metrics{delivered: make(map[push.Channel]prometheus.Histogram), acked: make(map[push.Channel]prometheus.Histogram), steps: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "godwit_escalation_steps_total", Help: "Sends of escalation steps that have ended since start, by what became of them; skipped: a step reached nobody; put_off: it waits for the end of quiet hours.",
	}, []string{"channel", "outcome"}), delay: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "godwit_escalation_delay_seconds", Help: "From when a step was due to when its message was accepted by its provider and that is on disk, of steps that began since start.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
	}, []string{"channel"})}
}

func (m *metrics) count(results []dispatch.Result) {
	for i := range results {
		if o := results[i].Outcome; o != dispatch.Pending {
			m.steps.WithLabelValues(string(results[i].Channel), o.String()).Inc()
			switch o {
			case dispatch.Accepted:
				m.accepted.Add(1)
			case dispatch.Refused, dispatch.Expired, dispatch.Unknown:
				m.failed.Add(1)
			case dispatch.Pending, dispatch.Sending, dispatch.Suppressed, dispatch.TakenBack:
			}
		}
	}
}

// tookUntilDelivered records the time until a provider accepted a notification's message.
func (m *metrics) tookUntilDelivered(c push.Channel, d time.Duration) {
	m.of(m.delivered, c, mailbox.NewDelivered).Observe(max(d, 0).Seconds())
}

// tookUntilAcked records the time until a message's receiver acknowledged it.
func (m *metrics) tookUntilAcked(c push.Channel, d time.Duration) {
	m.of(m.acked, c, mailbox.NewAcked).Observe(max(d, 0).Seconds())
}

// of returns a channel's histogram.
func (m *metrics) of(all map[push.Channel]prometheus.Histogram, c push.Channel, first func(string) prometheus.Histogram) prometheus.Histogram {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := all[c]
	if h == nil {
		h = first(string(c))
		all[c] = h
	}
	return h
}

// Counts returns how many sends were accepted by their providers since the start, and how many failed or have an unknown outcome.
func (s *Service) Counts() (accepted, failed uint64) {
	return s.metrics.accepted.Load(), s.metrics.failed.Load()
}

// Describe implements prometheus.Collector. A channel's histograms appear when the channel is used.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	s.metrics.steps.Describe(ch)
	s.metrics.delay.Describe(ch)
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	m := s.metrics
	m.steps.Collect(ch)
	m.delay.Collect(ch)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, all := range []map[push.Channel]prometheus.Histogram{m.delivered, m.acked} {
		for _, h := range all {
			h.Collect(ch)
		}
	}
}
