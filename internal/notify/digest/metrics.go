package digest

import "github.com/prometheus/client_golang/prometheus"

// counters are the metrics of digests.
type counters struct {
	items   *prometheus.CounterVec
	digests *prometheus.CounterVec
	untold  prometheus.Counter
}

func (c *counters) init() {
	c.items = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "godwit_digest_items_total",
		Help: "Notifications for digests since start, by what became of them: gathered, duplicate (published again with the same id), digested, expired, replaced or recalled.",
	}, []string{"outcome"})
	c.digests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "godwit_digests_total",
		Help: "Digests that this node has ended since start, by outcome: sent, empty (all items were recalled or had expired), expired (not stored in time), or retried.",
	}, []string{"outcome"})
	c.untold = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "godwit_digest_plain_total",
		Help: "Digests that got a plain text since start, because their category's template is missing or needs a variable that they do not have.",
	})
	for _, outcome := range []string{"gathered", "duplicate", "digested", "expired", "replaced", "recalled"} {
		c.items.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"sent", "empty", "expired", "retried"} {
		c.digests.WithLabelValues(outcome)
	}
}

var (
	descWaiting      = prometheus.NewDesc("godwit_digests_waiting", "Digests that wait, in the whole cluster, counted every half minute.", nil, nil)
	descItemsWaiting = prometheus.NewDesc("godwit_digest_items_waiting", "Notifications that wait in digests, in the whole cluster, counted every half minute.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) {
	ch <- descWaiting
	ch <- descItemsWaiting
	s.metrics.items.Describe(ch)
	s.metrics.digests.Describe(ch)
	s.metrics.untold.Describe(ch)
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	var all Count
	s.mu.Lock()
	for _, c := range s.waiting {
		all.Digests += c.Digests
		all.Items += c.Items
	}
	s.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(descWaiting, prometheus.GaugeValue, float64(all.Digests))
	ch <- prometheus.MustNewConstMetric(descItemsWaiting, prometheus.GaugeValue, float64(all.Items))
	s.metrics.items.Collect(ch)
	s.metrics.digests.Collect(ch)
	s.metrics.untold.Collect(ch)
}
