package bus

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are plain atomics, which are read when metrics are scraped.
type counts struct {
	published, received, refused, dropped, requests atomic.Uint64
}

var (
	descLinks     = prometheus.NewDesc("godwit_bus_connections", "Connections to the message bus: one for each app in use, or one to an external NATS.", nil, nil)
	descUp        = prometheus.NewDesc("godwit_bus_up", "Whether an external NATS is connected; 1 with the one within the process.", nil, nil)
	descPublished = prometheus.NewDesc("godwit_bus_published_total", "Messages given to the message bus since start, answers included.", nil, nil)
	descRequests  = prometheus.NewDesc("godwit_bus_requests_total", "Requests given to the message bus since start.", nil, nil)
	descReceived  = prometheus.NewDesc("godwit_bus_received_total", "Messages that came from the message bus since start, one for each subscription of this server.", nil, nil)
	descRefused   = prometheus.NewDesc("godwit_bus_refused_total", "Messages of NATS clients since start that were no topic or request, or too large.", nil, nil)
	descDropped   = prometheus.NewDesc("godwit_bus_dropped_total", "Messages from the message bus dropped since start because they came faster than they were handed on.", nil, nil)
)

// Describe implements prometheus.Collector.
func (b *Bus) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(b, ch) }

// Collect implements prometheus.Collector.
func (b *Bus) Collect(ch chan<- prometheus.Metric) {
	links, up := b.state()
	c := &b.counts
	ch <- prometheus.MustNewConstMetric(descLinks, prometheus.GaugeValue, float64(links))
	ch <- prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, float64(up))
	for _, m := range []struct {
		desc *prometheus.Desc
		n    *atomic.Uint64
	}{
		{descPublished, &c.published},
		{descRequests, &c.requests},
		{descReceived, &c.received},
		{descRefused, &c.refused},
		{descDropped, &c.dropped},
	} {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.n.Load()))
	}
}

// Up reports whether the server behind the bus can be reached; the one within the process always can.
func (b *Bus) Up() bool {
	_, up := b.state()
	return up == 1
}

// state counts connections and reports whether the server can be reached: 1, or 0.
func (b *Bus) state() (links, up int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	up = 1
	for _, l := range b.links {
		nc := l.conn.Load()
		if nc == nil || !nc.IsConnected() {
			if l.changed != nil {
				up = 0
			}
			continue
		}
		links++
	}
	return links, up
}
