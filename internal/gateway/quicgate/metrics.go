package quicgate

import "github.com/prometheus/client_golang/prometheus"

// counts are the gateway's metrics.
type counts struct {
	sessions, retries, moves prometheus.Counter
	refusals                 *prometheus.CounterVec
	gauges                   []prometheus.Collector
}

// reasons are those for which connections are refused.
var reasons = []string{"full", "address", "handshakes", "unfinished"}

func newCounts() counts {
	one := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	c := counts{
		sessions: one("godwit_quic_sessions_total", "Sessions over WebTransport that clients have begun since start."),
		retries:  one("godwit_quic_retries_total", "Handshakes since start before which the client had to prove its address by a retry token."),
		moves:    one("godwit_quic_moves_total", "Changes of clients' addresses since start that their sessions have outlived."),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_quic_refused_total",
			Help: "QUIC connections since start that were refused, by reason: full and address are limits, handshakes is a flood of them, unfinished are handshakes that failed or were abandoned.",
		}, []string{"reason"}),
	}
	for _, r := range reasons {
		c.refusals.WithLabelValues(r)
	}
	return c
}

func (c *counts) refused(why string) { c.refusals.WithLabelValues(why).Inc() }

// watch adds what the gateway holds now.
func (c *counts) watch(g *Gateway) {
	figure := func(name, help string, f func() float64) {
		c.gauges = append(c.gauges, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	figure("godwit_quic_connections", "Open QUIC connections.", func() float64 { return float64(g.open.Load()) })
	figure("godwit_quic_memory_bytes", "Bytes charged to QUIC connections and to what waits for them, of those that quic_memory_mb allows.", func() float64 { return float64(g.held.Load()) })
}

// Collectors lists all metrics.
func (g *Gateway) Collectors() []prometheus.Collector {
	c := &g.counts
	return append([]prometheus.Collector{c.sessions, c.retries, c.moves, c.refusals}, c.gauges...)
}
