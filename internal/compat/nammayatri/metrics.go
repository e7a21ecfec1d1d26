package nammayatri

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Buckets of histograms, the same as those of the replaced service, so that dashboards and alerts stay valid.
var (
	connectionBuckets = []float64{
		0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5, 10,
		20, 30, 40, 50, 60, 70, 80, 90, 100, 200, 300, 400,
	}
	notificationBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 120, 300}
)

// maxCategories limits the number of categories that are counted separately, because publishers choose them freely.
const maxCategories = 200

// otherCategory stands for those beyond.
const otherCategory = "OTHER"

// Metrics are the metrics that the replaced service's dashboards read, with its names, labels and meanings. It observes the store.
type Metrics struct {
	registry *prometheus.Registry
	version  string
	now      func() time.Time

	live       atomic.Pointer[func() int]
	categories categories

	total, delivered, retried, expired, skipped *prometheus.CounterVec
	durations, connections, requests, channel   *prometheus.HistogramVec
	poisoned                                    prometheus.Counter
}

// NewMetrics returns the Metrics of a deployment.
func NewMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), version: version, now: time.Now}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	m.total = counter("total_notifications", "Notifications read from Redis for the first time.", "category")
	m.delivered = counter("delivered_notifications", "Notifications that clients acknowledged.", "category")
	m.retried = counter("retried_notifications", "Notifications sent again for want of an acknowledgement.", "category")
	m.expired = counter("expired_notifications", "Notifications that expired: timeout if they were sent at least once, no_consumer if never.", "category", "reason")
	m.skipped = counter("cleanup_push_skipped", "Expired entries whose cleaning was left for later.", "origin")
	m.durations = histogram("notification_duration_seconds",
		"NACK: from a notification's entry in Redis to a send; ACK: from its last send to the acknowledgement.", notificationBuckets, "version", "ack", "source")
	m.connections = histogram("notification_client_connection_duration", "How long streams lasted, in seconds.", connectionBuckets, "status")
	m.requests = histogram("grpc_request_duration_seconds", "From a request to the head of its answer.", prometheus.DefBuckets,
		"method", "handler", "status_code", "code", "version")
	m.channel = histogram("channel_delay", "How long those who come and go wait for the reader; here nobody waits for one.", prometheus.DefBuckets, "version", "name")
	m.channel.WithLabelValues(version, "ClientConnection")
	m.poisoned = prometheus.NewCounter(prometheus.CounterOpts{Name: "poisoned_notifications", Help: "Entries that could not be read and were set aside."})
	m.registry.MustRegister(m.poisoned, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "connected_clients", Help: "Streams of clients.",
	}, func() float64 {
		if f := m.live.Load(); f != nil {
			return float64((*f)())
		}
		return 0
	}))
	return m
}

// count sets the function that returns the value of connected_clients.
func (m *Metrics) count(live func() int) { m.live.Store(&live) }

// begun counts an accepted request when its stream begins, as the replaced service does.
func (m *Metrics) begun(path string, took time.Duration) { m.request(path, codes.OK, took) }

// refused counts a refused request.
func (m *Metrics) refused(path string, st *status.Status, took time.Duration) {
	m.request(path, st.Code(), took)
}

func (m *Metrics) request(path string, code codes.Code, took time.Duration) {
	name := "INTERNAL_ERROR"
	switch code {
	case codes.OK:
		name = "OK"
	case codes.InvalidArgument:
		name = "INVALID_REQUEST"
	}
	m.requests.WithLabelValues(http.MethodPost, path, strconv.Itoa(int(code)), name, m.version).Observe(took.Seconds())
}

// ended counts a stream.
func (m *Metrics) ended(took time.Duration, timedOut bool) {
	how := "DISCONNECTED"
	if timedOut {
		how = "TIMED_OUT"
	}
	m.connections.WithLabelValues(how).Observe(took.Seconds())
}

// Found counts a notification that was read from Redis for the first time.
func (m *Metrics) Found(category string) { m.total.WithLabelValues(m.categories.of(category)).Inc() }

// Sent counts a sent notification: stored is the time of its entry, how is the cause of sending.
func (m *Metrics) Sent(category string, stored time.Time, again bool, how string) {
	if again {
		m.retried.WithLabelValues(m.categories.of(category)).Inc()
	}
	m.durations.WithLabelValues(m.version, "NACK", how).Observe(max(0, m.now().Sub(stored).Seconds()))
}

// Acked counts an acknowledgement. lastSent is zero for an unknown notification.
func (m *Metrics) Acked(category string, lastSent time.Time) {
	m.delivered.WithLabelValues(m.categories.of(category)).Inc()
	if !lastSent.IsZero() {
		m.durations.WithLabelValues(m.version, "ACK", "client").Observe(max(0, m.now().Sub(lastSent).Seconds()))
	}
}

// Expired counts a notification that expired; sent: it was sent before.
func (m *Metrics) Expired(category string, sent bool) {
	reason := "no_consumer"
	if sent {
		reason = "timeout"
	}
	m.expired.WithLabelValues(m.categories.of(category), reason).Inc()
}

// Poisoned counts an unreadable entry. The store logs it.
func (m *Metrics) Poisoned(string, error) { m.poisoned.Inc() }

// CleanupSkipped counts entries that a cleanup has left for a later one.
func (m *Metrics) CleanupSkipped(origin string) { m.skipped.WithLabelValues(origin).Inc() }
