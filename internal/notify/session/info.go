package session

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Info describes a live session for presence views.
type Info struct {
	Node        string // node of the session; empty: this node
	ID          string // public: the device's name, or one made for this session; never the secret id
	Device      string // empty: unnamed
	Gateway     string // ws, grpc, sse, poll
	ConnectedAt time.Time
	LastSeen    time.Time
	Unacked     int
	Behind      bool
}

func (s *Session) info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Info{
		ID: s.name(), Device: s.device, Gateway: s.t.Name(), Unacked: len(s.flight()), Behind: s.behind,
		ConnectedAt: s.since(),
		LastSeen:    s.hub.start.Add(time.Duration(atomic.LoadUint32(&s.alive)) * tick),
	}
}

// Beside adds further sessions of this node to the metrics: those of a service that Godwit replaces. Nil: there are none.
func (h *Hub) Beside(live func() int) { h.beside = live }

// Live returns the number of sessions on this node.
func (h *Hub) Live() int {
	n := h.reg.len()
	if h.beside != nil {
		n += h.beside()
	}
	return n
}

// counts are plain atomics, so that the hot path costs one addition; they are read when metrics are scraped.
type counts struct {
	delivered, redelivered, acked, nacked atomic.Uint64

	took took

	mu       sync.Mutex
	goodbyes map[string]uint64 // by reason: a fixed small set
}

// took has the histograms of the times that notifications took over connections.
type took struct{ delivered, acked prometheus.Histogram }

// millis is a time in milliseconds since the hub began, truncated to 32 bits: differences of less than 24 days are exact.
func (h *Hub) millis(t time.Time) uint32 { return uint32(t.Sub(h.start).Milliseconds()) } // a remainder

func (c *counts) goodbye(reason string) {
	c.mu.Lock()
	if c.goodbyes == nil {
		c.goodbyes = make(map[string]uint64)
	}
	c.goodbyes[reason]++
	c.mu.Unlock()
}

// Counts returns, since the start, how often notifications were written to sessions, how often these were repetitions, and how many were
// acknowledged.
func (h *Hub) Counts() (delivered, redelivered, acked uint64) {
	return h.counts.delivered.Load(), h.counts.redelivered.Load(), h.counts.acked.Load()
}

var (
	descLive        = prometheus.NewDesc("godwit_sessions", "Live sessions on this node.", nil, nil)
	descGateways    = prometheus.NewDesc("godwit_sessions_by_gateway", "Live sessions on this node by the gateway of their protocol.", []string{"gateway"}, nil)
	descDelivered   = prometheus.NewDesc("godwit_deliveries_total", "Notifications written to sessions since start, redeliveries included.", nil, nil)
	descRedelivered = prometheus.NewDesc("godwit_redeliveries_total", "Notifications written again for want of an acknowledgement since start.", nil, nil)
	descAcked       = prometheus.NewDesc("godwit_acks_total", "Acknowledgements received from sessions since start.", nil, nil)
	descNacked      = prometheus.NewDesc("godwit_nacks_total", "Negative acknowledgements received from sessions since start.", nil, nil)
	descGoodbyes    = prometheus.NewDesc("godwit_goodbyes_total", "Sessions ended by the server since start, by reason.", []string{"reason"}, nil)
)

// Describe implements prometheus.Collector.
func (h *Hub) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descLive, descGateways, descDelivered, descRedelivered, descAcked, descNacked, descGoodbyes} {
		ch <- d
	}
	h.counts.took.delivered.Describe(ch)
	h.counts.took.acked.Describe(ch)
}

// Collect implements prometheus.Collector.
func (h *Hub) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	ch <- prometheus.MustNewConstMetric(descLive, prometheus.GaugeValue, float64(h.Live()))
	for name, n := range h.byGateway(func(*Session) bool { return true }) {
		ch <- prometheus.MustNewConstMetric(descGateways, prometheus.GaugeValue, float64(n), name)
	}
	counter(descDelivered, h.counts.delivered.Load())
	counter(descRedelivered, h.counts.redelivered.Load())
	counter(descAcked, h.counts.acked.Load())
	counter(descNacked, h.counts.nacked.Load())
	h.counts.took.delivered.Collect(ch)
	h.counts.took.acked.Collect(ch)
	h.counts.mu.Lock()
	defer h.counts.mu.Unlock()
	for reason, n := range h.counts.goodbyes {
		counter(descGoodbyes, n, reason)
	}
}

// ByGateway counts an app's sessions on this node by the gateway they came through.
func (h *Hub) ByGateway(app string) map[string]int {
	return h.byGateway(func(s *Session) bool { return s.app == app })
}

func (h *Hub) byGateway(counted func(*Session) bool) map[string]int {
	counts := make(map[string]int)
	var some []*Session
	for i := range h.reg.shards {
		some = h.reg.shards[i].sessions(some[:0])
		for _, s := range some {
			if counted(s) {
				counts[s.t.Name()]++
			}
		}
	}
	return counts
}

// Goodbyes counts the sessions that the server has ended since the start, by reason.
func (h *Hub) Goodbyes() map[string]uint64 {
	h.counts.mu.Lock()
	defer h.counts.mu.Unlock()
	return maps.Clone(h.counts.goodbyes)
}
