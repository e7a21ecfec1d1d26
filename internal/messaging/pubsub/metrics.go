package pubsub

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are plain atomics, so that the hot path costs one addition; they are read when metrics are scraped.
type counts struct {
	published, sent, dropped atomic.Uint64
	subscriptions            atomic.Int64
}

// Counts holds the numbers of events since the start, and the number of subscriptions.
type Counts struct {
	Subscriptions            int
	Published, Sent, Dropped uint64
}

// Counts returns the figures of this node.
func (s *Service) Counts() Counts {
	c := &s.counts
	return Counts{int(c.subscriptions.Load()), c.published.Load(), c.sent.Load(), c.dropped.Load()}
}

var (
	descSubscriptions = prometheus.NewDesc("godwit_topic_subscriptions", "Patterns of topics that sessions on this node subscribe to, each session's counted.", nil, nil)
	descPublished     = prometheus.NewDesc("godwit_topic_publishes_total", "Messages published to topics through this node's API since start.", nil, nil)
	descSent          = prometheus.NewDesc("godwit_topic_messages_total", "Topic messages written to sessions since start.", nil, nil)
	descDropped       = prometheus.NewDesc("godwit_topic_dropped_total", "Topic messages since start that sessions were told of as a gap, because they or this node took them too slowly.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Service) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect implements prometheus.Collector.
func (s *Service) Collect(ch chan<- prometheus.Metric) {
	c := s.Counts()
	ch <- prometheus.MustNewConstMetric(descSubscriptions, prometheus.GaugeValue, float64(c.Subscriptions))
	ch <- prometheus.MustNewConstMetric(descPublished, prometheus.CounterValue, float64(c.Published))
	ch <- prometheus.MustNewConstMetric(descSent, prometheus.CounterValue, float64(c.Sent))
	ch <- prometheus.MustNewConstMetric(descDropped, prometheus.CounterValue, float64(c.Dropped))
}
