package pgdb

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

var leasesDesc = prometheus.NewDesc("godwit_cluster_leases", "Leases that this node holds, by the kind of work, which one node at a time does for an app. Several nodes on one database have it alone.", []string{"kind"}, nil)

var _ prometheus.Collector = (*Leases)(nil)

// Describe implements prometheus.Collector.
func (ls *Leases) Describe(ch chan<- *prometheus.Desc) { ch <- leasesDesc }

// Collect implements prometheus.Collector.
func (ls *Leases) Collect(ch chan<- prometheus.Metric) {
	held := map[string]int{}
	ls.mu.Lock()
	for name, o := range ls.own {
		if kind, _, _ := strings.Cut(name, "/"); kind+"/" != ofNodes && o.lease != nil && o.lease.Held() {
			held[kind]++
		}
	}
	ls.mu.Unlock()
	for kind, n := range held {
		ch <- prometheus.MustNewConstMetric(leasesDesc, prometheus.GaugeValue, float64(n), kind)
	}
}
