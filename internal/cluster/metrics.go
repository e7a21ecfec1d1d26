package cluster

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are atomic counters, which are read when metrics are scraped.
type counts struct {
	routed, received, undecoded, rereads atomic.Uint64
}

var (
	descNodes     = prometheus.NewDesc("godwit_cluster_nodes", "Other nodes: alive, if they were heard lately, or missing. A node that was lost is missing until it is started again or taken off (godwit cluster forget).", []string{"state"}, nil)
	descRouted    = prometheus.NewDesc("godwit_cluster_routed_total", "Notifications sent to other nodes since start.", nil, nil)
	descReceived  = prometheus.NewDesc("godwit_cluster_received_total", "Notifications that came from other nodes since start.", nil, nil)
	descUndecoded = prometheus.NewDesc("godwit_cluster_undecoded_total", "Messages of other nodes that could not be read since start; sessions read the store instead.", nil, nil)
	descUnsent    = prometheus.NewDesc("godwit_cluster_unsent_total", "Messages to other nodes that could not be sent since start; their sessions read the store instead.", nil, nil)
	descRereads   = prometheus.NewDesc("godwit_cluster_rereads_total", "How often all sessions compared themselves with the store since start because something from other nodes may have been lost.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *Cluster) Describe(ch chan<- *prometheus.Desc) { Describe(ch) }

// Describe describes the metrics of a cluster's nodes, even without a cluster.
func Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descNodes, descRouted, descReceived, descUndecoded, descUnsent, descRereads} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Cluster) Collect(ch chan<- prometheus.Metric) {
	alive, missing := 0, 0
	for _, n := range c.Nodes() {
		if n.Missing {
			missing++
		} else {
			alive++
		}
	}
	ch <- prometheus.MustNewConstMetric(descNodes, prometheus.GaugeValue, float64(alive), "alive")
	ch <- prometheus.MustNewConstMetric(descNodes, prometheus.GaugeValue, float64(missing), "missing")
	for _, m := range []struct {
		desc *prometheus.Desc
		n    uint64
	}{
		{descRouted, c.counts.routed.Load()},
		{descReceived, c.counts.received.Load()},
		{descUndecoded, c.counts.undecoded.Load()},
		{descUnsent, c.line.Dropped()},
		{descRereads, c.counts.rereads.Load()},
	} {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.n))
	}
}
