package quicgate

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are the gateway's metrics.
type counts struct {
	sessions, retries, moves prometheus.Counter
	refusals, ends           *prometheus.CounterVec
	gauges                   []prometheus.Collector
	of                       atomic.Pointer[Gateway] // nil: QUIC is off
}

// reasons are those for which connections are refused.
var reasons = []string{"full", "address", "handshakes", "unfinished"}

func newCounts() *counts {
	one := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	c := &counts{
		sessions: one("godwit_quic_sessions_total", "Sessions over WebTransport that clients have begun since start."),
		retries:  one("godwit_quic_retries_total", "Handshakes since start before which the client had to prove its address by a retry token."),
		moves:    one("godwit_quic_moves_total", "Changes of clients' addresses since start that their sessions have outlived."),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "godwit_quic_refused_total",
			Help: "QUIC connections since start that were refused, by reason: full and address are limits, handshakes is a flood of them, unfinished are handshakes that failed or were abandoned.",
		}, []string{"reason"}),
	}
	c.ends = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "godwit_quic_ended_total",
		Help: "Sessions over WebTransport since start that have ended, by who ended them: client, server, or lost with their stream or connection.",
	}, []string{"by"})
	for _, by := range []party{client, server, nobody} {
		c.ends.WithLabelValues(string(by))
	}
	for _, r := range reasons {
		c.refusals.WithLabelValues(r)
	}
	figure := func(name, help string, f func(*Gateway) int64) {
		c.gauges = append(c.gauges, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			g := c.of.Load()
			if g == nil {
				return 0
			}
			return float64(f(g))
		}))
	}
	figure("godwit_quic_connections", "Open QUIC connections.", func(g *Gateway) int64 { return g.open.Load() })
	figure("godwit_quic_memory_bytes", "Bytes charged to QUIC connections and to what waits for them, of those that quic_memory_mb allows.", func(g *Gateway) int64 { return g.budget.Held() })
	return c
}

func (c *counts) refused(why string) { c.refusals.WithLabelValues(why).Inc() }

// collectors lists all metrics.
func (c *counts) collectors() []prometheus.Collector {
	return append([]prometheus.Collector{c.sessions, c.retries, c.moves, c.refusals, c.ends}, c.gauges...)
}

// ended records how a session has ended. Nobody changes that any more.
func (g *Gateway) ended(c *conn) {
	g.counts.ends.WithLabelValues(string(c.by)).Inc()
	g.cfg.Log.Debug("QUIC session ended", "by", string(c.by), "code", c.code, "reason", c.why, "addr", c.line.conn.RemoteAddr())
}
